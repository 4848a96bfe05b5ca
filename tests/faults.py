#!/usr/bin/env python3
"""Kills workers with SIGKILL at random moments while they run jobs on the tiny checkpoint, restarts them, and asks afterwards: no job lost, none
done twice, every file equal to an undisturbed run, the store sound. With PostgreSQL also kills the database server in between. Then kills the HTTP
server while a client posts jobs: whatever it acknowledged is there, once.
usage: tests/faults.py ZOETROPE [--kills N] [--seed N] [--store sqlite|postgresql]     (default: 12 kills of each, as script/test runs it)
Ends with "N passed, N failed"."""
import argparse
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from counts import check, close, results

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/golden/a/model"
EVALUATIONS = (5, 40)


class Sqlite:
    name = "sqlite"

    def __init__(self, folder):
        self.url = f"sqlite:{folder}/jobs.db"

    def crash(self):
        pass

    def close(self):
        pass


class Postgres:
    """Debian's server as an unprivileged user, in a folder of its own, with durable commits."""
    name = "postgresql"

    def __init__(self, folder):
        self.bin = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="zt_pg_"))
        self.user = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(self.folder, "nobody")
        subprocess.run([*self.user, self.bin / "initdb", "-D", self.folder / "data", "-U", "zt", "-A", "trust", "-E", "UTF8", "--locale=C"], check=True,
                       stdout=subprocess.DEVNULL, cwd="/")
        self.url = f"postgresql:///jobs?host={self.folder}&user=zt"
        self.server = None
        self.start()
        subprocess.run([self.bin / "createdb", "-h", self.folder, "-U", "zt", "jobs"], check=True)

    def start(self):
        self.server = subprocess.Popen([*self.user, self.bin / "postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses="], cwd="/",
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(400):
            if subprocess.run([self.bin / "pg_isready", "-q", "-h", self.folder]).returncode == 0:
                return
            time.sleep(0.05)
        raise SystemExit("FAIL PostgreSQL does not start")

    def crash(self):
        self.server.send_signal(signal.SIGQUIT)    # immediate shutdown: as a crash, it recovers from its log
        self.server.wait()
        time.sleep(random.uniform(0, 0.5))
        self.start()

    def close(self):
        self.server.send_signal(signal.SIGQUIT)
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Farm:
    def __init__(self, exe, store, data):
        self.exe, self.store, self.data = exe, store, data
        self.log = open(data / "worker.log", "ab") 
        self.running = []

    def jobs(self, *args):
        run = subprocess.run([self.exe, "jobs", *args, "--store", self.store.url, "--data", self.data], capture_output=True, text=True, timeout=60)
        if run.returncode:
            raise SystemExit(f"FAIL jobs {args}: {run.stdout}{run.stderr}")
        return run.stdout

    def list(self):
        return json.loads(self.jobs("list"))

    def add(self, evaluations, seed, priority, **more):
        options = {**dict(prompt="a red kite", size="32x32", frames=124, evaluations=evaluations, seed=seed), **more}
        return json.loads(self.jobs("add", json.dumps(options), "--priority", str(priority)))["id"]

    def start(self):
        args = [self.exe, "worker", "--model", MODEL, "--data", self.data, "--store", self.store.url, "--threads", "1", "--lease", "1"]
        self.running.append(subprocess.Popen(list(map(str, args)), stdout=self.log, stderr=self.log))

    def kill(self, sig=signal.SIGKILL):
        p = self.running.pop(random.randrange(len(self.running)))
        p.send_signal(sig)
        code = p.wait(timeout=60)
        return code

    def stop(self):
        while self.running:
            code = self.kill(signal.SIGTERM)
            check(f"{self.store.name}: a worker that is asked to stop ends with 0", code == 0, f"{code}")


def undisturbed(exe, folder, evaluations, seed, frames=124, *more):
    out = folder / f"{evaluations}-{seed}.mp4"
    run = subprocess.run(list(map(str, [exe, "generate", "--model", MODEL, "--prompt", "a red kite", "--size", "32x32", "--frames", frames, "--evaluations",
                                        evaluations, "--seed", seed, "-o", out, "--threads", "1", "--quiet", *more])), capture_output=True, text=True, timeout=300)
    if run.returncode:
        raise SystemExit(f"FAIL generate: {run.stderr}")
    return out


def frames_and_sound(path):
    """The metadata name how the clip was asked for, which differs between the command line and a job; the streams may not."""
    return subprocess.run(["ffmpeg", "-v", "error", "-i", str(path), "-map", "0", "-c", "copy", "-f", "streamhash", "-"], capture_output=True, check=True, text=True).stdout


def clean_folder(farm, jobs):
    left = []
    for j in jobs:
        folder = farm.data / "jobs" / j["id"]
        token = Path(j["result"]["files"]["video"]["path"]).parent.name
        left += [str(p) for p in folder.iterdir() if p.name not in (token, "preview.png")]
        left += [str(p) for p in (folder / token).iterdir() if p.name not in ("video.mp4", "thumbnail.webp", "spritesheet.webp", "stream.mp4", "latents.safetensors")]
    return left


def torment(exe, kind, kills):
    with tempfile.TemporaryDirectory(prefix="zt_faults_") as d:
        data = Path(d)
        store = kind(data)
        farm = Farm(exe, store, data)
        try:
            wanted = {}
            for i in range(max(4, kills // 2)):
                n = random.randint(*EVALUATIONS)
                wanted[farm.add(n, i, random.choice((0, 10)))] = (n, i)
            done = {}
            for k in range(kills):
                while len(farm.running) < 2:
                    farm.start()
                time.sleep(random.uniform(0.05, 1.2))
                farm.kill()
                if k % 4 == 3:
                    store.crash()
                now = {j["id"]: j for j in farm.list()}
                lost = set(wanted) - set(now)
                again = [i for i in done if done[i] != (now[i]["status"], now[i]["result"], now[i]["ended_ms"])]
                wrong = farm.jobs("check").strip()
                if lost or again or wrong != "the store is sound":
                    check(f"{store.name}: after kill {k}", False, f"lost {lost}, done again {again}, {wrong}")
                done = {i: (j["status"], j["result"], j["ended_ms"]) for i, j in now.items() if j["ended_ms"]}
                if len(done) == len(now) and k < kills - 1:
                    n = random.randint(*EVALUATIONS)
                    wanted[farm.add(n, len(wanted), 10)] = (n, len(wanted))
            while len(farm.running) < 2:
                farm.start()
            until = time.time() + 180
            while time.time() < until and any(not j["ended_ms"] for j in farm.list()):
                time.sleep(0.3)
            farm.stop()
            end = farm.list()
            check(f"{store.name}: {kills} kills, {len(end)} jobs, all there", {j["id"] for j in end} == set(wanted))
            check(f"{store.name}: and all completed", all(j["status"] == "completed" for j in end), str([(j["status"], j["error_message"]) for j in end]))
            check(f"{store.name}: none was done twice", all((now["status"], now["result"], now["ended_ms"]) == done.get(now["id"], (now["status"], now["result"], now["ended_ms"])) for now in end))
            check(f"{store.name}: the store is sound", farm.jobs("check").strip() == "the store is sound")
            finished = [j for j in end if j["status"] == "completed"]
            bad = []
            for j in finished:
                f = j["result"]["files"]["video"]
                path = data / f["path"]
                if hashlib.sha256(path.read_bytes()).hexdigest() != f["sha256"] or frames_and_sound(path) != frames_and_sound(undisturbed(exe, data, *wanted[j["id"]])):
                    bad.append(j["id"])
            check(f"{store.name}: every file equals an undisturbed run", not bad, str(bad))
            resumed = (data / "worker.log").read_text(errors="replace").count("goes on after evaluation")
            if kills >= 6:   # fewer may all have hit other moments
                check(f"{store.name}: runs went on from saved states ({resumed} times)", resumed > 0)
            left = clean_folder(farm, finished)
            check(f"{store.name}: nothing of the broken runs is left", not left, str(left[:5]))
        finally:
            for p in farm.running:
                p.kill()
            store.close()
            if not all(results):
                print((data / "worker.log").read_text(errors="replace")[-4000:])


def cut_long_video(exe):
    """A long video, killed in its first segment, at a seam, later in a segment, and while it is decoded."""
    evaluations, frames, points = 60, 328, (12, 60, 95, 121, 200)
    with tempfile.TemporaryDirectory(prefix="zt_faults_") as d:
        data = Path(d)
        farm = Farm(exe, Sqlite(data), data)
        try:
            job = farm.add(evaluations, 5, 10, frames=frames, long_video=True)
            held, fell = 0, []
            for point in (*points, None):
                farm.start()
                until = time.time() + 120
                while time.time() < until:
                    now = next(j for j in farm.list() if j["id"] == job)
                    if now["ended_ms"]:
                        break
                    if now["checkpoint_step"] < held:
                        fell.append((point, held, now["checkpoint_step"]))
                    held = max(held, now["checkpoint_step"])
                    if point and now["checkpoint_step"] >= point:
                        break
                if now["ended_ms"]:
                    break
                farm.kill()
            check("a long video, killed: its steps only grow", not fell and held >= points[-2], str((fell, held)))
            check("and it is completed", now["status"] == "completed", str((now["status"], now["error_message"])))
            farm.stop()
            log = (data / "worker.log").read_text(errors="replace")
            check("it went on within later segments", re.search(r"of segment [1-9]", log) is not None, log[-1500:])
            path = data / now["result"]["files"]["video"]["path"]
            check("to the bytes of an undisturbed run", frames_and_sound(path) == frames_and_sound(undisturbed(exe, data, evaluations, 5, frames, "--long-video")))
            left = clean_folder(farm, [now])
            check("and nothing of the broken runs is left", not left, str(left))
        finally:
            for p in farm.running:
                p.kill()


class Server:
    def __init__(self, exe, store, data):
        args = [exe, "serve", "--model", MODEL, "--data", data, "--store", store.url, "--workers", "0", "--port", "0"]
        self.process = subprocess.Popen(list(map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.port = None
        for line in self.process.stdout:
            if m := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(m.group(1))
                break

    def post(self, key):
        body = json.dumps(dict(prompt="a red kite", size="32x32", frames=124, evaluations=1)).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/videos", body, {"Content-Type": "application/json", "Idempotency-Key": key})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())["id"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def kill_servers(exe, kind, kills):
    with tempfile.TemporaryDirectory(prefix="zt_faults_") as d:
        data = Path(d)
        store = kind(data)
        server = [Server(exe, store, data)]
        acknowledged, stop = {}, threading.Event()

        def client(name):
            n = 0
            while not stop.is_set():
                key = f"{name}-{n}"
                try:
                    acknowledged[key] = server[0].post(key)
                    n += 1
                except (OSError, http.client.HTTPException, ValueError, TypeError):   # it was killed, or is not up yet: the same key again
                    time.sleep(0.05)

        clients = [threading.Thread(target=client, args=(f"c{i}",)) for i in range(3)]
        try:
            for c in clients:
                c.start()
            for k in range(kills):
                time.sleep(random.uniform(0.05, 0.7))
                server[0].kill()
                if k % 4 == 3:
                    store.crash()
                server[0] = Server(exe, store, data)
            time.sleep(1)
            stop.set()
            for c in clients:
                c.join()
            server[0].kill()
            farm = Farm(exe, store, data)
            ids = [j["id"] for j in farm.list()]
            check(f"{store.name}: {kills} kills of the server, {len(acknowledged)} jobs acknowledged", len(acknowledged) > kills)
            check(f"{store.name}: all of them are there", set(acknowledged.values()) <= set(ids), str(set(acknowledged.values()) - set(ids)))
            check(f"{store.name}: each key made one job", len(set(acknowledged.values())) == len(acknowledged) and len(ids) - len(acknowledged) <= len(clients),
                  f"{len(ids)} jobs")
            check(f"{store.name}: the store is sound", farm.jobs("check").strip() == "the store is sound")
        finally:
            stop.set()
            server[0].process.kill()
            store.close()


def full_disk(exe):
    """The data folder's disk fills up during the second job or so; later there is room again."""
    with tempfile.TemporaryDirectory(prefix="zt_faults_") as d:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", d], capture_output=True)
        if mounted.returncode:
            print("skipped: a full disk (no right to mount a tmpfs)")
            return
        data = Path(d)
        farm = Farm(exe, Sqlite(data), data)
        farm.log = subprocess.DEVNULL
        try:
            ids = {farm.add(6, i, 10) for i in range(5)}
            farm.start()
            time.sleep(5)
            farm.stop()
            full = farm.list()
            check("full disk: every job is there, none failed", {j["id"] for j in full} == ids and {j["status"] for j in full} <= {"completed", "queued", "in_progress"},
                  str([(j["status"], j["error_message"]) for j in full]))
            check("full disk: the store is sound", farm.jobs("check").strip() == "the store is sound")
            subprocess.run(["mount", "-o", "remount,size=16m", d], check=True)
            farm.start()
            until = time.time() + 60
            while time.time() < until and any(not j["ended_ms"] for j in farm.list()):
                time.sleep(0.3)
            farm.stop()
            check("full disk: with room again all are completed", all(j["status"] == "completed" for j in farm.list()))
            subprocess.run(["mount", "-o", "remount,ro", d], check=True)
            run = subprocess.run([exe, "jobs", "add", "{}", "--data", d], capture_output=True, text=True, timeout=60)
            check("read-only disk: adding says so and exits with 4", run.returncode == 4 and "writable" in run.stderr, f"{run.returncode} {run.stderr}")
        finally:
            for p in farm.running:
                p.kill()
                p.wait()
            subprocess.run(["umount", "-l", d], check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("exe", type=Path)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--store", choices=("sqlite", "postgresql"))
    args = parser.parse_args()
    random.seed(args.seed)
    print(f"seed {args.seed}")
    exe = args.exe.resolve()
    for kind in (Sqlite, Postgres):
        if args.store in (None, kind.name):
            torment(exe, kind, args.kills)
            kill_servers(exe, kind, args.kills)
    cut_long_video(exe)
    full_disk(exe)
    return close()


if __name__ == "__main__":
    sys.exit(main())
