#!/usr/bin/env python3
"""Runs every test suite, adds their counts up and ends with one line "N passed, N failed". Exit code 1 if anything failed.
usage: tests/run.py [--quick] [--list] [--fuzz-seconds=N] [SUITE...]      (script/test calls it after the build)
A suite is a function that returns (passed, failed, [first lines about failures]); its whole output is in build/logs/SUITE.log."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
ZOETROPE = BUILD / "zoetrope"
JOBS = str(os.cpu_count() or 2)
FUZZ_SECONDS = 10


def command(name, args, timeout, env=None):
    """Output and exit code of a command; 124 if it ran out of time. The output is also appended to the suite's log."""
    with open(LOGS / f"{name}.log", "a") as log:
        log.write(f"$ {' '.join(map(str, args))}\n")
        try:
            run = subprocess.run(list(map(str, args)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=timeout, env={**os.environ, **(env or {})})
            out, code = run.stdout.decode("utf-8", "replace"), run.returncode
        except subprocess.TimeoutExpired as e:
            out, code = (e.stdout or b"").decode("utf-8", "replace") + f"\nno end after {timeout} s\n", 124
        log.write(out)
    return out, code


def script(name, args, timeout, env=None):
    """A suite of its own that ends with 'N passed, N failed'."""
    out, code = command(name, args, timeout, env)
    last = re.findall(r"^(\d+) passed, (\d+) failed", out, re.M)
    if not last:
        return 0, 1, out.strip().splitlines()[-5:] + [f"exit code {code}, no line 'N passed, N failed'"]
    passed, failed = map(int, last[-1])
    if code and not failed:
        failed = 1
    return passed, failed, [x for x in out.splitlines() if x.startswith(("FAIL", "bad"))][:20] if failed else []


def check():
    passed, failed, lines = 0, 0, []
    for tool in ("check", "check_test.py"):
        out, code = command("check", [ROOT / "tools" / tool], 600)
        passed, failed = passed + (code == 0), failed + (code != 0)
        lines += out.strip().splitlines()[-20:] if code else []
    return passed, failed, lines


def gtest_counts(folder):
    """Test program -> (passed, failed, names of the failed), from gtest's own JSON files."""
    counts = {}
    for f in folder.glob("*.json"):
        try:
            report = json.loads(f.read_text())
        except ValueError:
            continue
        cases = [t for s in report["testsuites"] for t in s["testsuite"]]
        bad = [f"{t['classname']}.{t['name']}" for t in cases if t.get("failures")]
        ran = [t for t in cases if t.get("result") == "COMPLETED"]
        counts[f.stem] = (len(ran) - len(bad), len(bad), bad)
    return counts


def run_ctest(name, build, timeout, select=()):
    reports = build / "gtest"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    out, code = command(name, ["ctest", "--test-dir", build, "--timeout", timeout, "--output-on-failure", *select], 3 * timeout,
                        {"GTEST_OUTPUT": f"json:{reports}/", "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1"})
    counts = gtest_counts(reports)
    passed, failed, lines = 0, 0, []
    for test, state in re.findall(r"^ *\d+/\d+ Test +#\d+: (\S+) \.+[ *]*(Passed|Failed|Timeout|Not Run|Exception[^ ]*|Subprocess aborted|\S+)", out, re.M):
        p, f, bad = counts.get(f"{test}_test", (int(state == "Passed"), 0, []))
        if state != "Passed" and not f:      # it crashed, hung, or could not start
            f, bad = 1, [state]
        passed, failed = passed + p, failed + f
        lines += [f"{test}: {b}" for b in bad]
    if passed + failed == 0:
        failed, lines = 1, ["ctest ran no test"] + out.strip().splitlines()[-5:]
    return passed, failed, lines


def unit():
    return run_ctest("unit", BUILD, 600)


def held(folder, plan, tolerance, *more):
    """(right, wrong, lines) of one golden folder. Bytes of frames and sound cannot be equal in bf16: there the float tensors count."""
    out, code = command("golden", [sys.executable, ROOT / "tests/golden/check.py", folder, ZOETROPE, "--plan", plan, "--tol", tolerance, *more], 900)
    m = re.search(r"^(\d+) tensors held, (\d+) wrong", out, re.M)
    if not m:
        return 0, 1, [f"{folder.name} {plan}: exit {code}", *out.strip().splitlines()[-5:]]
    bad = [x for x in out.splitlines() if re.match(r"\w+[.:]", x) and (plan == "exact" or not re.search(r"_u8|_s16", x))]
    wrong = int(m.group(2)) if plan == "exact" else len(bad)
    return max(int(m.group(1)) - wrong, 0), wrong, [f"{folder.name} {plan}: {x}" for x in bad[:20]]


def golden():
    folders = sorted(p for p in (ROOT / "tests/golden").iterdir() if (p / "cases.json").exists())
    passed, failed, lines = 0, 0, []
    runs = [(f, *how) for f in folders for how in (("exact", "1e-4"), ("exact", "1e-4", "--drawn"), ("fast", "3e-2"))]
    for run in runs:
        p, f, more = held(*run)
        passed, failed, lines = passed + p, failed + f, lines + more
    return passed, failed, lines


def lengths():
    return script("lengths", [sys.executable, ROOT / "tests/lengths.py", ZOETROPE], 900)


def checkpoints():
    return script("checkpoints", [sys.executable, ROOT / "tests/checkpoints.py", ZOETROPE], 900)


def rewritten():
    return script("rewritten", [sys.executable, ROOT / "tests/rewritten.py", ZOETROPE], 900)


def bad_input():
    return script("bad_input", [sys.executable, ROOT / "tests/bad_input.py", ZOETROPE], 900)


def plans():
    return script("plans", [sys.executable, ROOT / "tests/plans.py", ZOETROPE], 600)


def predictor():
    return script("predictor", [sys.executable, ROOT / "tools/predictor.py", "--zoetrope", ZOETROPE, "--check"], 300)


def contracts():
    return script("contracts", [sys.executable, ROOT / "tests/contracts.py", ZOETROPE], 900)


def deploy():
    return script("deploy", [sys.executable, ROOT / "tests/deploy.py", ZOETROPE, BUILD], 300)


def nano():
    return script("nano", [sys.executable, ROOT / "tests/nano.py", ZOETROPE], 600)


def faults():
    return script("faults", [sys.executable, ROOT / "tests/faults.py", ZOETROPE], 900)


def server():
    return script("server", [sys.executable, ROOT / "tests/server.py", ZOETROPE], 900)


def results():
    return script("results", [sys.executable, ROOT / "tests/results.py", ZOETROPE], 600)


def live():
    return script("live", [sys.executable, ROOT / "tests/live.py", ZOETROPE], 300)


def studio():
    return script("studio", [sys.executable, ROOT / "tests/studio.py", ZOETROPE], 300)


def bench():
    return script("bench", [sys.executable, ROOT / "tests/bench.py"], 60)


def configure(name, folder, args):
    env = {"CC": "clang", "CXX": "clang++"} if name == "fuzz" else None
    return command(name, ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *args], 300, env)


def sanitize():
    """The unit tests of every room under AddressSanitizer and UndefinedBehaviorSanitizer, and the bad inputs on top."""
    folder = ROOT / "build-asan"
    configure("sanitize", folder, ["-DZT_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=Release"])
    rooms = sorted({f.relative_to(ROOT / "src").parts[0] for f in (ROOT / "src").rglob("*_test.cc")})
    out, code = command("sanitize", ["ninja", "-C", folder, "zoetrope", *[f"{r}_test" for r in rooms]], 2400)
    if code:
        return 0, 1, out.strip().splitlines()[-10:]
    passed, failed, lines = run_ctest("sanitize", folder, 600, ["-R", f"^({'|'.join(rooms)})$"])
    p, f, more = script("sanitize", [sys.executable, ROOT / "tests/bad_input.py", folder / "zoetrope"], 1200)
    return passed + p, failed + f, lines + more


def fuzz():
    """Every fuzz target for a few seconds from its seeds."""
    folder = ROOT / "build-fuzz"
    configure("fuzz", folder, ["-DZT_FUZZ=ON", "-DZT_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=Release"])
    targets = sorted(p.stem for p in (ROOT / "src").rglob("*_fuzz.cc"))
    out, code = command("fuzz", ["ninja", "-C", folder, *targets], 2400)
    if code:
        return 0, 1, out.strip().splitlines()[-10:]
    passed, failed, lines = 0, 0, []
    for t in targets:
        program = next(p for p in folder.rglob(t) if p.is_file())
        stem = t[: -len("_fuzz")]
        found, seeds = folder / f"corpus_{t}", ROOT / "tests/corpus" / stem
        found.mkdir(exist_ok=True)
        args = [program, f"-max_total_time={FUZZ_SECONDS}", "-timeout=10", "-rss_limit_mb=3000", f"-artifact_prefix={folder}/", found]
        args += [seeds] if seeds.is_dir() else []
        if (d := ROOT / f"tests/corpus/{stem}.dict").exists():
            args.insert(1, f"-dict={d}")
        out, code = command("fuzz", args, FUZZ_SECONDS + 120)
        passed, failed = passed + (code == 0), failed + (code != 0)
        if code:
            lines += [f"{t}:"] + [x for x in out.splitlines() if "ERROR" in x or "SUMMARY" in x or "Test unit" in x][:4]
    return passed, failed, lines


SUITES = dict(check=check, unit=unit, golden=golden, lengths=lengths, checkpoints=checkpoints, rewritten=rewritten, bad_input=bad_input, contracts=contracts, plans=plans, predictor=predictor, deploy=deploy, nano=nano, faults=faults,
              server=server, results=results, live=live, studio=studio, bench=bench, sanitize=sanitize, fuzz=fuzz)


def main():
    global FUZZ_SECONDS
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    for a in sys.argv[1:]:
        if a.startswith("--fuzz-seconds="):
            FUZZ_SECONDS = int(a.split("=")[1])
    if "--list" in sys.argv:
        print(" ".join(SUITES))
        return 0
    unknown = [n for n in names if n not in SUITES]
    if unknown:
        print(f"no suite called {unknown[0]}; there are {' '.join(SUITES)}")
        return 2
    names = names or [n for n in SUITES if not ("--quick" in sys.argv and n in ("sanitize", "fuzz"))]
    LOGS.mkdir(parents=True, exist_ok=True)
    total_passed = total_failed = 0
    for name in names:
        (LOGS / f"{name}.log").unlink(missing_ok=True)
        start = time.time()
        passed, failed, lines = SUITES[name]()
        total_passed, total_failed = total_passed + passed, total_failed + failed
        for line in lines[:30]:
            print(f"  {line}")
        print(f"{name}: {passed} passed, {failed} failed, {time.time() - start:.0f} s" + (f" (build/logs/{name}.log)" if failed else ""), flush=True)
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed or not total_passed else 0


if __name__ == "__main__":
    sys.exit(main())
