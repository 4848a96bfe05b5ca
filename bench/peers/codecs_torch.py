#!/usr/bin/env python3
"""Our codecs against diffusers on the same weights, in turns, and one JSON line for each precision.

  codecs_torch.py MODEL --bench build/bench/codec_bench [--dtype fp32,bf16] [--frames 124] [--size 256x160] [--rounds 5]
                  [--what video,audio,encode] [--out bench/results/codecs.jsonl]

MODEL comes from make_random.py. Both programs are warm and waiting; every round runs ours, then the peer's, with the same number of
threads. "ratio" is the median over rounds of peer / ours (above 1: ours is faster); "cpu" figures are processor seconds of all threads,
which other work on the machine moves less than the clock. Audio is float32 in both programs whatever the precision asked.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ap = argparse.ArgumentParser()
ap.add_argument("model")
ap.add_argument("--bench", required=True)
ap.add_argument("--dtype", default="fp32,bf16")
ap.add_argument("--frames", type=int, default=124)
ap.add_argument("--size", default="256x160")
ap.add_argument("--rounds", type=int, default=5)
ap.add_argument("--what", default="video,audio")
ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
ap.add_argument("--out")
a = ap.parse_args()
here = os.path.dirname(os.path.abspath(__file__))
env = dict(os.environ, ZT_THREADS=str(a.threads), OMP_NUM_THREADS=str(a.threads))


def start(command):
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    while True:
        line = p.stdout.readline()
        if not line:
            sys.exit(f"{command[0]} ended before it was ready")
        if line.strip() == "ready":
            return p


def turn(p):
    p.stdin.write("go\n")
    p.stdin.flush()
    return json.loads(p.stdout.readline())


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())


for dtype in a.dtype.split(","):
    ours = start([a.bench, a.model, dtype, str(a.frames), a.size, str(a.rounds), a.what, "wait"])
    peer = start([sys.executable, f"{here}/bench_diffusers.py", a.model, "--dtype", dtype, "--frames", str(a.frames), "--size", a.size,
                  "--runs", str(a.rounds), "--threads", str(a.threads), "--what", a.what, "--wait"])
    pairs = [(turn(ours), turn(peer)) for _ in range(a.rounds)]
    for p in (ours, peer):
        p.stdin.close()
        p.wait()
    commit = subprocess.run(["git", "-C", here, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    row = dict(bench="codecs", date=time.strftime("%Y-%m-%d"), commit=commit, machine=cpu_name(), isa=pairs[0][0]["isa"], threads=a.threads,
               model=os.path.basename(os.path.normpath(a.model)), dtype=dtype, frames=a.frames, size=a.size, rounds=a.rounds,
               peer="diffusers 0.42.1", load=os.getloadavg()[0], scratch_mib=pairs[-1][0]["scratch_mib"])
    for what in a.what.split(","):
        med = lambda side, key: round(statistics.median(p[side][key] for p in pairs), 4)   # noqa: E731
        row[what] = dict(ours=med(0, what), peer=med(1, what), ours_cpu=med(0, what + "_cpu"), peer_cpu=med(1, what + "_cpu"),
                         ratio=round(statistics.median(p[1][what] / p[0][what] for p in pairs), 3),
                         cpu_ratio=round(statistics.median(p[1][what + "_cpu"] / p[0][what + "_cpu"] for p in pairs), 3))
    row["command"] = " ".join(["bench/peers/codecs_torch.py", row["model"]] + sys.argv[2:])
    print(json.dumps(row), flush=True)
    if a.out:
        os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
        with open(a.out, "a") as f:
            f.write(json.dumps(row) + "\n")
