#!/usr/bin/env python3
"""Our own clips by length: seconds of each stage, one JSON line a length, appended to bench/results/clips.jsonl.

  clips.py [--model models/h3-nano] [--plan fast] [--evaluations 4] [--frames 22,56,124,345] [--rounds 3] [--no-append]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/peers")
import turns  # noqa: E402

ap = argparse.ArgumentParser()
ap.add_argument("--model", default=HERE + "/../models/h3-nano")
ap.add_argument("--plan", default="fast")
ap.add_argument("--evaluations", type=int, default=4)
ap.add_argument("--frames", default="22,56,124,345")
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--zoetrope", default=HERE + "/../build/zoetrope")
ap.add_argument("--no-append", action="store_true")
a = ap.parse_args()
for frames in map(int, a.frames.split(",")):
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            out = subprocess.run([a.zoetrope, "generate", "a small red star spins on a grey background", "--model", a.model, "--plan", a.plan, "--evaluations",
                                  str(a.evaluations), "--frames", str(frames), "-o", f"{folder}/clip.mp4", "--json", "-q"], capture_output=True, text=True, check=True)
            runs.append(json.loads(out.stdout))
    r = runs[0]
    row = turns.origin("clips", isa=r["isa"], threads=r["threads"], model=os.path.basename(os.path.normpath(a.model)), plan=a.plan, frames=r["frames"],
                       evaluations=r["evaluations"], size=f"{r['width']}x{r['height']}", rounds=a.rounds, peak_rss_bytes=r["peak_rss_bytes"])
    row["total"] = round(statistics.median(x["total_seconds"] for x in runs), 4)
    row["ratio"] = round(statistics.median(x["ratio"] for x in runs), 4)   # seconds of work for each second of clip
    row["stages"] = {s["stage"]: round(statistics.median(t["seconds"] for x in runs for t in x["stages"] if t["stage"] == s["stage"]), 4) for s in r["stages"]}
    row["command"] = " ".join(["script/bench clips"] + sys.argv[1:])
    print(json.dumps(row), flush=True)
    if not a.no_append:
        turns.append(HERE + "/results/clips.jsonl", row)
