"""Clips by the program and back from its MP4s. Needs build/zoetrope and the ffmpeg program."""
import json, subprocess
from pathlib import Path
import numpy as np
import world as D


class Failed(Exception):
    pass


def ffmpeg(args):
    run = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *args], capture_output=True)
    if run.returncode:
        raise Failed(f"ffmpeg: {run.stderr.decode(errors='replace').strip()[:300]}")
    return run.stdout


def read(path):
    """MP4 -> uint8 [F, H, W, 3], float32 [2, N] at 32 kHz; both start at the clip's time 0 (edit lists are honoured)."""
    probe = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height", "-of", "csv=p=0", str(path)], capture_output=True, text=True)
    if probe.returncode:
        raise Failed(f"{path}: {probe.stderr.strip()[:300]}")
    w, h = (int(x) for x in probe.stdout.strip().split(",")[:2])
    v = np.frombuffer(ffmpeg(["-i", str(path), "-map", "0:v:0", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]), np.uint8).reshape(-1, h, w, 3)
    a = np.frombuffer(ffmpeg(["-i", str(path), "-map", "0:a:0", "-f", "f32le", "-ac", "2", "-ar", str(D.SR), "-"]), np.float32).reshape(-1, 2).T
    return v, a


def write(path, v, a):
    """uint8 [F, H, W, 3], float32 [2, N] -> MP4 (tests; the program itself writes its own)."""
    wav = Path(path).with_suffix(".f32")
    wav.write_bytes(np.ascontiguousarray(a.T, np.float32).tobytes())
    n, h, w, _ = v.shape
    run = subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{w}x{h}", "-r", str(D.FPS), "-i", "-",
                          "-f", "f32le", "-ar", str(D.SR), "-ac", "2", "-i", str(wav), "-c:v", "libx264", "-crf", "16", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "160k", str(path)],
                         input=v.tobytes(), capture_output=True)
    wav.unlink()
    if run.returncode:
        raise Failed(run.stderr.decode(errors="replace").strip()[:300])


def generate(zoetrope, prompt, out, frames, evaluations, seed, model=None, plan=None, first=None, last=None, more=()):
    """Runs the program; returns its JSON document."""
    cmd = [str(zoetrope), "generate", "--prompt=" + prompt, "--frames", str(frames), "--seed", str(seed), "-o", str(out), "--json", "--quiet"]
    for option, value in (("--evaluations", evaluations), ("--model", model), ("--plan", plan), ("--first-frame", first), ("--last-frame", last)):
        if value is not None:
            cmd += [option, str(value)]
    run = subprocess.run(cmd + list(more), capture_output=True, text=True)
    if run.returncode:
        raise Failed(f"{' '.join(cmd)}: exit {run.returncode}: {run.stderr.strip()[-400:]}")
    return json.loads(run.stdout)
