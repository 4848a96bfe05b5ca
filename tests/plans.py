#!/usr/bin/env python3
"""What plans promise: same bytes where they say so, evaluations left out and counted, values of the plan used, refusals.
usage: tests/plans.py build/zoetrope      (ends with "N passed, N failed")"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from counts import check, close

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/h3-nano"
zoetrope = Path(sys.argv[1]).resolve()


def generate(folder, name, plan, *more, threads=2):
    (folder / f"{name}.json").write_text(json.dumps(dict(plan, name=name)))
    out = folder / f"{name}.mp4"
    run = subprocess.run([zoetrope, "generate", "a small red star spins on a grey background", "--model", MODEL, "--plan", folder / f"{name}.json", "--threads",
                          str(threads), "-o", out, "--json", "-q", *map(str, more)], capture_output=True, text=True)
    if run.returncode:
        return run.returncode, run.stderr, None
    streams = subprocess.run(["ffmpeg", "-v", "error", "-i", out, "-map", "0", "-c", "copy", "-f", "streamhash", "-"], capture_output=True, text=True).stdout
    return 0, json.loads(run.stdout), streams


with tempfile.TemporaryDirectory() as t:
    folder = Path(t)
    short = ("--frames", 22, "--evaluations", 5)
    base = {"denoiser": {"compute": "bf16", "adaln_tables": False}, "stages": {"overlap": False}}
    _, _, plain = generate(folder, "plain", base, *short)
    check("a plan with every switch off runs", plain)
    for name, change in (("tables", {"denoiser": {"compute": "bf16", "adaln_tables": True}}), ("overlap", {"stages": {"overlap": True}})):
        _, _, streams = generate(folder, name, dict(base, **change), *short)
        check(f"{name}: the same bytes with and without", streams and streams == plain)
    _, report, streams = generate(folder, "reuse", dict(base, sampler={"reuse_video": 9, "reuse_sound": 9, "reuse_most": 1}), *short)
    check("of 5 evaluations the first two, one after a reuse, and the last are computed", report["evaluations"] == 5 and report["evaluations_left_out"] == 1)
    check("a reused velocity is another clip", streams != plain)
    _, _, dense = generate(folder, "dense", dict(base, denoiser={"compute": "bf16", "attention_mass": 1}), "--frames", 56, "--evaluations", 2)
    sparse = {"denoiser": {"compute": "bf16", "attention_mass": 0.5}}
    _, _, masked = generate(folder, "masked", dict(base, **sparse), "--frames", 56, "--evaluations", 2)
    check("attention that leaves blocks out is another clip", masked and masked != dense)
    check("blocks are chosen the same for any number of threads", generate(folder, "masked", dict(base, **sparse), "--frames", 56, "--evaluations", 2, threads=1)[2] == masked)
    again = generate(folder, "reuse", dict(base, sampler={"reuse_video": 9, "reuse_sound": 9, "reuse_most": 1}), *short, threads=1)
    check("reuse decides the same for any number of threads", again[2] == streams)
    _, report, _ = generate(folder, "few", dict(base, sampler={"evaluations": 3}), "--frames", 22)
    check("a plan's own number of evaluations", report["evaluations"] == 3 and report["plan"]["sampler"]["evaluations"] == 3)
    _, report, _ = generate(folder, "few", dict(base, sampler={"evaluations": 3}), "--frames", 22, "--evaluations", 2)
    check("a request's number of evaluations comes before the plan's", report["evaluations"] == 2)
    _, report, _ = generate(folder, "quick", dict(base, encoder={"preset": "ultrafast", "sound_coder": "fast"}, measured={"error": {"latents": 0.5}}), *short)
    check("the report holds the plan's measured error", report["plan"]["measured"]["error"]["latents"] == 0.5)
    for name, plan, word in (("bad1", {"stages": {"overlap": "yes"}}, "overlap"), ("bad2", {"sampler": {"reuse_video": -1}}, "reuse_video"),
                             ("bad3", {"encoder": {"preset": "warp"}}, "warp"), ("bad4", {"denoiser": {"compute": "f31"}}, "f31"), ("bad5", {"denoiser": {"attention_mass": 0}}, "attention_mass")):
        code, message, _ = generate(folder, name, plan, *short)
        check(f"{name}: refused by name", code == 2 and word in message)
    for args, code, word in ((["--hardware", "nowhere"], 2, "mi355x"), (["--ranks", "9"], 2, "--ranks"), (["--size", "100x100"], 2, "--size"),
                             (["--hardware", str(ROOT / "hardware/epyc_avx2_2.json"), "--ranks", "2"], 2, "link")):
        run = subprocess.run([zoetrope, "plan", MODEL, *args], capture_output=True, text=True)
        check(f"plan {' '.join(args)}: {run.returncode} {run.stderr.strip()[:120]}", run.returncode == code and word in run.stderr)
    run = subprocess.run([zoetrope, "plan", MODEL, "--frames", "22", "--threads", "1", "--json"], capture_output=True, text=True)
    p = json.loads(run.stdout)
    check("plan measures this machine", [s["stage"] for s in p["stages"]] == ["text", "denoise", "video decode", "audio decode", "encode"] and p["generation_seconds"] > 0)


def doctor(model, *more):
    run = subprocess.run([zoetrope, "doctor", model, "--json", *map(str, more)], capture_output=True, text=True)
    return run.returncode, json.loads(run.stdout) if run.stdout.startswith("{") else {"error": run.stderr}


with tempfile.TemporaryDirectory() as t:
    folder = Path(t)
    code, found = doctor(MODEL, "--frames", 73)
    plans = {p["plan"]: p for p in found["plans"]}
    check("doctor: h3-nano is whole, and all its plans are forecast", code == 0 and found["sound"] and set(plans) >= {"exact", "fast", "balanced", "live"}, found["findings"])
    check("doctor: names what is missing", any("transformer_ref" in f["text"] for f in found["findings"] if f["kind"] == "lacking"))
    check("doctor: advises the fastest that fits", found["advised"] == min((p for p in found["plans"] if p["fits"]), key=lambda p: p["seconds"])["plan"])
    check("doctor: a plan's evaluations and stated error", plans["live"]["evaluations"] == json.loads((MODEL / "plans/live.json").read_text())["sampler"]["evaluations"]
          and plans["exact"]["error"] == 0 and plans["fast"]["error"] is None and 0 < plans["live"]["error"] < 1)
    for plan, isa in (("fast", ""), ("exact", ""), ("exact", "avx2")):
        machine = dict(os.environ, ZT_ISA=isa)
        run = subprocess.run([zoetrope, "generate", "a small red star spins on a grey background", "--model", MODEL, "--plan", plan, "--frames", "73", "--evaluations", "2",
                              "-o", folder / f"{plan}{isa}.mp4", "--json", "-q"], capture_output=True, text=True, env=machine)
        peak = json.loads(run.stdout)["peak_rss_bytes"]
        seen = subprocess.run([zoetrope, "doctor", MODEL, "--json", "--frames", "73"], capture_output=True, text=True, env=machine)
        foreseen = next(p["memory_bytes"] for p in json.loads(seen.stdout)["plans"] if p["plan"] == plan)
        check(f"doctor: the memory of plan {plan} {isa} is what a run takes, or up to 1.5 times that", peak <= foreseen <= 1.5 * peak, f"{foreseen} of {peak}")
    # A limit between what the model needs streamed and resident: inspect and doctor foresee what generate then does.
    inspect = lambda *more: json.loads(subprocess.run([zoetrope, "inspect", MODEL, "--json", *more], capture_output=True, text=True).stdout)["memory"]["plans"]["fast"]
    whole = inspect("--memory", "0")
    limit = str((whole["bytes"] >> 20) - 3)
    tight = inspect("--memory", limit)
    check("inspect: without a limit all blocks stay", whole["mode"] == "resident" and whole["streamed_bytes"] == 0 and whole["fits"], whole)
    check("inspect: within a limit some are streamed", tight["mode"] == "mixed" and 0 < tight["resident_blocks"] < tight["blocks"] and tight["streamed_bytes"] > 0 and tight["fits"], tight)
    text = subprocess.run([zoetrope, "inspect", MODEL, "--memory", limit], capture_output=True, text=True).stdout
    check("inspect: says so in words", f"{tight['resident_blocks']} of {tight['blocks']} blocks stay" in text, text)
    found = {p["plan"]: p for p in doctor(MODEL, "--memory", 16)[1]["plans"]}
    check("doctor: what does not fit even streamed", not found["fast"]["fits"] and found["fast"]["memory_mode"] == "streamed", found)
    code, found = doctor(MODEL, "--memory", limit)
    check("doctor: what is streamed is slow, with its remedy", any("read from disk" in f["text"] and "--memory" in f["text"] for f in found["findings"] if f["kind"] == "slow"), found["findings"])
    shutil.copytree(MODEL, folder / "cut")
    weights = folder / "cut/transformer/diffusion_pytorch_model.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(weights.read_bytes()[:-1000])
    (folder / "cut/plans/odd.json").write_text('{"denoiser": {"compute": "f31"}}')
    code, found = doctor(folder / "cut")
    check("doctor: a cut file is a problem, named", code == 3 and not found["sound"] and any("transformer" in f["text"] for f in found["findings"] if f["kind"] == "problem"), found)
    check("doctor: a plan that cannot be read is named", any("odd" in f["text"] and "f31" in f["text"] for f in found["findings"]))
    code, found = doctor(ROOT / "models/h3-33b", "--size", "256x160", "--frames", 22)
    check("doctor: configs without weights are no whole model, and still forecast", code == 3 and found["plans"] and found["plans"][0]["memory_bytes"] > 60e9, found)
    for args, word in ((["--size", "100x100"], "multiple"), (["--size", "wide"], "--size"), (["--frames", "1"], "--frames"), (["--threads", "999"], "--threads")):
        code, found = doctor(MODEL, *args)
        check(f"doctor {' '.join(args)}: refused by name", code == 2 and word in found.get("error", ""), found)
sys.exit(close())
