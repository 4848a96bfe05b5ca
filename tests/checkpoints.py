#!/usr/bin/env python3
"""Every spelling of every component gives what the diffusers layout with the same values gives; damaged files are refused by name.
usage: tests/checkpoints.py build/zoetrope      (ends with "N passed, N failed")"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import dialects as d
from counts import check, close

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/a"
MODEL = GOLDEN / "model"
zoetrope = Path(sys.argv[1]).resolve()
random = np.random.default_rng(8)
work = Path(tempfile.mkdtemp(prefix="zt_checkpoints_"))


def model(name, component):
    return d.linked(MODEL, work / name, component)


def run(folder, *args):
    config = work / "config.json"
    config.write_text(json.dumps(json.loads((GOLDEN / "cases.json").read_text())["config"]))
    out = work / "trace.safetensors"
    r = subprocess.run([zoetrope, "generate", "a red star", "--model", folder, "--plan", "exact", "--config", config, "--frames", "22", "--size", "32x32", "--steps", "3",
                        "--trace", out, "-o", work / "o.mp4", "-q", *args], capture_output=True, text=True, timeout=300)
    return (d.load(out), "") if r.returncode == 0 else (None, r.stderr.strip())


def same(what, folder, want, tolerance, args=()):
    got, message = run(folder, *args)
    if got is None or want is None:
        return check(f"{what}: {message[-300:]}", False)
    worst = 0.0
    for key, t in want.items():
        if key.startswith(("dit.te", "dit.ti")) and "curve" in what:     # no embedding there
            continue
        if t[0] != "F32" or key not in got or got[key][1].shape != t[1].shape:
            if key not in got or got[key][1].shape != t[1].shape:
                return check(f"{what}: {key} is not the same tensor", False)
            continue
        a, b = got[key][1].astype(np.float64), t[1].astype(np.float64)
        worst = max(worst, float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-12)))
    check(f"{what}: relative L2 {worst:.2e}, wanted at most {tolerance:g}", worst <= tolerance)
    print(f"{what:44s} {worst:.1e}", flush=True)


def reference(sd, cfg, task):
    """Our own result of the same values in the diffusers layout, float32."""
    folder = model("reference", "transformer")
    d.save(folder / "transformer/diffusion_pytorch_model.safetensors", sd)
    (folder / "transformer/config.json").write_text(json.dumps(cfg))
    return run(folder, *task)[0]


picture = work / "first.png"
Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(picture)
T2VA, FL2VA, REF = (), ("--task", "fl2va", "--first-frame", picture), ("--task", "ref2va", "--reference", picture)

# The transformer.
sd, cfg = d.load(MODEL / "transformer/diffusion_pytorch_model.safetensors"), json.loads((MODEL / "transformer/config.json").read_text())
released = {"_class_name": "MiniMaxH3DiTModel", "hidden_size": cfg["hidden_size"]}
stacked = d.original_dit(sd, cfg, False)
want = run(MODEL)[0]
for part, task, base in (("transformer", T2VA, want), ("transformer_ref", REF, run(MODEL, *REF)[0])):
    own = d.load(MODEL / part / "diffusion_pytorch_model.safetensors")
    shards = d.original_dit(own, cfg, True)
    names = list(shards)
    for name, config in (("with its config", released), ("with its index only", None)):
        folder = model("shards", part)
        where = {n: f"model-0000{1 + (i >= len(names) // 2)}-of-00002.safetensors" for i, n in enumerate(names)}
        for f in set(where.values()):
            d.save(folder / part / f, {n: shards[n] for n in names if where[n] == f})
        (folder / part / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
        if config:
            (folder / part / "config.json").write_text(json.dumps(config))
        same(f"{part}: released shards, {name}", folder, base, 0, task)
    folder = model("single", part)
    d.save(folder / part / "minimax_h3_bf16.safetensors", {"model.diffusion_model." + k: t for k, t in d.original_dit(own, cfg, False).items()})
    same(f"{part}: single file, bf16, prefixed", folder, base, 0, task)

half = {k: ("F16", d.widen(t).astype(np.float16)) if t[0] == "BF16" else t for k, t in stacked.items()}
kinds = {"fp16": (half, half), "fp8 scaled": d.quantised(stacked, d.fp8), "int8": d.quantised(stacked, d.int8(0)),
         "int8 rotated": d.quantised(stacked, d.int8(16)), "nvfp4": d.quantised(stacked, d.nvfp4)}
for name, (file, means) in kinds.items():
    folder = model("quantised", "transformer")
    d.save(folder / "transformer/model_of_some_name.safetensors", file)
    same(f"transformer: single file, {name}", folder, reference(d.diffusers_dit(means, cfg["num_attention_heads"]), cfg, T2VA), 2e-6 if "rotated" in name else 0)
fp8 = kinds["fp8 scaled"][0]
plain = {k: t for k, t in fp8.items() if not k.endswith(".comfy_quant")}
folder = model("metadata", "transformer")
layers = {k[:-12]: {"format": "float8_e4m3fn"} for k in fp8 if k.endswith(".comfy_quant")}
d.save(folder / "transformer/a.safetensors", plain, {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers})})
same("transformer: fp8, stated in the metadata", folder, reference(d.diffusers_dit(kinds["fp8 scaled"][1], cfg["num_attention_heads"]), cfg, T2VA), 0)
# The table has rank 8 of the embedding's 32 and bf16 weights: the reference measures 1e-3 .. 2.6e-3 on velocities for it.
for name, file in (("bf16", d.curve(stacked)), ("int8 rotated", d.quantised(d.curve(stacked), d.int8(16))[0])):
    folder = model("curve", "transformer")
    d.save(folder / "transformer/pruned.safetensors", file)
    same(f"transformer: curve table, {name}", folder, want, 1e-2 if name == "bf16" else 3e-2)
for of in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"):
    folder = model("gguf", "transformer")
    means = d.gguf_file(folder / "transformer/h3.gguf", stacked, of, random)
    same(f"transformer: GGUF, {of}", folder, reference(d.diffusers_dit(means, cfg["num_attention_heads"]), cfg, T2VA), 0)

# The other components.
fl2va = run(MODEL, *FL2VA)[0]
vae = d.load(MODEL / "vae/diffusion_pytorch_model.safetensors")
vae_config = json.loads((MODEL / "vae/config.json").read_text())
folder = model("vae", "vae")
shutil.copy(MODEL / "vae/config.json", folder / "vae")
d.save(folder / "vae/model.safetensors", d.original_vae(vae, vae_config["decoder_num_attention_heads"]))
same("vae: released spelling", folder, fl2va, 0, FL2VA)
audio_config = json.loads((MODEL / "audio_vae/config.json").read_text())
folder = model("audio", "audio_vae")
shutil.copy(MODEL / "audio_vae/config.json", folder / "audio_vae")
d.save(folder / "audio_vae/audio.safetensors", d.folded_audio(d.load(MODEL / "audio_vae/diffusion_pytorch_model.safetensors"), audio_config))
same("audio_vae: weight norm folded", folder, fl2va, 1e-5, FL2VA)
folder = model("text", "text_encoder")
shutil.copy(MODEL / "text_encoder/config.json", folder / "text_encoder")
d.save(folder / "text_encoder/qwen.safetensors", d.editors_text(d.load(MODEL / "text_encoder/model.safetensors"), 50))
same("text_encoder: cut, the editors' names", folder, fl2va, 0, FL2VA)


# Adapters: every spelling equals the merge in float64.
def lora(what, file, means, args=None, metadata=None, tolerance=2e-6):
    path = work / "a.safetensors"
    d.save(path, file, metadata)
    same(f"lora: {what}", MODEL, reference(means, cfg, T2VA), tolerance, args or ["--lora", path])


layers = d.lora_layers(sd, random)
heads = cfg["num_attention_heads"]
stacked_layers, head_layers = d.original_loras(layers, 0), d.original_loras(layers, heads)
A, B = ".lora_A.weight", ".lora_B.weight"
whole = d.merged(sd, layers, 1)
lora("diffusers", d.named(layers, "transformer.", A, B), whole)
lora("PEFT, prefixed twice", d.named(layers, "base_model.model.base_model.model.", A, B), whole)
lora("graph editors, fused", d.named(stacked_layers, "diffusion_model.", A, B), whole)
lora("released names, kohya's endings", d.named(stacked_layers, "", ".lora_down.weight", ".lora_up.weight"), whole)
lora("DiffSynth, head by head", d.named(head_layers, "", ".lora_A.default.weight", ".lora_B.default.weight"), whole)
lora("bf16 factors", {k: ("BF16", d.to_bf16(t[1])) for k, t in d.named(layers, "", A, B).items()},
     d.merged(sd, {k: tuple(d.widen(("BF16", d.to_bf16(x))) for x in v) for k, v in layers.items()}, 1))
for name, file in (("kohya, flat", d.named({k: v for k, v in layers.items()}, "lora_unet_", ".lora_down.weight", ".lora_up.weight", 3, True)),
                   ("diffusers", d.named(layers, "transformer.", A, B, 3))):
    lora(f"{name}, alpha 3", file, d.merged(sd, layers, 1, 3))
lora("alpha in diffusers' metadata", d.named(layers, "transformer.", A, B), d.merged(sd, layers, 1, 3), metadata={"lora_adapter_metadata": json.dumps({"transformer.lora_alpha": 3, "transformer.r": 4})})
other = d.lora_layers(sd, random)
d.save(work / "b.safetensors", d.named(d.original_loras(other, 0), "diffusion_model.", A, B))
lora("two at once with strengths", d.named(layers, "transformer.", A, B), d.merged(d.merged(sd, layers, 0.75), other, -0.5),
     ["--lora", f"{work}/a.safetensors:0.75", "--lora", f"{work}/b.safetensors:-0.5"])
q, fc1, bias = "transformer_blocks.0.attn.to_q.weight", "transformer_blocks.1.ff.net.0.proj.weight", "proj_out.bias"
delta = {n: random.standard_normal(sd[n][1].shape).astype(np.float32) * 0.02 for n in (q, fc1, bias)}
means = {**sd, q: ("F32", delta[q]), fc1: ("F32", d.widen(sd[fc1]) + d.swap(delta[fc1])), bias: ("F32", d.widen(sd[bias]) + delta[bias])}
lora("set_weight, diff, diff_b", {q[:-7] + ".set_weight": ("F32", delta[q]), "blocks.1.mlp.fc1.diff": ("F32", delta[fc1]), "final_layer.video_out.diff_b": ("F32", delta[bias])}, means)
w1, left, right = (random.standard_normal(s).astype(np.float32) * 0.2 for s in ((8, 4), (sd[q][1].shape[0] // 8, 2), (2, sd[q][1].shape[1] // 4)))
lora("LoKr", {q[:-7] + ".lokr_w1": ("F32", w1), q[:-7] + ".lokr_w2_a": ("F32", left), q[:-7] + ".lokr_w2_b": ("F32", right), q[:-7] + ".alpha": ("F32", np.float32(3))},
     {**sd, q: ("F32", d.widen(sd[q]) + np.kron(w1, 1.5 * left @ right))})
# nano/merge_lora.py: the folder that it writes gives what the adapter gives on the fly, its shifts included.
reference({k: ("F32", d.widen(t)) for k, t in sd.items()}, cfg, T2VA)
d.save(work / "a.safetensors", {k: ("BF16", d.to_bf16(t[1])) for k, t in d.named(layers, "transformer.", A, B).items()},
       {"evaluations": "2", "video_shift": "6", "audio_shift": "2", "lora_adapter_metadata": json.dumps({"transformer.lora_alpha": 3, "transformer.r": 2})})
fly, message = run(work / "reference", "--lora", work / "a.safetensors")
merge = subprocess.run([sys.executable, ROOT / "nano/merge_lora.py", work / "reference", work / "a.safetensors", work / "merged"], capture_output=True, text=True)
check(f"merge_lora says what the adapter wants: {merge.stdout}{merge.stderr}{message}", merge.returncode == 0 and "evaluations 2" in merge.stdout)
same("merge_lora, shifts too", work / "merged", fly, 2e-6)
merge = subprocess.run([sys.executable, ROOT / "nano/merge_lora.py", work / "reference", MODEL / "vae/diffusion_pytorch_model.safetensors", work / "refused"], capture_output=True, text=True)
check(f"merge_lora refuses what is no adapter: {merge.stderr}", merge.returncode == 1 and "not lora_A or lora_B" in merge.stderr and not (work / "refused").exists())
# On quantised weights the sum is taken after they are widened.
folder = model("quantised", "transformer")
d.save(folder / "transformer/fp8.safetensors", fp8)
(folder / "loras").mkdir()
d.save(folder / "loras/turbo 4 steps.safetensors", d.named(layers, "transformer.", A, B))
same("lora: by name, on fp8", folder, reference(d.merged(d.diffusers_dit(kinds["fp8 scaled"][1], heads), layers, 1), cfg, T2VA), 2e-6, ["--lora", "turbo 4 steps"])


def says(what, args, code, wanted, folder=MODEL):
    r = subprocess.run([zoetrope, "generate", "x", "--model", folder, "--config", work / "config.json", "--frames", "22", "--size", "32x32", "-o", work / "o.mp4",
                        "--json", "-q", *map(str, args)], capture_output=True, text=True, timeout=60)
    check(f"{what}: exit {r.returncode}: {(r.stdout + r.stderr)[-300:]}", r.returncode == code and wanted in r.stderr + r.stdout)


says("a few-step adapter without its schedule warns", ["--lora", "turbo 4 steps", "--plan", "exact"], 0, "states no schedule", folder)
(folder / "loras/turbo 4 steps.json").write_text('{"evaluations": 4, "video_shift": 6}')
says("its schedule comes from the file beside it", ["--lora", "turbo 4 steps"], 0, '"evaluations": 4', folder)
d.save(folder / "loras/turbo.safetensors", d.named(layers, "transformer.", A, B), {"evaluations": "2", "video_shift": "6", "lora_adapter_metadata": json.dumps({"transformer.r": 4, "transformer.lora_alpha": 4})})
says("its schedule comes from its own metadata", ["--lora", "turbo"], 0, '"evaluations": 2', folder)
says("an adapter that states its schedule warns of nothing", ["--lora", "turbo"], 0, '"warnings": []', folder)
d.save(work / "c.safetensors", {**d.named(layers, "transformer.", A, B), "transformer.other.lora_A.weight": ("F32", np.ones((2, 3), np.float32)),
                                "transformer.proj_out.lora_magnitude_vector": ("F32", np.ones(3, np.float32))})
says("parts that do not fit are listed", ["--lora", work / "c.safetensors", "--steps", 2], 0, "transformer.other: no layer of this model")
says("DoRA is listed", ["--lora", work / "c.safetensors", "--steps", 2], 0, "lora_magnitude_vector, which is not supported")
for what, file in (("of another model", {"unet.down.0.lora_A.weight": ("F32", np.ones((2, 3), np.float32)), "unet.down.0.lora_B.weight": ("F32", np.ones((3, 2), np.float32))}),
                   ("of other shapes", {q[:-7] + A: ("F32", np.ones((2, 3), np.float32)), q[:-7] + B: ("F32", np.ones((3, 2), np.float32))}),
                   ("empty", {})):
    d.save(work / "c.safetensors", file)
    says(f"an adapter {what} is an error", ["--lora", work / "c.safetensors"], 3, "none of its")
d.save(work / "c.safetensors", {q[:-7] + ".diff": ("F32", np.full(sd[q][1].shape, np.nan, np.float32))})
says("NaN in an adapter is an error", ["--lora", work / "c.safetensors"], 3, q[:-7])
says("no such adapter", ["--lora", "nothing"], 2, "no such file")


# Damage: each is refused with the tensor's name, by generate and by inspect.
def refused(what, file, wanted, text="h3.safetensors"):
    folder = model("bad", "transformer")
    path = folder / "transformer" / text
    if isinstance(file, bytes):
        path.write_bytes(file)
    else:
        d.save(path, file)
    for command in (["inspect", "--verify", folder], ["generate", "x", "--model", folder, "-o", work / "o.mp4", "-q"]):
        r = subprocess.run([zoetrope, *command], capture_output=True, text=True, timeout=60)
        check(f"{what}: {command[0]} exits {r.returncode}: {(r.stdout + r.stderr)[-300:]}", r.returncode == 3 and wanted in r.stdout + r.stderr)


name = "blocks.0.attn.out_proj"
for what, change, wanted in (("scale NaN", {name + ".weight_scale": ("F32", np.float32("nan"))}, name), ("scale infinite", {name + ".weight_scale": ("F32", np.float32("inf"))}, name),
                             ("scale of another shape", {name + ".weight_scale": ("F32", np.ones(3, np.float32))}, name), ("no scale", {name + ".weight_scale": None}, name),
                             ("scale without its tensor", {name + ".weight": None}, name), ("unknown format", d.comfy(name, format="w4a8"), "w4a8"),
                             ("format no JSON", {name + ".comfy_quant": ("U8", np.frombuffer(b"{", np.uint8))}, name),
                             ("extra tensor", {"blocks.9.extra": ("F32", np.ones(2, np.float32))}, "blocks.9.extra"),
                             ("missing tensor", {"blocks.1.norm2.weight": None}, "transformer_blocks.1.norm2.weight"),
                             ("codes of another type", {name + ".weight": ("I8", fp8[name + ".weight"][1].view(np.int8))}, name),
                             ("q, k, v short of a row", {"blocks.0.attn.qkv_proj.weight": (fp8["blocks.0.attn.qkv_proj.weight"][0], fp8["blocks.0.attn.qkv_proj.weight"][1][1:])}, "qkv_proj")):
    refused(f"fp8, {what}", {k: t for k, t in {**fp8, **change}.items() if t is not None}, wanted)
d.gguf_file(work / "h3.gguf", stacked, "Q8_0", random)
good = (work / "h3.gguf").read_bytes()
at = good.index(b"blocks.1.mlp.fc2.weight")
kind = at + len(b"blocks.1.mlp.fc2.weight") + 4 + 2 * 8     # behind the rank and two dimensions
for what, file, wanted in (("truncated", good[:-100], "truncated"), ("padded", good + b"\0" * 4096, "belong to no tensor"), ("no magic", b"GGML" + good[4:], "not a GGUF file"),
                           ("big-endian", good[:4] + good[4:8][::-1] + good[8:], "big-endian"), ("huge count", good[:8] + b"\xff" * 8 + good[16:], "claims"),
                           ("unknown type", good[:kind] + b"\x63\0\0\0" + good[kind + 4:], "blocks.1.mlp.fc2.weight"),
                           ("offset past the end", good[:kind + 4] + (1 << 40).to_bytes(8, "little") + good[kind + 12:], "blocks.1.mlp.fc2.weight"),
                           ("offset inside another", good[:kind + 4] + (0).to_bytes(8, "little") + good[kind + 12:], "blocks.1.mlp.fc2.weight"),
                           ("name twice", good.replace(b"blocks.1.mlp.fc2.weight", b"blocks.0.mlp.fc2.weight"), "blocks.0.mlp.fc2.weight")):
    refused(f"GGUF, {what}", file, wanted, "h3.gguf")

shutil.rmtree(work)
sys.exit(close())
