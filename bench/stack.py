#!/usr/bin/env python3
"""The whole stack, prompt to MP4 file: ours against diffusers at its default 50-point schedule, on the same model and machine, in turns.

  stack.py [--json] [--only 5s,15s] [--rounds 3] [--plan fast] [--evaluations N] [--dtype bf16] [--threads N] [--model models/h3-nano]
           [--points 50] [--build build] [--no-append]

Both programs are loaded, warm and waiting; every round runs both. Prints at least speedup_5s, speedup_15s, denoise_speedup_5s,
denoise_speedup_15s (medians over rounds of peer / ours) and the rows behind them; rows are appended to bench/results/stack.jsonl.
"""
import json
import sys
import tempfile

import stacks
import turns

a = stacks.options(__doc__, json=(False, "one JSON document"), plan=("fast", None), evaluations=(4, "of ours; 0: the plan's own"), points=(50, "of the peer; N - 1 evaluations"))


def measure(length, folder):
    ours = stacks.ours(a, length, a.plan, a.evaluations, f"{folder}/ours.mp4")
    peer = stacks.peer(a, length, a.points, f"{folder}/peer.mp4")
    pairs = turns.rounds(ours, peer, a.rounds)
    turns.stop(ours, peer)
    first = pairs[0]
    row = stacks.origin(a, "stack", first[0]["isa"], clip=length, frames=stacks.FRAMES[length], size=first[1]["size"], plan=a.plan, evaluations=first[0]["evaluations"],
                        peer="diffusers 0.42.1", peer_dtype=a.dtype, peer_evaluations=first[1]["evaluations"], rounds=a.rounds)
    for stage in ("total", "denoise", "video_decode", "audio_decode", "encode"):
        row[stage] = turns.compare(pairs, stage)
    row["rounds_of"] = pairs
    return row


out, rows = {}, []
with tempfile.TemporaryDirectory() as folder:
    for length in a.lengths:
        row = measure(length, folder)
        out[f"speedup_{length}"] = row["total"]["ratio"]
        out[f"denoise_speedup_{length}"] = row["denoise"]["ratio"]
        rows.append(row)
        if not a.json:
            for stage in ("total", "denoise", "video_decode", "audio_decode", "encode"):
                print("%-4s %-13s ours %8.3f s   diffusers %8.3f s   %6.1fx" % (length, stage, row[stage]["ours"], row[stage]["peer"], row[stage]["ratio"]))
        if not a.no_append:
            row["command"] = " ".join(["script/bench stack"] + sys.argv[1:])
            turns.append(stacks.HERE + "/results/stack.jsonl", row)
if a.json:
    print(json.dumps(dict(out, rows=rows)))
