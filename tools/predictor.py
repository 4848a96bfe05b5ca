#!/usr/bin/env python3
"""Holds `zoetrope plan` against every published figure (bench/published.json) and writes the table of docs/predictor.md.
usage: tools/predictor.py [--zoetrope build/zoetrope] [--check]     (--check: no writing; ends with "N passed, N failed")
--check holds the table in the docs to what the program says, and the fitted row to 10 %."""
import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/predictor.md"
BEGIN, END = "<!-- table: tools/predictor.py -->\n", "<!-- end -->\n"


def predict(zoetrope, r):
    out = subprocess.run([zoetrope, "plan", ROOT / "models/h3-33b", "--hardware", ROOT / f"hardware/{r['hardware']}.json", "--ranks", str(r["ranks"]),
                          "--stack", r["stack"], "--frames", str(r["frames"]), "--evaluations", str(r["evaluations"]), "--json"],
                         capture_output=True, text=True, check=True).stdout
    p = json.loads(out)
    stage = {s["stage"]: s["seconds"] for s in p["stages"]}
    return {"denoise": stage["denoise"], "generation": p["generation_seconds"], "total": p["total_seconds"]}[r["part"]]


def table(zoetrope, rows):
    out = "| system | hardware | clip | evaluations | part | published, s | predicted, s | error | note |\n|---|---|---|---|---|---|---|---|---|\n"
    errors = []
    for r in rows:
        p = predict(zoetrope, r)
        error = p / r["seconds"] - 1
        if "fitted" not in r.get("note", ""):
            errors.append(abs(math.log(p / r["seconds"])))
        out += (f"| {r['system']} | {r['ranks']} {r['hardware']}, {r['stack']} | {r['frames']} frames | {r['evaluations']} | {r['part']} | {r['seconds']:g} | "
                f"{p:.2f} | {100 * error:+.0f} % | {r.get('note', '')} |\n")
    out += f"\nMedian factor off, fitted rows left out: {math.exp(statistics.median(errors)):.2f}; worst: {math.exp(max(errors)):.2f}.\n"
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--zoetrope", default=ROOT / "build/zoetrope")
    ap.add_argument("--check", action="store_true")
    a = ap.parse_args()
    rows = json.loads((ROOT / "bench/published.json").read_text())
    made = table(a.zoetrope, rows)
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    old, tail = rest.split(END)
    if not a.check:
        PAGE.write_text(head + BEGIN + made + END + tail)
        return 0
    same = old == made
    fitted = abs(predict(a.zoetrope, rows[0]) / rows[0]["seconds"] - 1) < 0.1
    for ok, what in ((same, "docs/predictor.md is what tools/predictor.py would write"), (fitted, "the row that `library` is fitted to, within 10 %")):
        if not ok:
            print("FAIL", what)
    print(f"{same + fitted} passed, {2 - same - fitted} failed")
    return 0 if same and fitted else 1


if __name__ == "__main__":
    sys.exit(main())
