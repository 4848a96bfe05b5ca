#!/usr/bin/env python3
"""Load on `zoetrope serve` over loopback: jobs from many connections at once, none lost; how long status calls take meanwhile; whether
memory stays flat. Prints one JSON line and appends it to bench/results/load.jsonl.

  load.py [--jobs 1000] [--connections 200] [--model models/h3-nano] [--zoetrope build/zoetrope] [--no-append]
"""
import argparse
import asyncio
import collections
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import urllib.request

from serving import Server

HERE = os.path.dirname(os.path.abspath(__file__))
BODY = dict(prompt="a red circle bounces", num_frames=5, evaluations=1, size="32x32")


class Connection:
    """A kept-alive HTTP/1.1 connection that answers JSON."""

    def __init__(self, port):
        self.port = port

    async def call(self, method, path, body=None):
        if not hasattr(self, "reader"):
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps(body).encode() if body else b""
        kind = "Content-Type: application/json\r\n" if body else ""
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)\r\ncontent-length: (\d+)", head).group(1))
        return int(head[9:12]), json.loads(await self.reader.readexactly(length))

    def close(self):
        if hasattr(self, "writer"):
            self.writer.close()


def watch(port, ids, done, out):
    """Asks for the status of a random job every 5 ms from a process of its own; the milliseconds that each call took go to `out`."""
    async def run():
        c, times = Connection(port), []
        while not done.is_set():
            known = list(ids)
            if not known:
                await asyncio.sleep(0.005)
                continue
            start = time.perf_counter()
            status, _ = await c.call("GET", f"/v1/videos/{random.choice(known)}")
            times.append((time.perf_counter() - start) * 1e3)
            assert status == 200, status
            await asyncio.sleep(0.005)
        out.put(times)
    asyncio.run(run())


def metric(port, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)", text, re.M).group(1))


async def fill(port, jobs, connections, ids):
    """Creates the jobs, each connection its share; ids of the accepted."""
    async def one(count):
        c, mine = Connection(port), []
        for _ in range(count):
            status, video = await c.call("POST", "/v1/videos", BODY)
            assert status == 200, video
            mine.append(video["id"])
            ids.append(video["id"]) if len(ids) < 100 else None
        c.close()
        return mine
    shares = [jobs // connections + (i < jobs % connections) for i in range(connections)]
    return [i for part in await asyncio.gather(*(one(n) for n in shares)) for i in part]


async def settle(port, accepted, seconds, memory):
    """Waits for all of them to end; how many ended how. Resident MiB after each tenth of them go to `memory`."""
    c, end = Connection(port), time.time() + seconds
    while time.time() < end:
        left = metric(port, 'zoetrope_jobs{status="queued"}') + metric(port, 'zoetrope_jobs{status="in_progress"}')
        if left <= len(accepted) * (1 - max(len(memory), 1) / 10):
            memory.append(round(metric(port, "process_resident_memory_bytes") / 2**20, 1))
        if not left:
            break
        await asyncio.sleep(0.2)
    ended = collections.Counter([(await c.call("GET", f"/v1/videos/{i}"))[1].get("status", "lost") for i in accepted])
    c.close()
    return dict(ended)


def load(zoetrope, model, jobs, connections, warm):
    """A first wave of `warm` jobs fills caches; then `jobs` of them are looked at, and the resident memory before and after."""
    with tempfile.TemporaryDirectory() as data:
        server = Server(zoetrope, model, data)
        port = server.port
        try:
            manager = multiprocessing.Manager()
            ids, done, out = manager.list(), multiprocessing.Event(), multiprocessing.Queue()
            asyncio.run(settle(port, asyncio.run(fill(port, warm, connections, ids)), 600, []))
            memory = [round(metric(port, "process_resident_memory_bytes") / 2**20, 1)]
            watcher = multiprocessing.Process(target=watch, args=(port, ids, done, out))
            watcher.start()
            start = time.time()
            accepted = asyncio.run(fill(port, jobs, connections, ids))
            filled = time.time() - start
            ended = asyncio.run(settle(port, accepted, 1200, memory))
            seconds = time.time() - start
            done.set()
            times = sorted(out.get(timeout=30))
            watcher.join()
        finally:
            code = server.stop()
    at = lambda q: round(times[min(len(times) - 1, int(q * len(times)))], 2)
    return dict(jobs=jobs, connections=connections, accepted=len(set(accepted)), ended=ended, fill_seconds=round(filled, 2), seconds=round(seconds, 2),
                status_calls=len(times), status_ms=dict(p50=at(.5), p99=at(.99), max=at(1)), rss_mib=memory,
                rss_growth=round(min(memory[-4:]) / min(memory[:4]) - 1, 4), exit=code)   # least of each end: a running job holds a few MiB now and then


if __name__ == "__main__":
    sys.path.insert(0, HERE + "/peers")
    import turns
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--jobs", type=int, default=1000)
    ap.add_argument("--connections", type=int, default=200)
    ap.add_argument("--model", default=HERE + "/../models/h3-nano")
    ap.add_argument("--zoetrope", default=HERE + "/../build/zoetrope")
    ap.add_argument("--no-append", action="store_true")
    a = ap.parse_args()
    found = load(a.zoetrope, a.model, a.jobs, a.connections, a.jobs)
    row = turns.origin("load", model=os.path.relpath(os.path.abspath(a.model), HERE + "/.."), **found, command=" ".join(["script/bench load"] + sys.argv[1:]))
    print(json.dumps(row))
    if not a.no_append:
        turns.append(HERE + "/results/load.jsonl", row)
