#!/usr/bin/env python3
"""What the command line promises beyond right numbers: the same bytes for any number of threads, a stop that leaves nothing behind, a clip
that makes itself again, one JSON document, memory that does not grow with the clip. Ends with "N passed, N failed".
usage: tests/contracts.py ZOETROPE [MODEL]      (needs the ffmpeg program)"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from counts import check, close

ROOT = Path(__file__).resolve().parent.parent
EXE = Path(sys.argv[1]).resolve()
MODEL = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/h3-nano").resolve()
PROMPT = "a red circle bounces on a dark background"


def generate(out, *args, threads="2", prompt=PROMPT, model=MODEL):
    cmd = [EXE, "generate", "--model", model, "-o", out, "--json", "--quiet", "--threads", threads, *args]
    run = subprocess.run(list(map(str, cmd + ([f"--prompt={prompt}"] if prompt else []))), capture_output=True, timeout=300, text=True)
    if run.returncode:
        raise SystemExit(f"FAIL generate {args}: exit {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def frames_md5(path):
    return subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "framemd5", "-"], capture_output=True, check=True, text=True).stdout


def same_bytes_for_any_thread_count(d):
    for plan in ("exact", "fast"):
        for threads in ("1", "2", "3", "5"):
            generate(d / f"{plan}{threads}.mp4", "--frames", 39, "--evaluations", 2, "--seed", 5, "--plan", plan, threads=threads)
        one = (d / f"{plan}1.mp4").read_bytes()
        check(f"plan {plan}: 1, 2, 3 and 5 threads give the same file", all((d / f"{plan}{n}.mp4").read_bytes() == one for n in "235"))


def steps_and_evaluations(d):
    a = generate(d / "steps.mp4", "--frames", 22, "--steps", 4, "--seed", 1)
    b = generate(d / "evaluations.mp4", "--frames", 22, "--evaluations", 3, "--seed", 1)
    check("--steps 4 is --evaluations 3, and the output names both", (a["steps"], a["evaluations"]) == (4, 3) == (b["steps"], b["evaluations"]))
    check("and both give the same frames", frames_md5(d / "steps.mp4") == frames_md5(d / "evaluations.mp4"))
    c = generate(d / "other.mp4", "--frames", 22, "--evaluations", 3, "--seed", 2)
    check("another seed gives another clip", frames_md5(d / "steps.mp4") != frames_md5(d / "other.mp4") and c["seed"] == 2)
    stages = {s["stage"] for s in a["stages"]}
    check("the JSON names every stage", {"text", "denoise", "video decode", "audio decode", "encode"} <= stages, str(stages))
    check("the ratio is time over length", abs(a["ratio"] - a["total_seconds"] / a["seconds"]) < 1e-6)


def profiles(d):
    a = generate(d / "profiled.mp4", "--frames", 39, "--evaluations", 3, "--profile", d / "profile.json")
    spans = [e for e in json.loads((d / "profile.json").read_text())["traceEvents"] if e["ph"] == "X"]
    total = lambda stage: sum(e["dur"] for e in spans if e["name"] == stage) / 1e6
    near = {s["stage"]: abs(total(s["stage"]) - s["seconds"]) for s in a["stages"] if s["stage"] not in ("load", "encode")}
    check("--profile: its spans add up to the stages' times", max(near.values()) < 0.002, str(near))
    check("--profile: a span for each evaluation", sum(e["name"] == "denoise" for e in spans) >= 3)
    engine = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == 1)
    check("--profile: one thing at a time in the engine's lane", all(x[1] <= y[0] + 1 for x, y in zip(engine, engine[1:])))


def made_again(d):
    first = generate(d / "first.mp4", "--seconds", 1.5, "--evaluations", 2, "--seed", 18446744073709551615, "--size", "128x96")
    again = generate(d / "again.mp4", "--again", d / "first.mp4", prompt=None)
    check("a clip makes itself again, to the byte", (d / "first.mp4").read_bytes() == (d / "again.mp4").read_bytes(), f"{first} {again}")
    tags = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "format_tags=zoetrope", "-of", "default=nw=1:nk=1", str(d / "first.mp4")],
                          capture_output=True, check=True, text=True).stdout
    meta = json.loads(tags)
    check("its metadata holds request, seed, plan, model hash and version",
          meta["request"]["prompt"] == PROMPT and meta["seed"] == 2**64 - 1 and meta["plan"]["name"] == "exact" and len(meta["model_hash"]) == 64 and meta["version"])


def stops_and_leaves_nothing(d):
    folder = d / "stopped"
    folder.mkdir()
    cmd = [EXE, "generate", "--model", MODEL, f"--prompt={PROMPT}", "-o", folder / "clip.mp4", "--evaluations", "900", "--threads", "2"]
    run = subprocess.Popen(list(map(str, cmd)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in run.stderr:
        if line.startswith("denoise"):
            break
    time.sleep(0.3)
    asked = time.time()
    run.send_signal(signal.SIGINT)
    code = run.wait(timeout=30)
    check("Ctrl-C ends with 130", code == 130, str(code))
    check("within a second or two", time.time() - asked < 5, f"{time.time() - asked:.1f} s")
    check("and leaves no file", not list(folder.iterdir()), str(list(folder.iterdir())))


def memory_does_not_grow(d):
    short = generate(d / "short.mp4", "--frames", 39, "--evaluations", 1, "--size", "192x128")
    long = generate(d / "long.mp4", "--frames", 345, "--evaluations", 1, "--size", "192x128")
    # nothing holds the clip: 345 frames in float32 alone would be 97 MiB more than 39 are
    clip = 306 * 192 * 128 * 3 * 4
    grown = long["peak_rss_bytes"] - short["peak_rss_bytes"]
    rows = long["peak_activation_bytes"] - short["peak_activation_bytes"]
    check("a long clip needs no more video memory than a short one", grown - rows < clip / 4, f"{grown >> 20} MiB more, of it {rows >> 20} MiB of denoiser rows")


def widened(source, folder, ffn_dim):
    """The tiny checkpoint `source` with a feed-forward of `ffn_dim`: weights (bf16) that dwarf everything else in the process."""
    shutil.copytree(source, folder)
    config_file = folder / "transformer/config.json"
    config = json.loads(config_file.read_text())
    old, config["ffn_dim"] = config["ffn_dim"], ffn_dim
    config_file.write_text(json.dumps(config))
    blob = (folder / "transformer/diffusion_pytorch_model.safetensors").read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header, body = json.loads(blob[8:8 + size]), memoryview(blob)[8 + size:]
    header.pop("__metadata__", None)
    parts, at = [], 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        data, shape = body[slice(*t["data_offsets"])], t["shape"]
        wide = [ffn_dim if n == old else 2 * ffn_dim if n == 2 * old else n for n in shape] if ".ff.net." in name else shape
        if wide != shape:
            t["dtype"], t["shape"], data = "BF16", wide, bytes(2 * wide[0] * wide[1])   # zeros: a feed-forward that adds nothing
        t["data_offsets"] = [at, at + len(data)]
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    with open(folder / "transformer/diffusion_pytorch_model.safetensors", "wb") as f:
        f.writelines([len(text).to_bytes(8, "little"), text, *parts])


def memory_is_weights_and_activations(d):
    tiny, wide = ROOT / "tests/golden/a/model", d / "wide"
    widened(tiny, wide, 49152)
    config = d / "config.json"
    config.write_text(json.dumps(json.loads((ROOT / "tests/golden/a/cases.json").read_text())["config"]))
    clip = ["--frames", 22, "--evaluations", 2, "--size", "64x64", "--config", config, "--plan", "fast"]
    a, b = (generate(d / f"{m.name}.mp4", *clip, model=m) for m in (tiny, wide))
    weights = sum((m / "transformer/diffusion_pytorch_model.safetensors").stat().st_size * s for m, s in ((wide, 1), (tiny, -1)))
    grown, activations = b["peak_rss_bytes"] - a["peak_rss_bytes"], b["peak_activation_bytes"] - a["peak_activation_bytes"]
    bound = weights * (1 if b["isa"] == "amx" else 2) * 1.02 + 1.3 * activations   # without bf16 units they are kept in float32
    check("peak memory grows by the weights and 1.3 times the activations at most", 0.5 * weights < grown <= bound,
          f"{grown >> 20} MiB for {weights >> 20} MiB of weights and {activations >> 20} MiB of activations on {b['isa']}")


def streams_what_does_not_fit(d):
    """Blocks that dwarf the rest, so that three in memory (two read, one packed) are clearly less than six."""
    wide = d / "wide-nano"
    widened(ROOT / "models/h3-nano", wide, 16384)
    clip = ["--frames", 22, "--evaluations", 2, "--size", "64x64", "--plan", "fast"]
    whole = generate(d / "whole.mp4", *clip, "--memory", 0, model=wide)
    limit = whole["peak_rss_bytes"] * 9 // 10 >> 20
    streamed = generate(d / "streamed.mp4", *clip, "--memory", limit, model=wide)
    check("--memory: the same file from blocks that are read from disk", (d / "streamed.mp4").read_bytes() == (d / "whole.mp4").read_bytes())
    check("--memory: within the limit", streamed["peak_rss_bytes"] <= limit << 20,
          f"{streamed['peak_rss_bytes'] >> 20} of {limit} MiB, {whole['peak_rss_bytes'] >> 20} without a limit")
    said = [w for w in streamed["warnings"] if "read from disk" in w and "--memory" in w]
    check("--memory: the report tells what it costs", said and not whole["warnings"], streamed["warnings"])


def main():
    os.environ.pop("ZT_THREADS", None)
    with tempfile.TemporaryDirectory() as tmp:
        for test in (same_bytes_for_any_thread_count, steps_and_evaluations, profiles, made_again, stops_and_leaves_nothing, memory_does_not_grow,
                     memory_is_weights_and_activations, streams_what_does_not_fit):
            test(Path(tmp))
    return close()


if __name__ == "__main__":
    sys.exit(main())
