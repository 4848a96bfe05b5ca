#!/usr/bin/env python3
"""The whole stack, prompt to MP4 file: ours against diffusers at its default 50-point schedule, on the same model and machine, in turns.

  stack.py [--json] [--only 5s,15s] [--rounds 3] [--plan fast] [--evaluations N] [--dtype bf16] [--threads N] [--model models/h3-nano]
           [--points 50] [--build build] [--no-append]

Both programs are loaded, warm and waiting; every round runs both. Prints at least speedup_5s, speedup_15s, denoise_speedup_5s,
denoise_speedup_15s (medians over rounds of peer / ours) and the rows behind them; rows are appended to bench/results/stack.jsonl.
"""
import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/peers")
import turns  # noqa: E402

FRAMES = {"5s": 124, "15s": 345}   # 345 frames are the longest that the reference makes
PROMPT = "a large yellow circle bounces slowly on a navy background"

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--json", action="store_true")
ap.add_argument("--only", default="5s,15s")
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--plan", default="fast")
ap.add_argument("--evaluations", type=int, default=4, help="of ours; 0: the plan's own")
ap.add_argument("--points", type=int, default=50, help="of the peer; N - 1 evaluations")
ap.add_argument("--dtype", default="bf16", help="of the peer")
ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
ap.add_argument("--model", default=HERE + "/../models/h3-nano")
ap.add_argument("--build", default=HERE + "/../build")
ap.add_argument("--no-append", action="store_true")
a = ap.parse_args()
lengths = a.only.split(",")
if unknown := [x for x in lengths if x not in FRAMES]:
    sys.exit(f"--only {unknown[0]}: wanted of {', '.join(FRAMES)}")


def measure(length, folder):
    env = dict(ZT_THREADS=str(a.threads), OMP_NUM_THREADS=str(a.threads), PYTHONWARNINGS="ignore")
    frames = FRAMES[length]
    ours = turns.start([f"{a.build}/bench/stack_bench", a.model, a.plan, frames, a.evaluations, a.rounds, f"{folder}/ours.mp4", PROMPT, "wait"], env)
    peer = turns.start([sys.executable, f"{HERE}/peers/stack_diffusers.py", a.model, "--dtype", a.dtype, "--frames", frames, "--points", a.points, "--runs",
                        a.rounds, "--threads", a.threads, "--prompt", PROMPT, "--out", f"{folder}/peer.mp4", "--wait"], env)
    pairs = turns.rounds(ours, peer, a.rounds)
    turns.stop(ours, peer)
    first = pairs[0]
    row = turns.origin("stack", isa=first[0]["isa"], threads=a.threads, model=os.path.basename(os.path.normpath(a.model)), clip=length, frames=frames,
                       size=first[1]["size"], plan=a.plan, evaluations=first[0]["evaluations"], peer="diffusers 0.42.1", peer_dtype=a.dtype,
                       peer_evaluations=first[1]["evaluations"], rounds=a.rounds)
    for stage in ("total", "denoise", "video_decode", "audio_decode", "encode"):
        row[stage] = turns.compare(pairs, stage)
    row["rounds_of"] = pairs
    return row


out, rows = {}, []
with tempfile.TemporaryDirectory() as folder:
    for length in lengths:
        row = measure(length, folder)
        out[f"speedup_{length}"] = row["total"]["ratio"]
        out[f"denoise_speedup_{length}"] = row["denoise"]["ratio"]
        rows.append(row)
        if not a.json:
            for stage in ("total", "denoise", "video_decode", "audio_decode", "encode"):
                print("%-4s %-13s ours %8.3f s   diffusers %8.3f s   %6.1fx" % (length, stage, row[stage]["ours"], row[stage]["peer"], row[stage]["ratio"]))
        if not a.no_append:
            row["command"] = " ".join(["script/bench stack"] + sys.argv[1:])
            turns.append(HERE + "/results/stack.jsonl", row)
if a.json:
    print(json.dumps(dict(out, rows=rows)))
