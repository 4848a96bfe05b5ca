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
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
from counts import check, close  # noqa: E402
from server import MODEL, Server  # noqa: E402

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


def attributes(line):
    """The attribute list of a tag: quoted and plain values."""
    return {k: v.strip('"') for k, v in re.findall(r'([A-Z-]+)=("[^"]*"|[^,]*)', line.split(":", 1)[1])}


def playlist(text):
    """A media playlist: single tags, segments (number, seconds, parts), parts of the open one, what is hinted at."""
    p = types.SimpleNamespace(tags={}, segments=[], parts=[], hint=None)
    for line in text.splitlines():
        if line.startswith("#EXT-X-PART:"):
            p.parts.append(attributes(line))
        elif line.startswith("#EXT-X-PRELOAD-HINT:"):
            p.hint = attributes(line)
        elif line.startswith("#EXTINF:"):
            seconds = float(line[8:].rstrip(","))
        elif line.startswith("#"):
            name, _, value = line.partition(":")
            p.tags[name] = value
        else:
            p.segments.append(types.SimpleNamespace(uri=line, seconds=seconds, parts=p.parts))
            p.parts = []
    p.first = int(p.tags["#EXT-X-MEDIA-SEQUENCE"])
    return p


def hls(s, live, folder):
    base = f"/v1/live/{live}/"
    r = s.request("GET", base + "index.m3u8")
    p = playlist(r.data.decode())
    control, target = attributes("x:" + p.tags["#EXT-X-SERVER-CONTROL"]), float(attributes("x:" + p.tags["#EXT-X-PART-INF"])["PART-TARGET"])
    check("a playlist", "#EXTM3U" in p.tags and p.tags["#EXT-X-MAP"] == 'URI="init.mp4"' and len(p.segments) >= 2 and r.getheader("Content-Type") == "application/vnd.apple.mpegurl",
          r.data[:300])
    check("it says how to wait", control["CAN-BLOCK-RELOAD"] == "YES" and float(control["PART-HOLD-BACK"]) >= 3 * target, control)
    check("no segment is longer than said", all(round(x.seconds) <= int(p.tags["#EXT-X-TARGETDURATION"]) for x in p.segments), [x.seconds for x in p.segments])
    check("parts are within their target, and their sum is the segment", all(float(q["DURATION"]) <= target for x in p.segments for q in x.parts) and
          all(not x.parts or abs(sum(float(q["DURATION"]) for q in x.parts) - x.seconds) < 1e-3 for x in p.segments) and any(x.parts for x in p.segments))
    init, whole = s.request("GET", base + "init.mp4").data, [s.request("GET", base + x.uri).data for x in p.segments]
    v, a, _ = frames(init + b"".join(whole), folder)
    check("its segments play", len(v) == 51 * len(whole) and len(a) > 0, (len(v), len(whole)))
    parted = [(x, data) for x, data in zip(p.segments, whole) if x.parts]
    got = [[s.request("GET", base + q["URI"]).data for q in x.parts] for x, _ in parted]
    check("parts are their segment, byte for byte", parted and all(b"".join(q) == data for q, (_, data) in zip(got, parted)))
    said = [q.get("INDEPENDENT") == "YES" for x, _ in parted for q in x.parts]
    check("an independent part plays alone", all(said) and all(len(frames(init + q, folder)[0]) == 17 for q in got[-1]), said)

    start, waits, now, seen = time.time(), [], p, 0
    while time.time() - start < 10:   # as a player: the list with the next part, again and again
        check("the hint is the part after the last", now.hint["URI"] == f"segment.m4s?n={now.first + len(now.segments)}&part={len(now.parts)}", now.hint) if seen == 0 else None
        n, part = now.first + len(now.segments), len(now.parts)
        sent = time.time()
        r = s.request("GET", f"{base}index.m3u8?_HLS_msn={n}&_HLS_part={part}")
        waits.append(time.time() - sent)   # the three parts of a segment may come at once
        now, seen = playlist(r.data.decode()), seen + 1
        if now.first + len(now.segments) < n or (now.first + len(now.segments) == n and len(now.parts) <= part):
            check("a reload that waited has what it waited for", False, (n, part, r.data.decode()[-300:]))
    check(f"reloads wait for the next part ({seen}, {max(waits):.2f} s at most)", 4 <= seen <= 24 and 0.3 < max(waits) < 4, (seen, waits))
    check("old parts vanish, later old segments", not now.segments[0].parts and now.segments[-1].parts and now.first > p.first, (now.first, p.first))
    check("a segment that is listed no more can be had for a while", s.request("GET", base + p.segments[0].uri).data == whole[0])
    hinted = s.request("GET", base + now.hint["URI"])
    later = playlist(s.request("GET", base + "index.m3u8").data.decode())
    check("the hinted part is sent as soon as it is there", hinted.status == 200 and now.hint["URI"] in [q["URI"] for x in later.segments for q in x.parts] + [q["URI"] for q in later.parts])

    many_wait(s, base)
    s.request("PATCH", f"/v1/live/{live}", {"paused": True})
    time.sleep(1.5)   # what is under way comes out
    last = playlist(s.request("GET", base + "index.m3u8").data.decode())
    last = last.first + len(last.segments) - 1
    for query, field in ((f"_HLS_msn={last + 3}", "_HLS_msn"), ("_HLS_msn=9223372036854775807", "_HLS_msn"), ("_HLS_msn=99999999999999999999", "_HLS_msn"), ("_HLS_msn=x", "_HLS_msn"),
                         ("_HLS_msn=-1", "_HLS_msn"), ("_HLS_msn=", "_HLS_msn"), ("_HLS_part=0", "_HLS_part"), (f"_HLS_msn={last + 1}&_HLS_part=1.5", "_HLS_part"),
                         (f"_HLS_msn={last + 2}&_HLS_part=9223372036854775807", "_HLS_part")):
        r = s.request("GET", f"{base}index.m3u8?{query}")
        check(f"refused: {query}", r.status == 400 and r.json["error"]["param"] == field, (r.status, r.data))
    check("what is past is answered at once", s.request("GET", f"{base}index.m3u8?_HLS_msn=0&_HLS_part=7").status == 200)
    check("a segment that is not there", all(s.request("GET", base + "segment.m4s?" + q).status == e for q, e in
                                             (("n=999999", 404), ("n=x", 400), ("part=0", 400), (f"n={last}&part=3", 404), (f"n={last + 9}&part=0", 404), (f"n={last}&part=x", 400))))
    now, start = playlist(s.request("GET", base + "index.m3u8").data.decode()), time.time()
    r = s.request("GET", f"{base}index.m3u8?_HLS_msn={now.first + len(now.segments)}&_HLS_part={len(now.parts)}")
    check("of a paused channel the list comes as it is after three target durations", r.status == 200 and 5 < time.time() - start < 8, time.time() - start)
    check("its next part does not come", s.request("GET", base + now.hint["URI"]).status == 404)
    s.request("PATCH", f"/v1/live/{live}", {"paused": False})
    played = subprocess.run(["ffmpeg", "-v", "error", "-i", f"http://127.0.0.1:{s.port}{base}index.m3u8", "-t", "6", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, timeout=60)
    count = len(played.stdout) // (96 * 64 * 3)
    check("ffmpeg plays it", 130 <= count <= 146 and not played.stderr, (count, played.stderr[-300:]))


def many_wait(s, base):
    """A hundred players wait for the next part at once: none holds a thread, so others are answered meanwhile."""
    now = playlist(s.request("GET", base + "index.m3u8").data.decode())
    next_part = f"{base}index.m3u8?_HLS_msn={now.first + len(now.segments)}&_HLS_part={len(now.parts)}"
    got = [None] * 100
    threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, s.request("GET", next_part).data)) for i in range(100)]
    for t in threads:
        t.start()
    start = time.time()
    ok = all(s.request("GET", "/healthz").status == 200 for _ in range(20))
    spent = time.time() - start
    for t in threads:
        t.join()
    check("a hundred waiting players hold nobody up", ok and spent < 2, spent)
    there = lambda p: (p.first + len(p.segments), len(p.parts)) > (now.first + len(now.segments), len(now.parts))
    check("and all get what they waited for", None not in got and all(there(playlist(x.decode())) for x in got), len(set(got)))


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


def adapter(path, seed=0):
    """A LoRA of rank 2 on two layers of h3-nano."""
    random, tensors = np.random.default_rng(seed), {}
    for name, rows, columns in (("attn.to_q", 256, 192), ("attn.to_out.0", 192, 256)):
        tensors |= {f"transformer.transformer_blocks.0.{name}.lora_{x}.weight": random.normal(size=shape).astype(np.float32) for x, shape in (("A", (2, columns)), ("B", (rows, 2)))}
    save_file(tensors, path)


def adapters(folder):
    model, data = Path(folder) / "model", Path(folder) / "adapted"
    (model / "loras").mkdir(parents=True)
    for part in MODEL.iterdir():
        (model / part.name).symlink_to(part)
    adapter(model / "loras/ink.safetensors")
    adapter(model / "loras/quick.safetensors", 1)
    (model / "loras/quick.json").write_text('{"evaluations": 3}')
    adapter(model / "loras/broken.safetensors", 2)
    (model / "loras/broken.json").write_text('{"evaluations": -3}')
    s = Server(data, "--plan", "fast", model=model)
    opened = lambda **more: s.request("POST", "/v1/live", {**SMALL, **more})
    try:
        for lora in ("none", "../model", [1], "ink:99", {"name": "ink", "strength": "x"}, {"strength": 1}, ["ink"] * 9, 3, True, "broken"):
            live, video = opened(lora=lora), s.request("POST", "/v1/videos", {"prompt": PROMPT, "lora": lora})
            check(f"refused as for a video: lora {json.dumps(lora)[:40]}", live.status == 400 and live.json["error"]["param"].startswith("lora") and live.json == video.json, (live.data, video.data))
        check("nothing was opened by those", s.request("GET", "/v1/live").json["data"] == [])
        plain, inked, again = opened().json, opened(lora=["ink:0.5"]).json, opened().json
        check("adapters are shown", (plain["lora"], inked["lora"], inked["evaluations"]) == ([], ["ink:0.5"], 2), inked)
        first = {}
        for c in (plain, inked, again):
            until(s, c["id"], lambda x: x["lead_seconds"] >= 3, 40)
            base = f"/v1/live/{c['id']}/"
            first[c["id"]], _, _ = frames(s.request("GET", base + "init.mp4").data + s.request("GET", base + "segment.m4s?n=0&part=0").data, folder)
        a, b, c = (first[x["id"]].astype(int) for x in (plain, inked, again))
        check("an adapter changes its channel and no other", len(a) >= 17 and np.array_equal(a, c) and np.abs(a - b).mean() > 1, np.abs(a - b).mean())
        check("adapters cannot change", s.request("PATCH", f"/v1/live/{inked['id']}", {"lora": []}).status == 400)
        s.request("DELETE", f"/v1/live/{again['id']}")
        quick, counted = ({k: v for k, v in SMALL.items() if k != "evaluations"} | {"lora": "quick", "paused": True} | more for more in ({}, {"evaluations": 5}))
        got = []
        for body in (quick, counted):
            got.append(s.request("POST", "/v1/live", body).json)
            s.request("DELETE", f"/v1/live/{got[-1]['id']}")
        check("a few-step adapter brings its evaluations, unless they are counted", [c["evaluations"] for c in got] == [3, 5], got)
        s.process.kill()
        s.process.wait()
        s = Server(data, "--plan", "fast", model=model)
        before = get(s, inked["id"])
        check("after a restart the channel has its adapters", before["lora"] == ["ink:0.5"], before)
        watch(s, f"/v1/live/{inked['id']}/stream", 3)
        check("and goes on with them", until(s, inked["id"], lambda x: x["segments"] > before["segments"])["error"] is None, get(s, inked["id"]))
        check("it ends with 0", s.stop() == 0)
        (model / "loras/ink.safetensors").unlink()
        s = Server(data, "--plan", "fast", model=model)
        gone = until(s, inked["id"], lambda x: x["status"] == "failed")
        check("an adapter that is gone fails its channel alone, by name", gone["status"] == "failed" and "ink:0.5" in gone["error"]["message"] and get(s, plain["id"])["error"] is None, gone)
        s.stop()
    finally:
        if s.process.poll() is None:
            s.process.kill()


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
            adapters(folder)
            command(sys.argv[1])
        finally:
            if s.process.poll() is None:
                s.process.kill()
    return close()


if __name__ == "__main__":
    sys.exit(main())
