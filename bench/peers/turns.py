"""Two programs that wait on their standard input, measured in turns; and what a row of bench/results says about where it was made."""
import json
import os
import platform
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def start(command, env=None):
    """The program, once it has printed "ready"."""
    p = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         env={**os.environ, **(env or {})})
    while True:
        line = p.stdout.readline()
        if not line:
            sys.exit(f"{command[0]} ended before it was ready; run it alone to see why: {' '.join(map(str, command))}")
        if line.strip() == "ready":
            return p


def turn(p):
    """One run of a waiting program: its JSON line; or what a function of the caller's measures."""
    if callable(p):
        return p()
    p.stdin.write("go\n")
    p.stdin.flush()
    while True:
        line = p.stdout.readline()
        if not line:
            sys.exit("a program ended in the middle of a measurement")
        if line.startswith("{"):
            return json.loads(line)


def stop(*programs):
    for p in programs:
        p.stdin.close()
        p.wait()


def rounds(ours, peer, n):
    """n rounds; who goes first alternates, so that neither always follows the other."""
    out = []
    for i in range(n):
        if i % 2:
            b = turn(peer)
            out.append((turn(ours), b))
        else:
            a = turn(ours)
            out.append((a, turn(peer)))
    return out


def compare(pairs, key):
    """Medians and the median over rounds of peer / ours (above 1: ours is faster), of wall and of processor time."""
    med = lambda side, k: round(statistics.median(p[side][k] for p in pairs), 5)   # noqa: E731
    ratio = lambda k: round(statistics.median(p[1][k] / p[0][k] for p in pairs), 3)   # noqa: E731
    cpu = key + "_cpu"
    out = dict(ours=med(0, key), peer=med(1, key), ratio=ratio(key), ours_min=min(p[0][key] for p in pairs), peer_min=min(p[1][key] for p in pairs))
    if all(cpu in q for p in pairs for q in p):
        out.update(ours_cpu=med(0, cpu), peer_cpu=med(1, cpu), cpu_ratio=ratio(cpu))
    return out


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())


def origin(bench, **more):
    """What every row begins with."""
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    return dict(bench=bench, date=time.strftime("%Y-%m-%d"), commit=commit, machine=cpu_name(), load=round(os.getloadavg()[0], 2), **more)


def append(path, row):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "a") as f:
        f.write(json.dumps(row) + "\n")
