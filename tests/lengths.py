#!/usr/bin/env python3
"""Every legal length (5, 22, 39 ... 362 frames) in three aspect ratios on a tiny checkpoint: the MP4 must hold exactly the frames that
were asked for, and as much sound as pictures to within one AAC frame. Ends with "N passed, N failed".
usage: tests/lengths.py ZOETROPE [GOLDEN_DIR]      (needs the ffprobe program)"""
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FPS, RATE, AAC_FRAME = 24, 32000, 1024
LENGTHS = range(5, 363, 17)
SIZES = ("32x32", "64x32", "32x96")


def audio_samples(frames):
    return round(frames / FPS * 40) * 800        # 40 latents a second of 800 samples each


def probe(path):
    out = subprocess.run(["ffprobe", "-v", "error", "-count_packets", "-show_streams", "-of", "json", str(path)],
                         capture_output=True, text=True, timeout=60, check=True).stdout
    streams = json.loads(out)["streams"]
    kinds = {s["codec_type"]: s for s in streams}
    return (kinds, "") if sorted(kinds) == ["audio", "video"] and len(streams) == 2 else (kinds, f"streams {sorted(kinds)}")


def problems(path, frames, size):
    streams, bad = probe(path)
    if bad:
        return [bad]
    video, audio = streams["video"], streams["audio"]
    seconds = audio_samples(frames) / RATE
    packets = audio_samples(frames) / AAC_FRAME
    wanted = {
        "video packets": (int(video["nb_read_packets"]), frames),
        "size": (f"{video['width']}x{video['height']}", size),
        "frame rate": (video["avg_frame_rate"], f"{FPS}/1"),
        "video start": (float(video["start_time"]), 0.0),
        "audio start": (float(audio["start_time"]), 0.0),
        "sample rate": (audio["sample_rate"], str(RATE)),
        "channels": (audio["channels"], 2),
        "codecs": (f"{video['codec_name']}+{audio['codec_name']}", "h264+aac"),
        "colour": (f"{video.get('color_space')} {video.get('color_range')}", "bt709 tv"),
    }
    out = [f"{k} {got}, wanted {want}" for k, (got, want) in wanted.items() if got != want]
    if abs(float(audio["duration"]) - seconds) > AAC_FRAME / RATE:
        out.append(f"sound of {audio['duration']} s, wanted {seconds:.4f}")
    if not packets <= int(audio["nb_read_packets"]) <= packets + 3:      # up to one of priming, one of padding, one begun
        out.append(f"audio packets {audio['nb_read_packets']}, wanted {packets:.1f} and at most 3 more")
    if abs(float(video["duration"]) - frames / FPS) > 1e-3:
        out.append(f"pictures of {video['duration']} s, wanted {frames / FPS:.4f}")
    return out


def main():
    exe = sys.argv[1]
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).resolve().parent / "golden/a")
    config = json.loads((root / "cases.json").read_text())["config"]

    def one(job):
        frames, size = job
        with tempfile.TemporaryDirectory() as tmp:
            out = Path(tmp) / "o.mp4"
            (Path(tmp) / "config.json").write_text(json.dumps(config))
            cmd = [exe, "generate", "--model", root / "model", "--config", f"{tmp}/config.json", "--prompt", "waves", "--task", "t2va", "--steps", "2",
                   "--seed", frames, "--frames", frames, "--size", size, "-o", out, "--quiet"]
            try:
                run = subprocess.run(list(map(str, cmd)), capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                                     env={**os.environ, "ZT_THREADS": "1"})
                return job, [f"exit {run.returncode}: {run.stderr.strip()[-200:]}"] if run.returncode else problems(out, frames, size)
            except subprocess.TimeoutExpired:
                return job, ["no end after 300 s"]

    jobs = [(n, s) for n in LENGTHS for s in SIZES]
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        results = list(pool.map(one, sorted(jobs, reverse=True)))
    failed = [(job, p) for job, p in results if p]
    for (frames, size), p in failed:
        print(f"FAIL {frames} frames {size}: {'; '.join(p)}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
