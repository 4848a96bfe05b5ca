#!/usr/bin/env python3
"""Every step from the reference to the fastest plan, prompt to MP4 file: what each gains, and what it costs in exactness. All programs are loaded,
warm and waiting; every round runs each once, in turn. The first step is diffusers at its default schedule; each later one keeps the ones before it.

  ladder.py [--only 5s,15s] [--rounds 3] [--model models/h3-nano] [--threads N] [--build build] [--dtype bf16] [--prompts 3] [--no-append]

Errors are against our first step (which equals the reference, tests/golden) over --prompts clips of 5 s: relative L2 of the latents; decibels of the
pictures and of the sound as a player decodes them from the MP4s. Prints a Markdown table; rows go to bench/results/ladder.jsonl.
"""
import json
import math
import statistics
import subprocess
import sys
import tempfile

import stacks
import turns

sys.path.insert(0, stacks.HERE + "/../nano")
import numpy as np  # noqa: E402
from evaluate import clips, prompts, sight  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

ALL = ("text_encoder", "denoiser", "video_decoder")
STEPS = [   # what it is, the evaluations, what it adds to the plan
    ("our program, float32", 49, {**{part: {"compute": "f32"} for part in ALL}, "denoiser": {"compute": "f32", "adaln_tables": False}, "stages": {"overlap": False}}),
    ("AdaLN tables", 49, {"denoiser": {"adaln_tables": True}}),
    ("encoding beside decoding", 49, {"stages": {"overlap": True}}),
    ("products in three bfloat16 parts (plan exact)", 49, {part: {"compute": "bf16x3"} for part in ALL}),
    ("bfloat16 products and attention", 49, {"denoiser": {"compute": "bf16"}, "video_decoder": {"compute": "bf16"}}),
    ("8 evaluations", 8, {}),
    ("4 evaluations", 4, {}),
    ("2 evaluations", 2, {}),
    ("x264 ultrafast, AAC fast (plan live)", 2, {"encoder": {"preset": "ultrafast", "sound_coder": "fast"}}),
]


def plans(folder):
    """The steps' plan files."""
    whole, out = {}, []
    for i, (what, evaluations, adds) in enumerate(STEPS):
        for part, fields in adds.items():
            whole.setdefault(part, {}).update(fields)
        out.append(f"{folder}/step{i + 1}.json")
        with open(out[-1], "w") as f:
            json.dump(dict(name=f"step{i + 1}", sampler=dict(evaluations=evaluations), **whole), f)
    return out


def times(a, length, folder, files):
    """Of each round [[(seconds, processor seconds) of peer, step 1, step 2 ...]], and the instruction set."""
    running = [stacks.peer(a, length, 50, f"{folder}/peer.mp4"), *(stacks.ours(a, length, plan, 0, f"{folder}/{i}.mp4") for i, plan in enumerate(files))]
    rounds = [[turns.turn(p) for p in running] for _ in range(a.rounds)]
    turns.stop(*running)
    return [[(r["total"], r["total_cpu"]) for r in one] for one in rounds], rounds[0][1]["isa"]


def errors(a, folder, files):
    """Of each step against the first: [latents, pictures dB, sound dB], means over the prompts."""
    out = [[] for _ in files]
    for k, (_, caption) in enumerate(prompts.held_out(a.prompts, 0)):
        first = None
        for i, plan in enumerate(files):
            clip, latents = f"{folder}/e.mp4", f"{folder}/e.safetensors"
            subprocess.run([f"{a.build}/zoetrope", "generate", caption, "--model", a.model, "--plan", plan, "--frames", "124", "--seed", str(k), "-o", clip,
                            "--latents", latents, "--threads", str(a.threads), "-q"], check=True)
            now = (load_file(latents), *clips.read(clip))
            first = first or now
            far = math.sqrt(sum(float(((now[0][n] - x) ** 2).sum()) for n, x in first[0].items()) / sum(float((x ** 2).sum()) for x in first[0].values()))
            level = float(np.abs(first[2]).max()) or 1.
            out[i].append((far, sight.psnr(now[1], first[1]), sight.psnr(now[2], first[2], level)))
    return [[statistics.mean(x) for x in zip(*step)] for step in out]


def main():
    a = stacks.options(__doc__, prompts=(3, "whose errors are taken"))
    lengths = a.lengths
    names = ["diffusers, " + a.dtype + ", 49 evaluations", *(what for what, _, _ in STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        files = plans(folder)
        found, isa = {}, ""
        for length in lengths:
            found[length], isa = times(a, length, folder, files)
        error = errors(a, folder, files)
    steps = range(len(names))
    middle = {n: [statistics.median(r[i][0] for r in found[n]) for i in steps] for n in lengths}
    factor = {n: [[statistics.median(r[0][k] / r[i][k] for r in found[n]) for i in steps] for k in (0, 1)] for n in lengths}   # of wall, of processor time
    print("| step | " + " | ".join(f"{n}, seconds | times | of processor time" for n in lengths) + " | latents | pictures, dB | sound, dB |")
    print("|---|" + "---|" * (3 * len(lengths) + 3))
    for i, name in enumerate(names):
        e = ["reference" if i == 0 else "0", "", ""] if i < 2 else [f"{error[i - 1][0]:.3f}", f"{error[i - 1][1]:.1f}", f"{error[i - 1][2]:.1f}"]
        if i > 1 and not error[i - 1][0] and error[i - 1][1] == 99 and error[i - 1][2] == 99:
            e = ["same bytes", "", ""]
        print(f"| {name} | " + " | ".join(f"{middle[n][i]:.3f} | {factor[n][0][i]:.1f} | {factor[n][1][i]:.1f}" for n in lengths) + " | " + " | ".join(e) + " |")
    row = stacks.origin(a, "ladder", isa, rounds=a.rounds, steps=names,
                       seconds={n: [round(x, 4) for x in middle[n]] for n in lengths}, times={n: [round(x, 2) for x in factor[n][0]] for n in lengths}, cpu_times={n: [round(x, 2) for x in factor[n][1]] for n in lengths},
                       errors=[[round(x, 4) for x in e] for e in error], error_prompts=a.prompts, command=" ".join(["script/bench ladder"] + sys.argv[1:]))
    if not a.no_append:
        turns.append(stacks.HERE + "/results/ladder.jsonl", row)


if __name__ == "__main__":
    main()
