#!/usr/bin/env python3
"""One evaluation of the denoiser, ours against diffusers on the same weights, in turns; one JSON line for each precision.

  dit_torch.py MODEL --bench build/bench/dit_bench [--dtype fp32,bf16] [--frames 124] [--size 256x160] [--rounds 5] [--threads 2]
               [--compile] [--out bench/results/dit.jsonl]

MODEL comes from make_random.py. Both programs are warm and waiting and use the same number of threads. "ratio" is the median over rounds
of peer / ours; "cpu" figures are processor seconds of all threads. Both rms of the velocities are in the row: they show that the work is the same.
"""
import argparse
import json
import os
import sys

import turns

ap = argparse.ArgumentParser()
ap.add_argument("model")
ap.add_argument("--bench", required=True)
ap.add_argument("--dtype", default="fp32,bf16")
ap.add_argument("--frames", type=int, default=124)
ap.add_argument("--size", default="256x160")
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
ap.add_argument("--compile", action="store_true")
ap.add_argument("--out")
a = ap.parse_args()

for dtype in a.dtype.split(","):
    env = dict(ZT_THREADS=str(a.threads), OMP_NUM_THREADS=str(a.threads))
    ours = turns.start([a.bench, a.model, dtype, a.frames, a.size, a.rounds, "wait"], env)
    peer = turns.start([sys.executable, f"{turns.HERE}/dit_diffusers.py", a.model, "--dtype", dtype, "--frames", a.frames, "--size", a.size,
                        "--runs", a.rounds, "--threads", a.threads, "--wait", *(["--compile"] if a.compile else [])], env)
    pairs = turns.rounds(ours, peer, a.rounds)
    turns.stop(ours, peer)
    row = turns.origin("dit", isa=pairs[0][0]["isa"], threads=a.threads, model=os.path.basename(os.path.normpath(a.model)), dtype=dtype,
                       frames=a.frames, size=a.size, rows=pairs[0][0]["rows"], rounds=a.rounds,
                       peer="diffusers 0.42.1" + (", blocks compiled" if a.compile else ""), step=turns.compare(pairs, "step"),
                       rms_ours=pairs[0][0]["rms"], rms_peer=pairs[0][1]["rms"], scratch_mib=pairs[0][0]["scratch_mib"])
    row["command"] = " ".join(["bench/peers/dit_torch.py", row["model"]] + sys.argv[2:])
    print(json.dumps(row), flush=True)
    if a.out:
        turns.append(a.out, row)
