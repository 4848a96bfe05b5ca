#!/usr/bin/env python3
"""Playback on two cores, in real time: how soon a new clip can be played, whether a channel in a browser ever stalls or loses its lead, and
whether sound and picture still meet at the end, whether memory stays flat over an hour's worth of content (several channels at once, each with
a viewer that reads). Prints one JSON line per instruction set and appends it to bench/results/live.jsonl. The browser is Chromium through
Playwright (script/setup --tests).

  live.py [--isa best] [--isa avx2] [--requests 9] [--minutes 10] [--hour 60] [--channels 10] [--plan live] [--model DIR] [--zoetrope FILE] [--no-append]
"""
import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

from serving import Server

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPTS = [f"a {colour} {shape} {moves} on a {ground} background" for colour, shape, moves, ground in (
    ("large yellow", "circle", "bounces slowly", "navy"), ("small red", "square", "slides left", "light"), ("large green", "star", "spins", "dark"),
    ("small white", "ring", "orbits", "navy"), ("large blue", "triangle", "rises", "light"), ("large red", "circle", "falls", "dark"))]


def first_fragment(port, body):
    """Seconds from the request to the end of the first whole fragment (moof and mdat) of the answer, which can be played."""
    start = time.perf_counter()
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("POST", "/v1/videos", json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
    answer = c.getresponse()
    if answer.status != 200:
        raise SystemExit(f"live: a clip is answered with {answer.status}: {answer.read()[:300]}")
    got, at, seconds = b"", 0, None
    while part := answer.read1(1 << 16):
        got += part
        while seconds is None and len(got) >= at + 8:
            size, kind = int.from_bytes(got[at:at + 4], "big"), got[at + 4:at + 8]
            if len(got) < at + size:
                break
            at += size
            if kind == b"mdat":
                seconds = time.perf_counter() - start
    c.close()
    if seconds is None:
        raise SystemExit("live: a clip's stream held no fragment")
    return seconds


def requests(server, count):
    times = [first_fragment(server.port, dict(prompt=PROMPTS[i % len(PROMPTS)], num_frames=124, seed=i)) for i in range(count)]
    return dict(requests=count, frames=124, median=round(statistics.median(times), 3), max=round(max(times), 3))


def meeting(server, live, folder, seconds=20):
    """Contacts of a bouncing object in the picture and onsets in the sound of the next `seconds` of a channel; how many have one
    of the other within a frame. What lies within half a second of the recording's ends counts for neither."""
    sys.path.insert(0, HERE + "/../nano")
    from evaluate import clips, hearing, scores, sight
    path, end = folder + "/recorded.mp4", time.time() + seconds
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/live/{live}/stream", timeout=60) as stream, open(path, "wb") as f:
        while time.time() < end and (part := stream.read1(1 << 16)):
            f.write(part)
    v, a = clips.read(path)
    length = min(len(v) / 24, a.shape[1] / 32000)
    seen, heard = sight.contacts(sight.Sight(v)), hearing.onsets(a)
    inner = lambda times: [t for t in times if 0.5 < t < length - 0.5]   # noqa: E731
    return dict(seconds=round(length, 2), contacts=len(inner(seen)), with_onset=scores.near(inner(seen), heard), onsets=len(inner(heard)), with_contact=scores.near(inner(heard), seen))


def watch(server, minutes, folder):
    """A channel in the studio, watched for `minutes`: stalls after the start, the clock of the video against ours, the lead, the memory."""
    from playwright.sync_api import sync_playwright
    begun = time.time()
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--mute-audio", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/#live")
        page.get_by_label("Prompt", exact=True).fill(PROMPTS[0])
        start = time.time()
        page.get_by_role("button", name="Open the channel").click()
        page.wait_for_function("() => document.querySelector('zt-live video')?.currentTime > 0.1", timeout=60000)
        began = time.time() - start
        clip = "document.querySelector('zt-live video')"
        page.evaluate(f"{clip}.addEventListener('waiting', () => window.waits = (window.waits ?? 0) + 1)")
        page.wait_for_timeout(10000)   # until the lead is built
        live = server.json("/v1/live")["data"][-1]["id"]
        at, clock = page.evaluate(f"{clip}.currentTime"), time.time()
        leads, work, memory, drift, steered = [], [], [], 0, 0
        while time.time() < clock + 60 * minutes:
            page.wait_for_timeout(1000)
            state = server.json(f"/v1/live/{live}")
            leads.append(state["lead_seconds"]), work.append(state["work_per_second"]), memory.append(server.rss())
            now = page.evaluate(f"{clip}.currentTime") - at - (time.time() - clock)
            drift = now if abs(now) > abs(drift) else drift
            if len(leads) % 120 == 60:   # steered every two minutes
                steered += 1
                server.json(f"/v1/live/{live}", {"prompt": PROMPTS[steered % len(PROMPTS)]}, "PATCH")
        waits = page.evaluate("window.waits ?? 0")
        frames = page.evaluate(f"{clip}.getVideoPlaybackQuality()['totalVideoFrames']")
        dropped = page.evaluate(f"{clip}.getVideoPlaybackQuality()['droppedVideoFrames']")
        state = server.json(f"/v1/live/{live}")
        browser.close()
    server.json(f"/v1/live/{live}", {"prompt": PROMPTS[0]}, "PATCH")
    end = server.json(f"/v1/live/{live}")["made_seconds"] + 3 * 2.125   # all that is sent from then on is of this prompt
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/live/{live}/stream", timeout=60) as stream:
        while server.json(f"/v1/live/{live}")["played_seconds"] < end:
            stream.read1(1 << 16)
    age = time.time() - begun
    met = meeting(server, live, folder)
    server.json(f"/v1/live/{live}", method="DELETE")
    tenth = max(1, len(leads) // 10)
    return dict(minutes=minutes, starts_after=round(began, 2), waits=waits, worst_drift=round(drift, 2), stalls=state["stalls"], rung=state["rung"], steered=steered,
                lead=dict(first=round(statistics.median(leads[:tenth]), 2), last=round(statistics.median(leads[-tenth:]), 2), least=round(min(leads), 2)),
                meeting=dict(after_seconds=round(age), **met), work_per_second=round(statistics.median(work), 3), frames=frames, dropped=dropped,
                rss_mib=[round(m, 1) for m in memory[tenth - 1::tenth]], rss_growth=round(memory[-1] / memory[tenth - 1] - 1, 4))


def hour(server, minutes, channels):
    """Channels side by side, each read by a viewer, until they have made that many minutes together. Growth counts from a tenth of it on."""
    def read(live):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/live/{live}/stream", timeout=120) as stream:
                while stream.read1(1 << 16):
                    pass
        except OSError:
            pass
    ids = [server.json("/v1/live", dict(prompt=PROMPTS[i % len(PROMPTS)], seed=i))["id"] for i in range(channels)]
    viewers = [threading.Thread(target=read, args=(i,), daemon=True) for i in ids]
    for v in viewers:
        v.start()
    start, memory, made = time.time(), [], 0
    while made < 60 * minutes:
        time.sleep(1)
        states = server.json("/v1/live")["data"]
        made = sum(s["made_seconds"] for s in states)
        if made >= 6 * minutes * (len(memory) + 1):
            memory.append(server.rss())
    seconds = time.time() - start
    stalls, rungs = sum(s["stalls"] for s in states), sorted({s["rung"] for s in states})
    for i in ids:
        server.json(f"/v1/live/{i}", method="DELETE")
    for v in viewers:
        v.join(60)
    return dict(minutes=round(made / 60, 1), channels=channels, seconds=round(seconds, 1), times_real=round(made / seconds, 1), stalls=stalls, rungs=rungs,
                rss_mib=[round(m, 1) for m in memory], rss_growth=round(memory[-1] / memory[0] - 1, 4))


if __name__ == "__main__":
    sys.path.insert(0, HERE + "/peers")
    import turns
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--isa", action="append", help="best or a value of ZT_ISA; may be given again (default: best, avx2)")
    ap.add_argument("--requests", type=int, default=9)
    ap.add_argument("--minutes", type=float, default=10, help="in the browser; 0 leaves it out")
    ap.add_argument("--hour", type=float, default=60, help="minutes of content; 0 leaves them out")
    ap.add_argument("--channels", type=int, default=10)
    ap.add_argument("--plan", default="live")
    ap.add_argument("--model", default=HERE + "/../models/h3-nano")
    ap.add_argument("--zoetrope", default=HERE + "/../build/zoetrope")
    ap.add_argument("--no-append", action="store_true")
    a = ap.parse_args()
    for isa in a.isa or ["best", "avx2"]:
        row = turns.origin("live", isa=isa, plan=a.plan, model=os.path.relpath(os.path.abspath(a.model), HERE + "/.."))
        for name, run in (("first_fragment_seconds", lambda s, d: requests(s, a.requests) if a.requests else None),
                          ("browser", lambda s, d: watch(s, a.minutes, d) if a.minutes else None), ("content", lambda s, d: hour(s, a.hour, a.channels) if a.hour else None)):
            with tempfile.TemporaryDirectory() as data:
                server = Server(a.zoetrope, a.model, data, "--plan", a.plan, "--max-live", max(4, a.channels), isa=isa)
                try:
                    found = run(server, data)
                finally:
                    server.stop()
            if found:
                row[name] = found
        row["command"] = " ".join(["script/bench live"] + sys.argv[1:])
        print(json.dumps(row), flush=True)
        if not a.no_append:
            turns.append(HERE + "/results/live.jsonl", row)
