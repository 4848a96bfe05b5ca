#!/usr/bin/env python3
"""PyTorch's time for one evaluation of an H3 transformer in the diffusers layout, on the CPU; one JSON line a run.

  dit_diffusers.py MODEL --dtype fp32|bf16 --frames 124 --size 256x160 --runs 3 [--threads 2] [--compile] [--wait]

The same noise, text and noise levels as bench/dit_bench.cc. --compile is diffusers' own recipe: every block compiled by itself.
Reads one line from stdin before each run where --wait is given, so that another program can be measured in turn.
"""
import argparse
import json
import os
import sys
import time

ap = argparse.ArgumentParser()
ap.add_argument("model")
ap.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
ap.add_argument("--frames", type=int, default=124)
ap.add_argument("--size", default="256x160")
ap.add_argument("--runs", type=int, default=3)
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--compile", action="store_true")
ap.add_argument("--wait", action="store_true")
a = ap.parse_args()
for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(k, None)
os.environ["OMP_NUM_THREADS"] = str(a.threads)

import torch  # noqa: E402
from diffusers import MiniMaxH3Transformer3DModel  # noqa: E402
from diffusers.modular_pipelines.minimax_h3.before_denoise import MiniMaxH3PrepareLayoutStep, MiniMaxH3SetTimestepsStep  # noqa: E402

torch.set_num_threads(a.threads)
torch.set_grad_enabled(False)
dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[a.dtype]
dit = MiniMaxH3Transformer3DModel.from_pretrained(a.model + "/transformer", torch_dtype=dtype).eval()
if a.compile:
    for m in (dit.transformer_blocks, dit.token_refiner.refiner_blocks):
        for b in m:
            b.compile(fullgraph=True, dynamic=False)
width, height = map(int, a.size.split("x"))
n = (a.frames - 5) // 17
positions, tags, vi, ai, ti, _, _ = MiniMaxH3PrepareLayoutStep.build_packed_sequence(
    torch.ones(64, dtype=torch.long), 5 * n + 2, height // 16, width // 16, round(a.frames / 24 * 40), (1, 2, 2), 2, 2, 0)
g = torch.Generator().manual_seed(1)
x, y = torch.randn(len(vi), 96, generator=g), torch.randn(len(ai), 32, generator=g)
text = torch.randn(1, 64, dit.config.text_dim, generator=torch.Generator().manual_seed(7)).to(dtype)
t, index = MiniMaxH3SetTimestepsStep.build_row_timesteps(vi, ai, 0, 0, 64, 1 - 12 / 13, 0.25, 0.999, 1.0)


def evaluate():
    return dit(hidden_states=x[None], audio_hidden_states=y[None], encoder_hidden_states=text, timestep=t, timestep_indices=index, token_tags=tags,
               position_ids=positions, video_indices=vi, audio_indices=ai, text_indices=ti, return_dict=False)


evaluate()
print("ready", flush=True)
for run in range(a.runs):
    if a.wait and not sys.stdin.readline():
        break
    t0, c0 = time.perf_counter(), time.process_time()
    v, w = evaluate()
    print(json.dumps(dict(program="diffusers", dtype=a.dtype, threads=a.threads, frames=a.frames, size=a.size, rows=len(tags),
                          step=round(time.perf_counter() - t0, 5), step_cpu=round(time.process_time() - c0, 5),
                          rms=[round(float(z.float().pow(2).mean().sqrt()), 5) for z in (v, w)])), flush=True)
