"""What the benches of the whole stack share: their clips, their options, and the two programs, loaded, warm and waiting for turns."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/peers")
import turns  # noqa: E402

FRAMES = {"5s": 124, "15s": 345}   # 345 frames are the longest that the reference makes
PROMPT = "a large yellow circle bounces slowly on a navy background"


def options(doc, **more):
    """The options that all of them have; of `more` the defaults and helps, beside them. `lengths` are those of --only."""
    ap = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (default, text) in more.items():
        ap.add_argument("--" + name, help=text, **(dict(action="store_true") if default is False else dict(type=type(default), default=default)))
    ap.add_argument("--only", default="5s,15s")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--dtype", default="bf16", help="of the peer")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--model", default=HERE + "/../models/h3-nano")
    ap.add_argument("--build", default=HERE + "/../build")
    ap.add_argument("--no-append", action="store_true")
    a = ap.parse_args()
    a.lengths = a.only.split(",")
    if unknown := [x for x in a.lengths if x not in FRAMES]:
        sys.exit(f"--only {unknown[0]}: wanted of {', '.join(FRAMES)}")
    return a


def start(a, *command):
    return turns.start(command, dict(ZT_THREADS=str(a.threads), OMP_NUM_THREADS=str(a.threads), PYTHONWARNINGS="ignore"))


def ours(a, length, plan, evaluations, out):
    """evaluations 0: the plan's own."""
    return start(a, f"{a.build}/bench/stack_bench", a.model, plan, FRAMES[length], evaluations, a.rounds, out, PROMPT, "wait")


def peer(a, length, points, out):
    """diffusers at a schedule of so many points; one fewer evaluations."""
    return start(a, sys.executable, f"{HERE}/peers/stack_diffusers.py", a.model, "--dtype", a.dtype, "--frames", FRAMES[length], "--points", points, "--runs", a.rounds,
                 "--threads", a.threads, "--prompt", PROMPT, "--out", out, "--wait")


def origin(a, bench, isa, **more):
    return turns.origin(bench, isa=isa, threads=a.threads, model=os.path.basename(os.path.normpath(a.model)), **more)
