#!/usr/bin/env python3
"""MiniMax-H3 at its full dimensions, with random weights: written as GGUF, run within a limit on memory, one row to bench/results/full_size.jsonl.

  full_size.py write DIR [--type Q4_K] [--blocks 50] [--seed 1]
  full_size.py run DIR [--memory 6144] [--plan fast] [--evaluations 4] [--threads N] [--zoetrope build/zoetrope] [--no-append]

The transformer has the released dimensions (models/h3-33b) but for two things: AdaLN reads a table over time of 8 columns, as the pruned files that people
have do (33 G parameters become 20 G), and text_dim is that of h3-nano, whose text encoder, VAEs and tokenizer make the rest of the folder. The clips are
noise; time and memory are those of a trained model's transformer. The same clip at two values of --memory must have the same md5. Writing needs the
package gguf (tests/requirements.txt) and some MiB of memory, for a tensor is written in pieces; the same seed gives the same file.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import turns  # noqa: E402

NANO = HERE.parent / "models/h3-nano"
PIECE = 1 << 25   # bytes, about
CURVE = (1025, 8)
# Type: (values, bytes, and standard deviation at scale 1 of a block); a block is its scales as float16, then random codes.
BLOCKS = {"Q4_0": (32, 18, 4.61), "Q8_0": (32, 34, 73.9), "Q4_K": (256, 144, 255)}


def scales(of, deviation):
    d = deviation / BLOCKS[of][2]
    return np.array([d, 7.5 * d] if of == "Q4_K" else [d], "<f2").view(np.uint8)   # Q4_K: minima that centre its values


def pieces(of, shape, deviation, rng):
    """The bytes of a tensor of normal deviates (F32) or of blocks, in pieces."""
    left = int(np.prod(shape))
    values, size, _ = BLOCKS.get(of, (1, 4, 1))
    while left:
        n = min(left, PIECE // size * values)
        if of == "F32":
            yield (rng.standard_normal(n, np.float32) * np.float32(deviation)).tobytes()
        else:
            block = np.frombuffer(rng.bytes(n // values * size), np.uint8).reshape(-1, size).copy()
            head = scales(of, deviation)
            block[:, :len(head)] = head
            yield block.tobytes()
        left -= n


def tensors(c, text_dim, of):
    """(name, shape, type, deviation or None for ones or the values) in the names of GGUF files."""
    h, inner, ffn, patch = c["hidden_size"], c["num_attention_heads"] * c["attention_head_dim"], c["ffn_dim"], c["in_channels"] * 4

    def linear(name, out, n, kind="F32", deviation=None):
        yield name + ".weight", (out, n), kind, deviation or n ** -0.5
        yield name + ".bias", (out,), "F32", 0.0

    def block(b):
        for norm, n in (("norm1", h), ("norm2", h), ("attn.q_norm", c["attention_head_dim"]), ("attn.k_norm", c["attention_head_dim"])):
            yield f"{b}{norm}.weight", (n,), "F32", None
        for name, out, n in (("attn.qkv_proj", 3 * inner, h), ("attn.out_proj", h, inner), ("mlp.fc1", 2 * ffn, h), ("mlp.fc2", h, ffn)):
            yield f"{b}{name}.weight", (out, n), of, n ** -0.5

    yield from linear("video_patch_proj", h, patch)
    yield from linear("audio_patch_proj", h, c["audio_in_channels"])
    yield from linear("condition_proj", h, text_dim)
    yield "adaln_t_table", CURVE, "F32", 1.0
    for i in range(c["num_refiner_layers"]):
        yield from block(f"token_refiner.blocks.{i}.")
    yield "token_refiner.final_norm.weight", (h,), "F32", None
    for i in range(c["num_layers"]):
        yield from block(f"blocks.{i}.")
        yield from linear(f"blocks.{i}.adaln_proj.linear", 18 * h, CURVE[1], deviation=0.05)
    yield "final_layer.norm.weight", (h,), "F32", None
    yield from linear("final_layer.adaln_proj.linear", 2 * h, CURVE[1], deviation=0.05)
    yield from linear("final_layer.video_out", patch, h)
    yield from linear("final_layer.audio_out", c["audio_in_channels"], h)
    f = c["rope_freq_dim"]
    yield "rope.inv_freq", (f,), "F32", c["rope_theta"] ** (-np.arange(0, 2 * f, 2) / (2 * f))   # as the pruned files have it; stable-diffusion.cpp wants it


def write(a):
    import gguf
    config = json.loads((HERE.parent / "models/h3-33b/transformer/config.json").read_text())
    config["text_dim"] = json.loads((NANO / "transformer/config.json").read_text())["text_dim"]
    config["num_layers"] = a.blocks or config["num_layers"]
    folder = Path(a.folder)
    if folder.exists():
        sys.exit(f"{folder}: is there already; delete it first")
    shutil.copytree(NANO, folder, ignore=shutil.ignore_patterns("transformer", "plans", "*.md"))
    (folder / "transformer").mkdir()
    (folder / "transformer/config.json").write_text(json.dumps(config, indent=1))
    table = list(tensors(config, config["text_dim"], a.type))
    out = gguf.GGUFWriter(folder / "transformer/h3.gguf", "minimax_h3", use_temp_file=False)
    for name, shape, of, _ in table:
        values, size, _ = BLOCKS.get(of, (1, 4, 1))
        kind = gguf.GGMLQuantizationType[of]
        stored = (*shape[:-1], shape[-1] // values * size) if of in BLOCKS else shape   # the package counts bytes of quantised rows
        out.add_tensor_info(name, stored, np.dtype(np.uint8 if of in BLOCKS else np.float32), int(np.prod(shape)) // values * size, raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    f = out.fout[0]
    out.write_padding(f, f.tell())
    for i, (name, shape, of, deviation) in enumerate(table):
        rng = np.random.Generator(np.random.SFC64([a.seed, i]))
        if isinstance(deviation, np.ndarray):
            f.write(deviation.astype("<f4").tobytes())
        elif deviation is None or deviation == 0:
            f.write(np.full(shape, 1 if deviation is None else 0, "<f4").tobytes())
        else:
            for piece in pieces(of, shape, deviation, rng):
                f.write(piece)
        out.write_padding(f, f.tell())
    out.close()
    parameters = sum(int(np.prod(shape)) for _, shape, _, _ in table)
    print(f"{folder}: {parameters / 1e9:.2f} G parameters of the transformer, {(folder / 'transformer/h3.gguf').stat().st_size / 1e9:.2f} GB")


def run(a):
    with tempfile.TemporaryDirectory() as d:
        config = dict(min_duration_s=0)
        (Path(d) / "config.json").write_text(json.dumps(config))
        command = [a.zoetrope, "generate", "a lighthouse in the fog", "--model", a.folder, "--size", "256x160", "--frames", "22", "--evaluations", a.evaluations,
                   "--plan", a.plan, "--memory", a.memory, "--threads", a.threads, "--seed", 1, "-o", f"{d}/clip.mp4", "--json", "--profile", f"{d}/profile.json",
                   "--config", f"{d}/config.json"]
        made = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        if made.returncode:
            sys.exit(f"exit {made.returncode}")
        report = json.loads(made.stdout)
        spans = [e for e in json.loads(Path(f"{d}/profile.json").read_text())["traceEvents"] if e["ph"] == "X" and e["name"] == "denoise"]
        md5 = subprocess.run(["md5sum", f"{d}/clip.mp4"], capture_output=True, text=True, check=True).stdout.split()[0]
    row = turns.origin("full_size", isa=report["isa"], threads=report["threads"], model_bytes=sum(p.stat().st_size for p in Path(a.folder).rglob("*") if p.is_file()),
                       plan=report["plan"]["name"], memory_mib=a.memory, size="256x160", frames=22, evaluations=report["evaluations"],
                       evaluation_seconds=[round(e["dur"] / 1e6, 2) for e in spans[-report["evaluations"]:]],   # before them: the noise levels
                       stages={s["stage"]: round(s["seconds"], 2) for s in report["stages"]},
                       peak_rss_mib=report["peak_rss_bytes"] >> 20, total_seconds=round(report["total_seconds"], 1), warnings=report["warnings"], md5=md5)
    print(json.dumps(row, indent=1))
    if not a.no_append:
        turns.append(HERE / "results/full_size.jsonl", row)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="what", required=True)
    w = sub.add_parser("write")
    w.add_argument("folder")
    w.add_argument("--type", choices=sorted(BLOCKS), default="Q4_K")
    w.add_argument("--blocks", type=int, default=0, help="of the transformer (default: all)")
    w.add_argument("--seed", type=int, default=1)
    r = sub.add_parser("run")
    r.add_argument("folder")
    r.add_argument("--memory", type=int, default=6144)
    r.add_argument("--plan", default="fast")
    r.add_argument("--evaluations", type=int, default=4)
    r.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    r.add_argument("--zoetrope", default=HERE.parent / "build/zoetrope")
    r.add_argument("--no-append", action="store_true")
    a = ap.parse_args()
    (write if a.what == "write" else run)(a)


if __name__ == "__main__":
    main()
