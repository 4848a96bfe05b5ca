#!/usr/bin/env python3
"""Models that the program writes: each type of `zoetrope quantize` against the package gguf (codes, values, and what a clip is made of), the
figures of its table; each layout of `zoetrope convert` there and back; and that a run which is stopped or fails leaves nothing.
usage: tests/rewritten.py build/zoetrope      (ends with "N passed, N failed")"""
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gguf
import numpy as np
from PIL import Image

import dialects as d
from counts import check, close

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/a"
MODEL = GOLDEN / "model"
zoetrope = Path(sys.argv[1]).resolve()
work = Path(tempfile.mkdtemp(prefix="zt_rewritten_"))
WEIGHTS = "diffusion_pytorch_model.safetensors"
sd, cfg = d.load(MODEL / "transformer" / WEIGHTS), json.loads((MODEL / "transformer/config.json").read_text())
heads = cfg["num_attention_heads"]
stacked = d.original_dit(sd, cfg, False)


def program(*args, code=0):
    r = subprocess.run([zoetrope, *map(str, args)], capture_output=True, text=True, timeout=300)
    if r.returncode != code:
        check(f"{' '.join(map(str, args))[:120]}: exit {r.returncode}, wanted {code}", False, r.stderr)
    return r


def trace(folder, *more):
    """Every tensor of a run, frames and sound included, and the packets of its MP4."""
    config = work / "config.json"
    config.write_text(json.dumps(json.loads((GOLDEN / "cases.json").read_text())["config"]))
    out = work / "trace.safetensors"
    out.unlink(missing_ok=True)
    program("generate", "a red star", "--model", folder, "--plan", "exact", "--config", config, "--frames", "22", "--size", "32x32", "--steps", "3", "--trace", out,
            "-o", work / "o.mp4", "-q", *more)
    if not out.exists():
        return {}
    # The file names the model by its hash: all of its packets, then.
    packets = subprocess.run(["ffmpeg", "-v", "error", "-i", work / "o.mp4", "-map", "0", "-c", "copy", "-f", "md5", "-"], capture_output=True, check=True).stdout
    return {**d.load(out), "packets": ("U8", np.frombuffer(packets, np.uint8))}


def equal(a, b):
    return bool(a) and a.keys() == b.keys() and all(a[k][0] == b[k][0] and a[k][1].tobytes() == b[k][1].tobytes() for k in a)


def linked(name, component):
    return d.linked(MODEL, work / name, component)


def reference(means):
    """What the diffusers layout with these values gives."""
    folder = linked("reference", "transformer")
    d.save(folder / "transformer" / WEIGHTS, d.diffusers_dit(means, heads))
    (folder / "transformer/config.json").write_text(json.dumps(cfg))
    return trace(folder)


def figures(what, table, want, got):
    """The table's errors are those of the values."""
    worst = 0.0
    for t in table["tensors"]:
        a, b = got[t["name"]].astype(np.float64), want[t["name"]].astype(np.float64)
        l2 = np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30)
        worst = max(worst, abs(l2 - t["relative_l2"]), abs(np.abs(a - b).max() - t["max_abs"]))
    check(f"{what}: the table's errors are those of the file", worst < 1e-9, worst)


def quantize(of, *more, name="out"):
    out = work / f"{name}-{of}"
    r = program("quantize", MODEL, "-o", out, "--type", of, "--json", *more)
    return out, json.loads(r.stdout) if r.returncode == 0 else None


source = {k: d.widen(t) for k, t in stacked.items()}
source.pop("rope.inv_freq")      # a file that never had it gets none
for of in ("F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1", "Q4_0"):
    out, report = quantize(of)
    if not report:
        continue
    table = next(c for c in report["components"] if c["component"] == "transformer")
    tensors = {t.name: t for t in gguf.GGUFReader(out / table["file"]).tensors}
    check(f"{of}: the names of the graph editors", tensors.keys() == source.keys(), tensors.keys() ^ source.keys())
    kinds = {t["name"]: t for t in table["tensors"]}
    kind, wrong, got, chosen = gguf.GGMLQuantizationType[of], [], {}, 0
    for name, t in tensors.items():
        got[name] = gguf.quants.dequantize(t.data, t.tensor_type).reshape(source[name].shape).astype(np.float32)
        if "kept" in kinds[name]:
            wrong += [name] * (got[name].tobytes() != source[name].astype(np.float32).tobytes())
            continue
        chosen += 1
        if of.endswith("_K"):        # the package only decodes these
            wrong += [name] * (t.tensor_type != kind or kinds[name]["relative_l2"] > {"Q4_K": 0.09, "Q5_K": 0.045, "Q6_K": 0.02}[of])
            continue
        coded = gguf.quants.quantize(source[name].astype(np.float32), kind)
        wrong += [name] * (t.tensor_type != kind or coded.tobytes() != t.data.tobytes())
    check(f"{of}: the codes are those of the package gguf" if not of.endswith("_K") else f"{of}: every matrix within its error", not wrong, wrong)
    matrices = [n for n in source if d.QUANTISED.fullmatch(n) and source[n].size % (256 if of.endswith("_K") else 32) == 0]
    check(f"{of}: the matrices of the blocks have the type", chosen >= len(matrices) > 0 and all("kept" not in kinds[n] for n in matrices), (chosen, len(matrices)))
    check(f"{of}: vectors, heads and embedders keep theirs", all("kept" in t for t in table["tensors"] if len(t["shape"]) < 2 or "patch_proj" in t["name"] or "video_out" in t["name"]))
    figures(of, table, source, got)
    check(f"{of}: a clip reads what the package reads", equal(trace(out), reference({k: ("F32", v) for k, v in got.items()})))
    check(f"{of}: inspect --verify finds it sound", program("inspect", out, "--verify").returncode == 0)
    check(f"{of}: both transformers", {c["component"] for c in report["components"]} == {"transformer", "transformer_ref"})

out, report = quantize("fp8")
table = report["components"][0]
file = d.load(out / table["file"])
names = {t["name"]: t for t in table["tensors"]}
wrong, got = [], {}
for name, w in source.items():
    t = file["model.diffusion_model." + name]
    if "kept" in names[name]:
        got[name] = d.widen(t)
        wrong += [name] * (got[name].tobytes() != w.astype(np.float32).tobytes())
        continue
    scale = file["model.diffusion_model." + name[:-7] + ".weight_scale"][1]
    got[name] = d.E4M3[t[1]] * np.float32(scale)
    nearest = np.abs(d.E4M3[d.nearest(w / scale, np.nan_to_num(d.E4M3, nan=1e9))] - w / scale)
    right = np.array_equal(np.abs(d.E4M3[t[1]] - w / scale), nearest) and scale == np.float32(np.abs(w).max() / np.float32(448))
    wrong += [] if right else [name]
check("fp8: each code is the nearest, the scale fits the greatest", not wrong, wrong)
figures("fp8", table, source, got)
check("fp8: a clip reads it so", equal(trace(out), reference({k: ("F32", v) for k, v in got.items()})))

# Rows that are no whole blocks, in a matrix that is read in parts: a block begins in one part and ends in the next.
wide, random = {}, np.random.default_rng(4)
for name, t in sd.items():
    shape = [64, 20000] if name.endswith("ff.net.2.weight") else [40000, 64] if name.endswith("ff.net.0.proj.weight") else None
    wide[name] = ("F32", random.standard_normal(shape).astype(np.float32)) if shape else t
folder = linked("wide-source", "transformer")
d.save(folder / "transformer" / WEIGHTS, wide)
(folder / "transformer/config.json").write_text(json.dumps({**cfg, "ffn_dim": 20000}))
r = program("quantize", folder, "-o", work / "wide-out", "--type", "Q6_K", "--component", "transformer", "--json")
table, want = json.loads(r.stdout)["components"][0], d.original_dit(wide, cfg, False)
reader = gguf.GGUFReader(work / "wide-out" / table["file"])
got = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(want[t.name][1].shape) for t in reader.tensors}
figures("rows across parts", table, {k: d.widen(t) for k, t in want.items()}, got)
folded = [t["name"] for t in table["tensors"] if t["shape"] == [64, 20000] and t["type"] == "Q6_K" and t["relative_l2"] < 0.022]
check("rows across parts: the matrices are folded and within their error", len(folded) == 4, folded)
told = reader.fields["comfy.gguf.orig_shape." + folded[0]].contents() if folded else None
check("rows across parts: their own shape is told", told == [64, 20000], told)

# What is not rewritten stays as it is; the text encoder; a quantised model quantised again; released shards.
rest = [p for p in MODEL.rglob("*") if p.is_file() and not (p.name == WEIGHTS and p.parent.name.startswith("transformer"))]
same = len(rest) > 10 and all((out / p.relative_to(MODEL)).read_bytes() == p.read_bytes() for p in rest)
check("all other files are the same bytes", same)
out, report = quantize("Q8_0", "--component", "text_encoder", name="text-out")
check("text encoder: Q8_0 runs and the transformer is untouched", bool(trace(out)) and (out / "transformer" / WEIGHTS).read_bytes() == (MODEL / "transformer" / WEIGHTS).read_bytes())
text = {t.name: t for t in gguf.GGUFReader(out / report["components"][0]["file"]).tensors}
folder = linked("text", "text_encoder")
shutil.copy(MODEL / "text_encoder/config.json", folder / "text_encoder")
old = d.load(MODEL / "text_encoder/model.safetensors")
d.save(folder / "text_encoder/model.safetensors",
       {k: ("F32", gguf.quants.dequantize(text[k].data, text[k].tensor_type).reshape(t[1].shape).astype(np.float32)) if k in text else t for k, t in old.items()})
check("text encoder: a clip reads what the package reads", equal(trace(out), trace(folder)))
again = work / "again"
program("quantize", work / "out-Q4_0", "-o", again, "--type", "F32", "--component", "transformer")
check("a quantised model as F32 gives the same clip", equal(trace(again), trace(work / "out-Q4_0")))
folder = linked("released", "transformer")
d.save(folder / "transformer/model.safetensors", d.original_dit(sd, cfg, True))
(folder / "transformer/config.json").write_text(json.dumps({"_class_name": "MiniMaxH3DiTModel", "hidden_size": cfg["hidden_size"]}))
for of in ("F32", "fp8"):
    shutil.rmtree(work / "from-released", ignore_errors=True)
    program("quantize", folder, "-o", work / "from-released", "--type", of, "--component", "transformer")
    check(f"released shards, head by head, as {of} give the same clip", equal(trace(work / "from-released"), trace(work / f"out-{of}")))

# zoetrope convert: what each layout holds, there and back to the same bytes, and the same clip from each.
def convert(model, layout, name, *more):
    shutil.rmtree(work / name, ignore_errors=True)
    program("convert", model, "-o", work / name, "--layout", layout, *more)
    return work / name


def weights(folder, part):
    """The tensors of a component, without the prefix of single files."""
    out = {}
    for f in (folder / part).glob("*.safetensors"):
        out.update({k.removeprefix("model.diffusion_model."): t for k, t in d.load(f).items()})
    return out


clips = {"transformer": trace(MODEL), "transformer_ref": {}}
picture = work / "picture.png"
Image.fromarray(np.random.default_rng(3).integers(0, 256, (32, 32, 3), np.uint8)).save(picture)
REF = ("--task", "ref2va", "--reference", picture)
clips["transformer_ref"] = trace(MODEL, *REF)
made = {"diffusers": MODEL, "original": convert(MODEL, "original", "original"), "single": convert(MODEL, "single", "single")}
for part, task in (("transformer", ()), ("transformer_ref", REF)):
    own = d.load(MODEL / part / WEIGHTS)
    for layout, want in (("original", d.original_dit(own, cfg, True)), ("single", d.original_dit(own, cfg, False))):
        check(f"{part}: layout {layout} holds what the published files hold", equal(weights(made[layout], part), want))
        check(f"{part}: layout {layout} gives the same clip", equal(trace(made[layout], *task), clips[part]))
    check(f"{part}: the original layout has an index and the released class",
          set(json.loads((made["original"] / part / "model.safetensors.index.json").read_text())["weight_map"]) == set(weights(made["original"], part))
          and json.loads((made["original"] / part / "config.json").read_text())["_class_name"] == "MiniMaxH3DiTModel")
for a in made:
    for b in made:
        if a != b:
            there = convert(made[a], b, "there")
            back = convert(there, a, "back")
            for part in ("transformer", "transformer_ref"):
                check(f"{part}: {a} to {b} is what the first conversion gave", equal(weights(there, part), weights(made[b], part)))
                check(f"{part}: {a} to {b} and back has the same bytes", equal(weights(back, part), weights(made[a], part)))
            check(f"{a} to {b} and back gives the same clip", equal(trace(back), clips["transformer"]))
            check(f"{a} to {b}: inspect --verify finds it sound", program("inspect", there, "--verify").returncode == 0)
back = convert(made["original"], "diffusers", "back")
mine, its = cfg, json.loads((back / "transformer/config.json").read_text())
check("a diffusers config is made of the tensors", {k: v for k, v in mine.items() if k != "_diffusers_version"} == its, its)
check("--type F32 gives the same clip", equal(trace(convert(MODEL, "single", "wide", "--type", "F32")), clips["transformer"]))
check("--type BF16 is BF16 but for the frequencies", {t[0] for k, t in weights(convert(MODEL, "single", "narrow", "--type", "BF16"), "transformer").items() if k != "rope.inv_freq"} == {"BF16"})
check("a quantised model converts to what it says", equal(trace(convert(work / "out-Q4_0", "diffusers", "wide")), trace(work / "out-Q4_0")))
folder = linked("curve", "transformer")
d.save(folder / "transformer/pruned.safetensors", d.curve(stacked))
check("an AdaLN table converts to a single file", equal(trace(convert(folder, "single", "curve-single")), trace(folder)))
for layout in ("original", "diffusers"):
    check(f"an AdaLN table has no place in layout {layout}", "table" in program("convert", folder, "-o", work / "none", "--layout", layout, code=2).stderr)
folder = linked("eps", "transformer")
shutil.copy(MODEL / "transformer" / WEIGHTS, folder / "transformer")
(folder / "transformer/config.json").write_text(json.dumps({**cfg, "norm_eps": 1e-3}))
check("a config that the original layout cannot tell is refused", "config differs" in program("convert", folder, "-o", work / "none", "--layout", "original", code=2).stderr)
check("refused conversions leave nothing", not list(work.glob("*none*")))
check("a single file keeps such a config", equal(trace(convert(folder, "single", "eps-single")), trace(folder)))

# A value that the type cannot hold, NaN, and a stop: nothing is left.
def nothing_left(what, out):
    check(f"{what}: nothing is left", not out.exists() and not (out.parent / f".{out.name}.part").exists())


key = "transformer_blocks.0.attn.to_q.weight"
for what, value, code in (("F16 cannot hold 1e6", 1e6, 2), ("NaN", np.nan, 3)):
    folder = linked("bad", "transformer")
    shutil.copy(MODEL / "transformer/config.json", folder / "transformer")
    w = d.widen(sd[key]).copy()
    w[0, 0] = value
    d.save(folder / "transformer" / WEIGHTS, {**sd, key: ("F32", w)})
    r = program("quantize", folder, "-o", work / "bad-out", "--type", "F16", code=code)
    check(f"{what}: the tensor is named", "blocks.0.attn.qkv_proj.weight" in r.stderr, r.stderr)
    nothing_left(what, work / "bad-out")
# A table of 2^20 rows, most of it a hole of the file, takes long enough to be met in the middle.
folder = linked("large", "text_encoder")
text_config = json.loads((MODEL / "text_encoder/config.json").read_text())
text_config["text_config"]["vocab_size"] = 1 << 20
(folder / "text_encoder/config.json").write_text(json.dumps(text_config))
embed = "model.language_model.embed_tokens.weight"
width = old[embed][1].shape[1]
head, at, data = {}, 0, []
for name, (dtype, a) in old.items():
    if name not in (embed, "lm_head.weight"):
        head[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        data.append(a.tobytes())
        at += a.nbytes
head[embed] = {"dtype": "F32", "shape": [1 << 20, width], "data_offsets": [at, at + (width << 22)]}
raw = json.dumps(head).encode()
with open(folder / "text_encoder/model.safetensors", "wb") as f:
    f.write(len(raw).to_bytes(8, "little") + raw + b"".join(data))
    f.truncate(f.tell() + (width << 22))
stopped = work / "stopped"
run = subprocess.Popen([zoetrope, "quantize", folder, "-o", stopped, "--type", "Q8_0", "--component", "text_encoder"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
until = time.time() + 60
while time.time() < until and run.poll() is None and not list(work.glob(".stopped.part/text_encoder/*.tmp*")):
    time.sleep(0.001)
check("a run was met while it wrote", run.poll() is None)
run.send_signal(signal.SIGINT)
said = run.communicate(timeout=60)[1]
check("stopped: exit 130", run.returncode == 130, (run.returncode, said))
nothing_left("stopped", stopped)
shutil.rmtree(work)
sys.exit(close())
