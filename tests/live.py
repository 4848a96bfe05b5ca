#!/usr/bin/env python3
"""Live channels over HTTP: opening, steering, watching, ending; many viewers, late ones, careless ones; a killed server. Ends with "N passed, N failed".
usage: tests/live.py ZOETROPE [MODEL]      (in the environment of tests/requirements.txt; needs the ffmpeg program)"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from counts import check, close  # noqa: E402
from server import Server  # noqa: E402

PROMPT = "a red circle bounces on a dark background"
SMALL = {"prompt": PROMPT, "size": "96x64", "evaluations": 2, "lead_seconds": 3, "seed": 5}
BAD = [("prompt", {}), ("prompt", {"prompt": ""}), ("prompt", {"prompt": 3}), ("prompt", {"prompt": "x" * 32001}), ("size", {**SMALL, "size": "97x64"}),
       ("size", {**SMALL, "size": "big"}), ("size", {**SMALL, "size": 96}), ("size", {**SMALL, "size": "99999999999999999999x64"}), ("evaluations", {**SMALL, "evaluations": 0}),
       ("evaluations", {**SMALL, "evaluations": 1e9}), ("evaluations", {**SMALL, "evaluations": 2.5}), ("seed", {**SMALL, "seed": -1}), ("seed", {**SMALL, "seed": 2 ** 64}),
       ("lead_seconds", {**SMALL, "lead_seconds": 1}), ("lead_seconds", {**SMALL, "lead_seconds": "6"}), ("paused", {**SMALL, "paused": 1}), ("frames", {**SMALL, "frames": 22})]


def get(s, live):
    return s.request("GET", f"/v1/live/{live}").json


def watch(s, path, seconds, at_least=0):
    """What one viewer gets in that time."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
    c.request("GET", path)
    r = c.getresponse()
    data, end = b"", time.time() + seconds
    while time.time() < end or len(data) < at_least:
        piece = r.read1(1 << 16)
        if not piece:
            break
        data += piece
    c.close()
    return data


def frames(data, folder, size=(96, 64)):
    """Decoded pictures [n, H, W, 3], samples [n], start times."""
    f = Path(folder) / "seen.mp4"
    f.write_bytes(data)
    run = lambda *a: subprocess.run(["ffmpeg", "-v", "quiet", "-i", f, *a, "-"], capture_output=True).stdout
    starts = subprocess.run(["ffprobe", "-v", "quiet", "-show_entries", "stream=start_time", "-of", "csv=p=0", f], capture_output=True, text=True).stdout.split()
    v = np.frombuffer(run("-f", "rawvideo", "-pix_fmt", "rgb24"), np.uint8)
    a = np.frombuffer(run("-f", "f32le", "-ac", "1"), np.float32)
    n = size[0] * size[1] * 3
    return v[:len(v) // n * n].reshape(-1, size[1], size[0], 3), a, [float(x) for x in starts if x != "N/A"]


def until(s, live, what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        now = get(s, live)
        if what(now):
            return now
        time.sleep(0.05)
    return get(s, live)


def whole_boxes(data):
    """Cut after the last whole top-level box."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if size < 8 or at + size > len(data):
            break
        at += size
    return data[:at]


def refused(s):
    for field, body in BAD:
        r = s.request("POST", "/v1/live", body)
        error = (r.json or {}).get("error", {})
        check(f"refused: {field} {json.dumps(body)[:60]}", r.status == 400 and error.get("param") == field or error.get("code") == "unknown_field" and field in str(error), (r.status, error))
    check("refused: not JSON", s.request("POST", "/v1/live", "prompt=x", {"Content-Type": "text/plain"}).status in (400, 415))
    check("no such channel", s.request("GET", "/v1/live/live_" + "0" * 32).status == 404 and s.request("PATCH", "/v1/live/nonsense", {"paused": True}).status == 404)
    check("nothing was opened", s.request("GET", "/v1/live").json["data"] == [])


def one_channel(s, folder):
    r = s.request("POST", "/v1/live", SMALL)
    check("opened with 201 and its address", r.status == 201 and r.getheader("Location") == "/v1/live/" + r.json["id"], r.data)
    live = r.json["id"]
    now = until(s, live, lambda c: c["lead_seconds"] >= 3)
    check("the lead is built and held without a viewer", 3 <= now["lead_seconds"] < 6 and now["played_seconds"] == 0, now)
    time.sleep(2)   # its segment may still be coming out
    now = get(s, live)
    made = now["made_seconds"]
    time.sleep(1)
    check("and nothing more is made", get(s, live)["made_seconds"] == made)
    start = time.time()
    first = watch(s, f"/v1/live/{live}/stream", 0, 2000)
    check("the first bytes come at once", first[4:8] == b"ftyp" and time.time() - start < 0.5, time.time() - start)
    data = watch(s, f"/v1/live/{live}/stream", 5)
    v, a, starts = frames(whole_boxes(data), folder)
    check("picture and sound play from zero", len(v) >= 24 * 5 and abs(len(a) / 32000 - len(v) / 24) < 0.3 and max(map(abs, starts)) < 0.05, (len(v), len(a), starts))
    after = get(s, live)
    check("playback and making went on", after["played_seconds"] > 3 and after["lead_seconds"] > 1 and after["stalls"] == 0, after)
    return live


def many_viewers(s, live, folder):
    before = get(s, live)
    seen, lazy = [None] * 50, socket.create_connection(("127.0.0.1", s.port))
    lazy.sendall(f"GET /v1/live/{live}/stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())   # and never reads
    start = time.time()
    threads = [threading.Thread(target=lambda i=i: seen.__setitem__(i, watch(s, f"/v1/live/{live}/stream", 4))) for i in range(50)]
    for t in threads:
        t.start()
    time.sleep(2)
    check("fifty-one viewers are counted", get(s, live)["viewers"] == 51, get(s, live)["viewers"])
    for t in threads:
        t.join()
    spent = time.time() - start
    after = get(s, live)
    made = after["made_seconds"] - before["made_seconds"]
    check("fifty viewers cost one generation", made < spent + 3 + 2.2, (made, spent))
    check("each sees the same", len({len(whole_boxes(x)) > 10000 for x in seen}) == 1 and all(x[:200] == seen[0][:200] for x in seen))
    check("nobody stalls", after["stalls"] == before["stalls"], after["stalls"])
    lazy.close()
    v, _, starts = frames(whole_boxes(seen[7]), folder)
    check("a late viewer begins at the live edge, at zero", len(v) >= 24 * 4 and max(map(abs, starts)) < 0.08, (len(v), starts))
    check("all have left", until(s, live, lambda c: c["viewers"] == 0)["viewers"] == 0)


def steering(s, live):
    r = s.request("PATCH", f"/v1/live/{live}", {"prompt": "a yellow square grows on a light background"})
    check("a new prompt is taken", r.status == 200 and r.json["prompt"].startswith("a yellow"))
    check("a seed cannot change", s.request("PATCH", f"/v1/live/{live}", {"seed": 1}).status == 400)
    check("paused", s.request("PATCH", f"/v1/live/{live}", {"paused": True}).json["status"] == "paused")
    made = get(s, live)["segments"]
    time.sleep(1.2)
    check("a paused channel makes no more than what was under way", get(s, live)["segments"] <= made + 1)
    s.request("PATCH", f"/v1/live/{live}", {"paused": False})
    watch(s, f"/v1/live/{live}/stream", 3)
    check("and goes on afterwards", get(s, live)["segments"] > made, get(s, live))


def seen_soon(s, folder):
    """With a lead of 12 s a new prompt is seen within two segments of playback, and the picture does not freeze."""
    live = s.request("POST", "/v1/live", {**SMALL, "prompt": "a small red circle spins on a black background", "evaluations": 4, "lead_seconds": 12}).json["id"]
    until(s, live, lambda c: c["lead_seconds"] >= 12)
    got = []
    viewer = threading.Thread(target=lambda: got.append(watch(s, f"/v1/live/{live}/stream", 9)))
    viewer.start()
    time.sleep(2)
    now = s.request("PATCH", f"/v1/live/{live}", {"prompt": "a large blue square grows on a white background"}).json
    viewer.join()
    after = get(s, live)
    v, _, _ = frames(whole_boxes(got[0]), folder)
    light = np.asarray(v, np.float32).mean((1, 2, 3))
    turned = np.flatnonzero(light > (light[:24].mean() + 200) / 2)
    late = (turned[0] / 24 - now["played_seconds"]) if len(turned) else 99   # the viewer came when nothing had been played
    check("a new prompt is seen within two segments", 0 < late <= 2 * now["segment_seconds"] + 0.1, (late, now["played_seconds"], now["ready_seconds"], light[::12].round(0).tolist()))
    check("nothing freezes", after["stalls"] == 0 and len(v) >= 24 * 9, (after["stalls"], len(v)))
    check("the lead is built again", until(s, live, lambda c: c["lead_seconds"] >= 12)["lead_seconds"] >= 12)
    s.request("DELETE", f"/v1/live/{live}")


def hls(s, live, folder):
    base = f"/v1/live/{live}/"
    r = s.request("GET", base + "index.m3u8")
    lines = r.data.decode().splitlines()
    names = [x for x in lines if x.startswith("segment")]
    check("a playlist", lines[0] == "#EXTM3U" and '#EXT-X-MAP:URI="init.mp4"' in lines and len(names) >= 3 and r.getheader("Content-Type") == "application/vnd.apple.mpegurl", lines[:8])
    data = s.request("GET", base + "init.mp4").data + b"".join(s.request("GET", base + n).data for n in names)
    v, a, _ = frames(data, folder)
    check("its segments play", len(v) == 17 * len(names) and len(a) > 0, (len(v), len(names)))
    check("a segment that is not there", s.request("GET", base + "segment.m4s?n=999999").status == 404 and s.request("GET", base + "segment.m4s?n=x").status == 400)


def beside_jobs(s, live):
    viewer = threading.Thread(target=lambda: watch(s, f"/v1/live/{live}/stream", 6))
    viewer.start()
    before = get(s, live)["stalls"]
    job = s.request("POST", "/v1/videos", {"prompt": PROMPT, "size": "96x64", "num_frames": 124, "num_inference_steps": 9}).json["id"]
    check("a job is made while a channel plays", s.wait(job)["status"] == "completed")
    viewer.join()
    check("and the channel does not stall", get(s, live)["stalls"] == before, get(s, live))


def killed(folder, s, live):
    before = get(s, live)
    s.process.kill()
    s.process.wait()
    s = Server(Path(folder) / "data", "--plan", "fast")
    now = get(s, live)
    check("a killed server knows its channel", now["id"] == live and now["prompt"] == before["prompt"], now)
    data = watch(s, f"/v1/live/{live}/stream", 4)
    after = get(s, live)
    v, _, _ = frames(whole_boxes(data), folder)
    check("and goes on with the next chunk", after["segments"] > before["segments"] and len(v) >= 24, (before["segments"], after["segments"], len(v)))
    check("too many channels are refused", [s.request("POST", "/v1/live", SMALL).status for _ in range(4)] == [201, 201, 201, 429])
    ids = [c["id"] for c in s.request("GET", "/v1/live").json["data"]]
    ending = threading.Thread(target=lambda: ended.append(watch(s, f"/v1/live/{live}/stream", 20)))
    ended = []
    ending.start()
    time.sleep(0.5)
    start = time.time()
    check("ended", all(s.request("DELETE", f"/v1/live/{i}").json["deleted"] for i in ids) and s.request("GET", f"/v1/live/{live}").status == 404)
    ending.join()
    check("its viewers' streams end", ended and time.time() - start < 5)
    time.sleep(0.5)
    check("nothing of it is left", not list((Path(folder) / "data/live").iterdir()), list((Path(folder) / "data/live").iterdir()))
    return s


def command(zoetrope):
    """zoetrope live: an address on standard output, a channel behind it, nothing left behind."""
    with tempfile.TemporaryDirectory() as temporary:
        p = subprocess.Popen([zoetrope, "live", PROMPT, "--size", "96x64", "--evaluations", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**os.environ, "TMPDIR": temporary})
        found = re.fullmatch(r"(http://127\.0\.0\.1:(\d+)/)#live/(live_[0-9a-f]{32})\n", p.stdout.readline())
        check("zoetrope live prints an address", found)
        if found:
            host = types.SimpleNamespace(port=int(found[2]))
            check("and plays there", len(watch(host, f"/v1/live/{found[3]}/stream", 0, 5000)) >= 5000 and len(os.listdir(temporary)) == 1)
            c = http.client.HTTPConnection("127.0.0.1", host.port, timeout=20)
            c.request("GET", "/")
            page = c.getresponse()
            check("the page is there", page.status == 200 and b"app.js" in page.read())
        p.send_signal(signal.SIGINT)
        check("Ctrl-C ends it and leaves nothing", p.wait(20) == 0 and os.listdir(temporary) == [], os.listdir(temporary))
    for args, word in ((["--size", "big", PROMPT], "--size"), ([""], "prompt"), (["--lead", "1", PROMPT], "--lead"), (["--plan", "warp", PROMPT], "warp")):
        r = subprocess.run([zoetrope, "live", *args], capture_output=True, text=True)
        check(f"refused: {args}", r.returncode == 2 and word in r.stderr, r.stderr[-200:])


def main():
    with tempfile.TemporaryDirectory() as folder:
        s = Server(Path(folder) / "data", "--plan", "fast")
        try:
            refused(s)
            live = one_channel(s, folder)
            many_viewers(s, live, folder)
            steering(s, live)
            hls(s, live, folder)
            seen_soon(s, folder)
            beside_jobs(s, live)
            s = killed(folder, s, live)
            check("the server ends with 0", s.stop() == 0)
            command(sys.argv[1])
        finally:
            if s.process.poll() is None:
                s.process.kill()
    return close()


if __name__ == "__main__":
    sys.exit(main())
