#!/usr/bin/env python3
"""stable-diffusion.cpp's sd-cli against us on the same weights, in turns; one JSON line a run of this script.

  sdcpp.py patch SOURCE                         a private copy of its source: widths of the codecs from the environment, missing vocabularies empty
  sdcpp.py stages MODEL --sd-cli PATH [--isa avx2] [--frames 56] [--rounds 5]      one evaluation and both decoders; MODEL from make_random.py
  sdcpp.py full FOLDER --codecs MODEL --sd-cli PATH [--memory 11000] [--plan fast]  the released dimensions; FOLDER from bench/full_size.py write

Theirs runs as its authors would have it here: --type f16 --fa (the file's own type for `full`), the same threads, 64 tokens of text. Its seconds are those
that -v prints, less the loading of weights inside them; of the evaluations the first is left out where there are more. Ours are dit_bench and
codec_bench in bf16. "ratio" is the median over rounds of theirs / ours. Clips longer than 56 frames come out wrong there.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import turns

ROOT = Path(__file__).resolve().parent.parent.parent
PROMPT = "A cat surfs a small wave at dawn while gulls call over the sea.."   # 64 bytes: as many tokens, without its vocabulary
VAE, AUDIO = "src/model/vae/minimax_h3_vae.hpp", "src/model/vae/minimax_h3_audio_vae.hpp"
FIXED, LATENT = "static inline const int", 'sd_width("H3_AVAE_LATENT", 2048)'
DIM = 'sd_width("H3_VAE_HEADS", 32)'
WIDTHS = [   # file, what stands there, what replaces it
    (VAE, r"constexpr int ch += 128", 'const int ch = sd_width("H3_VAE_CH", 128)'),
    (VAE, r"static constexpr int num_head = 32", f"{FIXED} num_head = {DIM}"),
    (VAE, r"static constexpr int dim( +)= (2048|num_head \* head_dim)", rf"{FIXED} dim\1= {DIM} * 64"),
    (VAE, r"static constexpr int kInnerDim = dim \* 4", f"{FIXED} kInnerDim = {DIM} * 256"),
    (VAE, r"static constexpr int num_layers +=", f'{FIXED} num_layers = std::getenv("H3_VAE_LAYERS") ? std::atoi(std::getenv("H3_VAE_LAYERS")) :'),
    (AUDIO, r"int64_t channels += 64", 'int64_t channels = sd_width("H3_AVAE_ENC", 64)'),
    (AUDIO, r"static constexpr int64_t head_dim +=.*;", f"{FIXED} head_dim = {LATENT} / num_head;"),
    (AUDIO, r"static constexpr int64_t in_channels += 2048", f"{FIXED} in_channels = {LATENT}"),
    (AUDIO, r"constexpr int64_t pool =", "const int64_t pool ="),
    (AUDIO, r"static constexpr int initial_channels +=", f'{FIXED} initial_channels = std::getenv("H3_AVAE_DEC") ? std::atoi(std::getenv("H3_AVAE_DEC")) :'),
    (AUDIO, r"(?<!\", )\b2048\b(?!, T)", LATENT),
]


def patch(root):
    text = {f: (root / f).read_text() for f in (VAE, AUDIO)}
    for file, old, new in WIDTHS:
        text[file], n = re.subn(old, new, text[file])
        if not n:
            sys.exit(f"{root / file}: no {old!r}; this is for stable-diffusion.cpp at 97d2990")
    for file, t in text.items():
        helper = "#include <cstdlib>\n#ifndef SD_WIDTH\n#define SD_WIDTH\nstatic inline int sd_width(const char* name, int released) {\n" \
                 "    const char* v = std::getenv(name);\n    return v ? std::atoi(v) : released;\n}\n#endif\n"
        (root / file).write_text(t.replace("#include", helper + "#include", 1))
    vocab = root / "src/tokenizers/vocab"
    source = (vocab / "vocab.cpp").read_text()
    missing = [vocab / h for h in re.findall(r'#include "(\w+\.hpp)"', source) if not (vocab / h).exists()]
    present = "".join(h.read_text() for h in vocab.glob("*.hpp"))
    for i, h in enumerate(missing):
        names = sorted(set(re.findall(r"reinterpret_cast<const char\*>\((\w+)\)", source))) if i == 0 else []
        h.write_text("".join(f"static const unsigned char {n}[] = {{0}};\n" for n in names if n not in present))
    print(f"{root}: widths from the environment, {len(missing)} empty vocabularies")


def text_encoder(path, hidden):
    """Two layers of the shape that sd-cli expects of every Qwen3-VL but the smallest: 32 heads of 128, 8 of keys and values."""
    import numpy as np
    sys.path.insert(0, str(ROOT / "tests"))
    import dialects
    random = np.random.default_rng(1)
    out = {"model.embed_tokens.weight": random.standard_normal((512, hidden)), "model.norm.weight": np.ones(hidden)}
    for i in range(2):
        b = f"model.layers.{i}."
        for name, n in (("input_layernorm", hidden), ("post_attention_layernorm", hidden), ("self_attn.q_norm", 128), ("self_attn.k_norm", 128)):
            out[f"{b}{name}.weight"] = np.ones(n)
        for name, rows, n in (("self_attn.q_proj", 4096, hidden), ("self_attn.k_proj", 1024, hidden), ("self_attn.v_proj", 1024, hidden), ("self_attn.o_proj", hidden, 4096),
                              ("mlp.gate_proj", 2 * hidden, hidden), ("mlp.up_proj", 2 * hidden, hidden), ("mlp.down_proj", hidden, 2 * hidden)):
            out[f"{b}{name}.weight"] = random.standard_normal((rows, n)) / n ** 0.5
    dialects.save(path, {k: ("F32", v.astype(np.float32)) for k, v in out.items()})


def read(folder, name):
    return json.loads((folder / name / "config.json").read_text())


def layout(model, out):
    """The same weights under the released names, as sd-cli reads them."""
    import numpy as np
    sys.path.insert(0, str(ROOT / "tests"))
    import dialects
    file = "diffusion_pytorch_model.safetensors"
    dit, vae, audio = (read(model, n) for n in ("transformer", "vae", "audio_vae"))
    dialects.save(out / "dit.safetensors", dialects.original_dit(dialects.load(model / "transformer" / file), dit, False))
    width = vae["decoder_num_attention_heads"] * vae["decoder_attention_head_dim"]
    tensors = dialects.original_vae(dialects.load(model / "vae" / file), vae["decoder_num_attention_heads"])
    tensors["decoder.mask_token"] = ("F32", np.zeros(width, np.float32))
    tensors["decoder.register_tokens"] = ("F32", tensors["decoder.register_tokens"][1].reshape(-1, width))
    dialects.save(out / "vae.safetensors", tensors)
    tensors = dialects.folded_audio(dialects.load(model / "audio_vae" / file), audio)
    dialects.save(out / "audio_vae.safetensors", {k: t for k, t in tensors.items() if not k.endswith("zero_k_bias")})
    text_encoder(out / "llm.safetensors", dit["text_dim"])


def widths(model):
    vae, audio = read(model, "vae"), read(model, "audio_vae")
    found = dict(H3_VAE_HEADS=vae["decoder_num_attention_heads"], H3_VAE_LAYERS=vae["decoder_num_layers"], H3_VAE_CH=vae["block_out_channels"][0],
                 H3_AVAE_ENC=audio["encoder_dim"], H3_AVAE_LATENT=audio["latent_dim"], H3_AVAE_DEC=audio["decoder_dim"])
    return {k: str(v) for k, v in found.items()}


def parse(log):
    """Seconds out of what sd-cli -v prints: `steps` (each evaluation), `step` (the median but for the first, which loads), `video`, `audio`; loading apart."""
    out, loading, sampling = dict(steps=[]), 0.0, False
    for line in log.replace("\r", "\n").split("\n"):
        if m := re.search(r"loading tensors completed, taking ([\d.]+)s", line):
            loading += float(m[1])
        elif re.search(r"\bsample \d+x\d+x\d+", line):
            loading, sampling = 0.0, True
        elif sampling and (m := re.search(r"\| (\d+)/\d+ - ([\d.]+)(s/it|it/s)", line)):
            out["steps"].append(round(float(m[2]) if m[3] == "s/it" else 1 / float(m[2]), 4))
            if len(out["steps"]) == 1:
                out["steps"][0] = round(out["steps"][0] - loading, 4)
        elif "sampling completed" in line:
            loading, sampling = 0.0, False
        elif m := re.search(r"(decode_first_stage|decoding audio latent) completed, taking ([\d.]+)s", line):
            out["audio" if "audio" in m[1] else "video"] = round(float(m[2]) - loading, 4)
            loading = 0.0
    if out["steps"]:
        out["step"] = statistics.median(out["steps"][1:] or out["steps"])
    return out


def sd_cli(a, files, env, frames, steps, *more):
    with tempfile.TemporaryDirectory() as d:
        command = [a.sd_cli, "-M", "vid_gen", "-p", PROMPT, "--cfg-scale", 1, "-W", 256, "-H", 160, "--video-frames", frames, "--fps", 24, "--steps", steps,
                   "--sampling-method", "euler", "--rng", "cpu", "-s", 1, "-t", a.threads, "-v", "-o", f"{d}/clip.avi", *more]
        for option, file in files.items():
            command += [f"--{option}", file]
        r = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **env})
    log = r.stdout.decode("utf-8", "replace")
    found = parse(log)
    if r.returncode or "video" not in found or len(found["steps"]) != steps:
        sys.exit(f"sd-cli ended with {r.returncode}:\n{log[-3000:]}")
    return found


def files_of(folder):
    return {"diffusion-model": folder / "dit.safetensors", "vae": folder / "vae.safetensors", "audio-vae": folder / "audio_vae.safetensors", "llm": folder / "llm.safetensors"}


def stages(a):
    model = Path(a.model)
    if not (model / "sdcpp/llm.safetensors").exists():
        layout(model, model / "sdcpp")
    env = dict(ZT_THREADS=str(a.threads), **({"ZT_ISA": a.isa} if a.isa else {}))
    dit = turns.start([a.bench + "/dit_bench", model, "bf16", a.frames, "256x160", 1000, "wait"], env)
    codec = turns.start([a.bench + "/codec_bench", model, "bf16", a.frames, "256x160", 1000, "video,audio", "wait"], env)
    state = {}

    def ours():
        steps = [turns.turn(dit) for _ in range(a.steps - 1)]
        state.update(steps[0])
        return dict(turns.turn(codec), step=statistics.median(s["step"] for s in steps))

    def theirs():
        found = sd_cli(a, files_of(model / "sdcpp"), widths(model), a.frames, a.steps, "--type", a.type, "--fa")
        print(found, file=sys.stderr, flush=True)
        return found

    pairs = turns.rounds(ours, theirs, a.rounds)
    turns.stop(dit, codec)
    finish(a, turns.origin("sdcpp", isa=state["isa"], threads=a.threads, model=model.name, dtype="bf16", peer=f"stable-diffusion.cpp {a.build}", peer_type=a.type, frames=a.frames,
                           size="256x160", rows=state["rows"], rounds=a.rounds, **{k: compared(pairs, k) for k in ("step", "video", "audio")}))


def compared(pairs, key):
    return turns.compare([tuple({key: side[key]} for side in p) for p in pairs], key)   # wall time only: sd-cli's threads wait spinning


def full(a):
    codecs, folder = Path(a.codecs), Path(a.model)
    files = {**files_of(codecs / "sdcpp"), "diffusion-model": folder / "transformer/h3.gguf", "llm": folder / "sdcpp.llm.safetensors"}
    if not (codecs / "sdcpp/llm.safetensors").exists():
        layout(codecs, codecs / "sdcpp")
    text_encoder(files["llm"], read(folder, "transformer")["text_dim"])
    del files["audio-vae"]
    state = {}

    def ours():
        command = [sys.executable, ROOT / "bench/full_size.py", "run", folder, "--memory", a.memory, "--plan", a.plan, "--evaluations", a.steps, "--threads", a.threads,
                   "--zoetrope", a.zoetrope, "--no-append"]
        r = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **({"ZT_ISA": a.isa} if a.isa else {})})
        state.update(json.loads(r.stdout))
        print(state, file=sys.stderr, flush=True)
        return dict(step=statistics.median(state["evaluation_seconds"]))

    def theirs():
        found = sd_cli(a, files, widths(codecs), 22, a.steps, "--fa")
        print(found, file=sys.stderr, flush=True)
        return found

    pairs = turns.rounds(ours, theirs, a.rounds)
    finish(a, turns.origin("sdcpp", isa=state["isa"], threads=a.threads, model="released dimensions", file_bytes=files["diffusion-model"].stat().st_size, blocks=read(folder, "transformer")["num_layers"],
                           plan=state["plan"], memory_mib=a.memory, peer=f"stable-diffusion.cpp {a.build}", peer_type="that of the file", frames=22, size="256x160",
                           rounds=a.rounds, evaluations=a.steps, step=compared(pairs, "step"), warnings=state["warnings"], peak_rss_mib=state["peak_rss_mib"]))


def finish(a, row):
    if a.note:
        row["note"] = a.note
    row["command"] = " ".join(["bench/peers/sdcpp.py", a.what, Path(a.model).name] + [f"--{k} {getattr(a, k)}" for k in ("isa", "rounds", "steps", "threads") if getattr(a, k)])
    print(json.dumps(row), flush=True)
    if not a.no_append:
        turns.append(ROOT / "bench/results/sdcpp.jsonl", row)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    sub.add_parser("patch").add_argument("source", type=Path)
    for name in ("stages", "full"):
        p = sub.add_parser(name)
        p.add_argument("model")
        p.add_argument("--sd-cli", required=True)
        p.add_argument("--build", default="97d2990", help="what the row says about theirs: version and flags")
        p.add_argument("--isa", help="of ours (ZT_ISA); build theirs likewise")
        p.add_argument("--rounds", type=int, default=5 if name == "stages" else 1)
        p.add_argument("--steps", type=int, default=4 if name == "stages" else 1, help="evaluations of a run of theirs")
        p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
        p.add_argument("--note")
        p.add_argument("--no-append", action="store_true")
        if name == "stages":
            p.add_argument("--bench", default=str(ROOT / "build/bench"))
            p.add_argument("--frames", type=int, default=56)
            p.add_argument("--type", default="f16")
        else:
            p.add_argument("--zoetrope", default=ROOT / "build/zoetrope")
            p.add_argument("--codecs", required=True)
            p.add_argument("--memory", type=int, default=11000)
            p.add_argument("--plan", default="fast")
    a = ap.parse_args()
    if a.what == "patch":
        patch(a.source)
    else:
        {"stages": stages, "full": full}[a.what](a)


if __name__ == "__main__":
    main()
