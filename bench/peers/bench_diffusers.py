#!/usr/bin/env python3
"""PyTorch's time for the codecs of an H3 in the diffusers layout, on the CPU; one JSON line a run.

  bench_diffusers.py MODEL --dtype fp32|bf16 --frames 124 --size 256x160 --runs 3 [--threads 2] [--what video,audio,encode]

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
ap.add_argument("--what", default="video,audio")
ap.add_argument("--wait", action="store_true")
a = ap.parse_args()
for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(k, None)
os.environ["OMP_NUM_THREADS"] = str(a.threads)

import torch  # noqa: E402
from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio  # noqa: E402

torch.set_num_threads(a.threads)
torch.set_grad_enabled(False)
dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[a.dtype]
vae = AutoencoderKLMiniMaxH3.from_pretrained(a.model + "/vae", torch_dtype=dtype).eval()
audio = AutoencoderKLMiniMaxH3Audio.from_pretrained(a.model + "/audio_vae", torch_dtype=dtype).eval()
width, height = map(int, a.size.split("x"))
n = (a.frames - 5) // 17
latents = torch.randn(1, 24, 5 * n + 2, height // 16, width // 16, generator=torch.Generator().manual_seed(1))
sound = torch.randn(2, 32, round(a.frames / 24 * 40), generator=torch.Generator().manual_seed(2))
picture = torch.rand(1, 3, 1, height, width, generator=torch.Generator().manual_seed(3)) * 2 - 1


def stats(codec, shape):
    return torch.tensor(codec.config.latents_std).view(shape), torch.tensor(codec.config.latents_mean).view(shape)


def video():
    std, mean = stats(vae, (1, -1, 1, 1, 1))
    out = vae.decode(latents * std + mean, return_dict=False)[0].float()
    out = out * torch.tensor([.229, .224, .225]).view(1, 3, 1, 1, 1) + torch.tensor([.485, .456, .406]).view(1, 3, 1, 1, 1)
    return out.clamp(0, 1)


def audio_decode():
    std, mean = stats(audio, (1, -1, 1))
    return audio.decode(sound * std + mean, return_dict=False)[0]


work = dict(video=video, audio=audio_decode, encode=lambda: vae.encode(picture, return_dict=False)[0].mean)
for what in a.what.split(","):
    work[what]()
print("ready", flush=True)
for run in range(a.runs):
    if a.wait and not sys.stdin.readline():
        break
    row = dict(program="diffusers", dtype=a.dtype, threads=a.threads, frames=a.frames, size=a.size)
    for what in a.what.split(","):
        t, c = time.perf_counter(), time.process_time()
        work[what]()
        row[what] = round(time.perf_counter() - t, 4)
        row[what + "_cpu"] = round(time.process_time() - c, 4)   # of all threads; a busy machine moves it less
    print(json.dumps(row), flush=True)
