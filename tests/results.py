#!/usr/bin/env python3
"""Results kept in an S3-compatible store: moto's server, which checks every signature and every right, behind a proxy that can be down, slow, refuse,
or kill the server in between. Ends with "N passed, N failed".
usage: tests/results.py ZOETROPE      (in the environment of tests/requirements-tests.txt)"""
import hashlib
import http.client
import http.server
import json
import logging
import os
import re
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import boto3
from botocore.client import Config
from moto.server import ThreadedMotoServer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from counts import check, close  # noqa: E402

EXE = Path(sys.argv[1]).resolve()
MODEL = ROOT / "tests/golden/a/model"
SMALL = dict(prompt="a red kite", size="32x32", frames=124, evaluations=4, seed=3)
logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Proxy(http.server.ThreadingHTTPServer):
    """Passes everything on, Host and signature as they came. `mode`: ok, down, 503, stall; `flaky`: so many 503 first; `after_put`: called with the
    key when the store has an object and the client does not know it yet; `broken`: answers to requests whose path holds a text, 0 for a stall."""
    daemon_threads = True

    def __init__(self, port):
        self.mode, self.flaky, self.after_put, self.seen, self.back, self.broken = "ok", 0, None, [], port, {}
        super().__init__(("127.0.0.1", 0), Pass)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, address):
        pass


class Pass(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def any(self):
        s = self.server
        if s.mode == "down":
            self.close_connection = True
            return self.connection.close()
        if s.mode == "stall":
            time.sleep(30)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        s.seen.append((self.command, self.path, self.headers.get("Range")))
        if s.mode == "503" or s.flaky > 0:
            s.flaky -= 1
            return self.answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
        for text, status in s.broken.items():
            if self.command == "PUT" and text in self.path:
                time.sleep(0 if status else 10)
                return self.answer(status or 503, {}, b"<Error><Code>Broken</Code></Error>")
        c = http.client.HTTPConnection("127.0.0.1", s.back, timeout=30)
        c.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for k, v in self.headers.items():
            c.putheader(k, v)
        c.endheaders(body)
        r = c.getresponse()
        data = r.read()
        c.close()
        if self.command == "PUT" and s.after_put and r.status == 200:
            s.after_put(self.path)
        self.answer(r.status, dict(r.getheaders()), data)

    def answer(self, status, headers, data):
        self.send_response(status)
        for k, v in headers.items():
            if k.lower() not in ("content-length", "connection", "server", "date", "transfer-encoding"):
                self.send_header(k, v)
        self.send_header("Content-Length", headers.get("Content-Length", headers.get("content-length")) if self.command == "HEAD" and headers else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = any


class Store:
    """moto with a user who may use one bucket; from then on every request must be signed and allowed."""

    def __init__(self):
        self.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.moto.start()
        self.port = self.moto.get_host_and_port()[1]
        url = f"http://127.0.0.1:{self.port}"
        root = dict(endpoint_url=url, region_name="eu-test-1", aws_access_key_id="x", aws_secret_access_key="x")
        iam = boto3.client("iam", **root)
        iam.create_user(UserName="zt")
        rights = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName="zt", PolicyName="all", PolicyDocument=json.dumps(rights))
        key = iam.create_access_key(UserName="zt")["AccessKey"]
        self.id, self.secret = key["AccessKeyId"], key["SecretAccessKey"]
        boto3.client("s3", **root).create_bucket(Bucket="clips", CreateBucketConfiguration={"LocationConstraint": "eu-test-1"})
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.request("POST", "/moto-api/reset-auth", b"0")
        c.getresponse().read()
        self.s3 = boto3.client("s3", endpoint_url=url, region_name="eu-test-1", aws_access_key_id=self.id, aws_secret_access_key=self.secret,
                               config=Config(s3={"addressing_style": "path"}))
        self.proxy = Proxy(self.port)

    def keys(self, prefix="zt/one/jobs/"):
        return sorted(o["Key"] for o in self.s3.list_objects_v2(Bucket="clips", Prefix=prefix).get("Contents", []))

    def environment(self, secret=None):
        e = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return {**e, "AWS_ACCESS_KEY_ID": self.id, "AWS_SECRET_ACCESS_KEY": secret or self.secret, "AWS_REGION": "eu-test-1",
                "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.proxy.server_address[1]}"}


class Server:
    def __init__(self, data, env, *args):
        self.lines = []
        cmd = [EXE, "serve", "--model", MODEL, "--port", "0", "--data", data, "--threads", "1", *args]
        self.process = subprocess.Popen(list(map(str, cmd)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        while not (m := re.search(r"http://127\.0\.0\.1:(\d+)", line := self.process.stderr.readline())):
            if not line:
                raise SystemExit(f"FAIL the server does not start: {self.lines}")
            self.lines.append(line)
        self.port = int(m.group(1))
        for pipe in (self.process.stderr, self.process.stdout):
            threading.Thread(target=lambda p=pipe: self.lines.extend(p), daemon=True).start()

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, json.dumps(body) if body else None, {**({"Content-Type": "application/json"} if body else {}), **(headers or {})})
        r = c.getresponse()
        r.data = r.read()
        r.json = json.loads(r.data) if r.data[:1] == b"{" else None
        c.close()
        return r

    def create(self, **more):
        r = self.request("POST", "/v1/videos", {**SMALL, **more})
        if r.status != 200:
            raise SystemExit(f"FAIL create: {r.status} {r.data}")
        return r.json["id"]

    def wait(self, video, seconds=90):
        end = time.time() + seconds
        while time.time() < end:
            v = self.request("GET", f"/v1/videos/{video}").json
            if v["status"] in ("completed", "failed"):
                return v
            time.sleep(0.1)
        raise SystemExit(f"FAIL {video} is not done after {seconds} s: {v}\n{''.join(self.lines[-20:])}")

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(60)


def until(what, seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


def drain(stream):
    try:
        while stream.read1(1 << 16):
            pass
    except (OSError, http.client.HTTPException):   # the server was killed
        pass


def streams(data):
    """Hashes of frames and sound: the metadata of a clip also name how it was asked for."""
    with tempfile.NamedTemporaryFile(suffix=".mp4") as f:
        f.write(data)
        f.flush()
        return subprocess.run(["ffmpeg", "-v", "error", "-i", f.name, "-map", "0", "-c", "copy", "-f", "streamhash", "-"], capture_output=True, check=True).stdout


def local_files(data, video):
    return sorted(p.name for p in (Path(data) / "jobs" / video).rglob("*") if p.is_file() and p.name != "preview.png")


def everyday(store, d):
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    check("ready with the store", s.request("GET", "/readyz").status == 200, s.request("GET", "/readyz").data)
    video = s.create()
    made = s.wait(video)
    check("a clip is completed", made["status"] == "completed", made)
    names = [k.rsplit("/", 1)[1] for k in store.keys()]
    check("its four files are in the bucket, below the prefix", names == ["latents.safetensors", "spritesheet.webp", "thumbnail.webp", "video.mp4"], store.keys())
    check("and no more in the data folder than what players follow", until(lambda: local_files(d, video) == ["stream.mp4"]), local_files(d, video))
    whole = s.request("GET", f"/v1/videos/{video}/content")
    kept = store.s3.get_object(Bucket="clips", Key=[k for k in store.keys() if k.endswith("video.mp4")][0])
    check("GET gives its bytes", whole.status == 200 and hashlib.sha256(whole.data).hexdigest() == made["sha256"] and kept["Body"].read() == whole.data)
    check("the object has its type", kept["ContentType"] == "video/mp4", kept["ContentType"])
    check("with length, tag and no chunks", whole.headers["Content-Length"] == str(made["bytes"]) and whole.headers["ETag"] == f'"{made["sha256"]}"' and not whole.headers["Transfer-Encoding"],
          dict(whole.headers))
    head = s.request("HEAD", f"/v1/videos/{video}/content")
    check("HEAD gives the same without the bytes", head.status == 200 and head.data == b"" and head.headers["Content-Length"] == str(made["bytes"]), dict(head.headers))
    n = len(whole.data)
    for text, part in (("bytes=0-0", whole.data[:1]), ("bytes=100-1099", whole.data[100:1100]), (f"bytes={n - 5}-", whole.data[-5:]), ("bytes=-7", whole.data[-7:])):
        r = s.request("GET", f"/v1/videos/{video}/content", headers={"Range": text})
        check(f"Range {text}", r.status == 206 and r.data == part and r.headers["Content-Range"].endswith(f"/{n}"), (r.status, dict(r.headers)))
    r = s.request("GET", f"/v1/videos/{video}/content", headers={"Range": f"bytes={n}-"})
    check("a range beyond the end is 416", r.status == 416 and r.headers["Content-Range"] == f"bytes */{n}", (r.status, dict(r.headers)))
    r = s.request("GET", f"/v1/videos/{video}/content", headers={"If-None-Match": whole.headers["ETag"]})
    check("If-None-Match is 304", r.status == 304, r.status)
    for variant in ("thumbnail", "spritesheet"):
        r = s.request("GET", f"/v1/videos/{video}/content?variant={variant}")
        check(f"the {variant} is a WebP", r.status == 200 and r.data[8:12] == b"WEBP" and r.headers["Content-Type"] == "image/webp", r.status)
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)   # the connection goes on after a streamed answer
    sizes = []
    for _ in range(3):
        c.request("GET", f"/v1/videos/{video}/content")
        sizes.append(len(c.getresponse().read()))
    c.close()
    check("several on one connection", sizes == [n] * 3, sizes)

    big = bytes(os.urandom(1 << 16)) * 80   # 5 MiB in place of the clip: more than one piece, by range as well
    key = [k for k in store.keys() if k.endswith("video.mp4")][0]
    store.s3.put_object(Bucket="clips", Key=key, Body=big)
    store.proxy.seen.clear()
    r = s.request("GET", f"/v1/videos/{video}/content", headers={"Range": "bytes=1000-4000000"})
    pieces = [x for x in store.proxy.seen if x[0] == "GET"]
    check("a large file passes in pieces of 1 MiB", r.status == 206 and r.data == big[1000:4000001] and len(pieces) == 4, (r.status, len(r.data), pieces))
    store.s3.put_object(Bucket="clips", Key=key, Body=whole.data)

    (next(Path(d).rglob("stream.mp4"))).unlink()
    playlist = s.request("GET", f"/v1/videos/{video}/index.m3u8")
    check("HLS of a clip that is only in the store", playlist.status == 200 and b"#EXT-X-ENDLIST" in playlist.data, playlist.data[:300])
    check("leaves only the stream behind", local_files(d, video) == ["stream.mp4"], local_files(d, video))
    longer = s.request("POST", "/v1/videos/extensions", {"video": {"id": video}, "prompt": "a red kite", "seconds": "1"})
    check("an extension goes on from latents in the store", longer.status == 200 and s.wait(longer.json["id"])["status"] == "completed", longer.data)
    two = s.create(n=2)
    pair = s.wait(two)
    second = s.request("GET", f"/v1/videos/{two}/content?variant=1")
    check("of two clips both are kept", pair["status"] == "completed" and hashlib.sha256(second.data).hexdigest() == pair["outputs"][1]["sha256"], pair)
    store.s3.delete_object(Bucket="clips", Key=key)
    r = s.request("GET", f"/v1/videos/{video}/content")
    check("an object that is gone is 404", r.status == 404 and r.json["error"]["code"] == "content_missing", r.data)
    for v in (video, longer.json["id"], two):
        s.request("DELETE", f"/v1/videos/{v}")
    check("deleting deletes the objects", store.keys() == [], store.keys())
    check("it ends with 0", s.stop() == 0)
    log = "".join(s.lines)
    check("no secret in the log", store.secret not in log and store.id not in log and "Signature" not in log)
    return whole.data


def trouble(store, d, reference):
    p = store.proxy
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    p.flaky = 3
    check("three refusals of a busy store are tried again", s.wait(s.create())["status"] == "completed")
    video = s.create()
    s.wait(video)
    p.mode = "down"
    check("store down: not ready", until(lambda: s.request("GET", "/readyz").status == 503, 10))
    r = s.request("GET", "/readyz")
    check("and it says why, without a secret", "store of results" in r.json["error"]["message"] and store.secret not in r.data.decode(), r.data)
    r = s.request("GET", f"/v1/videos/{video}/content")
    check("content is 503 with Retry-After", r.status == 503 and r.headers["Retry-After"], (r.status, r.data))
    waiting = s.create()
    check("a clip that is made waits, and is not completed", until(lambda: any("waits for its place" in x for x in s.lines)) and
          s.request("GET", f"/v1/videos/{waiting}").json["status"] == "in_progress", s.lines[-5:])
    start = time.time()
    check("status calls answer meanwhile", s.request("GET", "/v1/videos").status == 200 and time.time() - start < 2)
    cancelled = s.request("POST", f"/v1/videos/{waiting}/cancel").status
    check("a waiting clip can be cancelled", cancelled == 200 and s.wait(waiting, 20)["error"]["code"] == "cancelled", cancelled)
    waiting = s.create(seed=9)
    until(lambda: sum("waits for its place" in x for x in s.lines) > 1)
    s.request("DELETE", f"/v1/videos/{video}")
    check("deleting works meanwhile", s.request("GET", f"/v1/videos/{video}").status == 404)
    check("asked to stop it stops", s.stop() == 0)
    evaluations = lambda server: sum("goes on after" in x for x in server.lines)
    p.mode = "ok"
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    start = time.time()
    made = s.wait(waiting)
    check("with the store back the clip that waited is completed, not made again", made["status"] == "completed" and evaluations(s) == 0 and
          made["inference_time_s"] > 0, (made, time.time() - start))
    p.mode = "stall"
    check("a store that stalls: not ready", until(lambda: s.request("GET", "/readyz").status == 503, 40))
    p.mode = "ok"
    check("and ready again after it", until(lambda: s.request("GET", "/readyz").status == 200, 40))
    s.stop()

    # kill -9 when the store has the last object and the server was not told
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one")
    puts = []

    def kill(path):
        puts.append(path)
        if path.endswith("/video.mp4"):
            p.after_put = None
            s.process.kill()

    p.after_put = kill
    video = s.create()
    s.process.wait(60)
    check("kill -9 between an upload and the completion", len(puts) > 0)
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    made = s.wait(video, 120)
    clip = s.request("GET", f"/v1/videos/{video}/content").data
    check("the clip is completed afterwards, with the bytes of an undisturbed run", made["status"] == "completed" and streams(clip) == streams(reference), made)
    mine = [k for k in store.keys() if video in k]
    check("what the killed run had sent is gone", until(lambda: len([k for k in store.keys() if video in k]) == 4), mine)
    s.stop()


def beside(store, d, reference):
    """While the store is away the engine is free: a channel goes on, further jobs are made, up to a limit, and nothing of it is lost by kill -9."""
    p = store.proxy
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    live = s.request("POST", "/v1/live", {"prompt": "a kite", "size": "32x32", "evaluations": 1, "lead_seconds": 3}).json["id"]
    played = lambda: s.request("GET", f"/v1/live/{live}").json
    viewer = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    viewer.request("GET", f"/v1/live/{live}/stream")
    stream = viewer.getresponse()
    threading.Thread(target=drain, args=(stream,), daemon=True).start()
    p.mode = "down"
    waits = lambda: len({x.split(" is made and waits")[0].split("job ")[1] for x in s.lines if "is made and waits" in x})
    videos = [s.create()] + [s.create(evaluations=1, seed=i) for i in range(9)]
    check("store away: eight jobs are made and wait for it", until(lambda: waits() == 8, 60), waits())
    time.sleep(1)
    states = [s.request("GET", f"/v1/videos/{v}").json["status"] for v in videos]
    check("and no more than eight", waits() == 8 and states.count("in_progress") == 8 and states.count("queued") == 2, states)
    seen = [played()["made_seconds"]]
    for _ in range(3):
        until(lambda: played()["made_seconds"] > seen[-1], 15)
        seen.append(played()["made_seconds"])
    check("a channel goes on meanwhile", seen == sorted(set(seen)) and played()["error"] is None, (seen, played()))
    s.process.kill()
    s.process.wait()
    p.mode = "ok"
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    made = [s.wait(v, 120) for v in videos]
    check("kill -9 meanwhile: each job is completed afterwards", all(m["status"] == "completed" for m in made), made)
    clip = s.request("GET", f"/v1/videos/{videos[0]}/content").data
    check("with the bytes of an undisturbed run", streams(clip) == streams(reference))
    for v in videos:
        s.request("DELETE", f"/v1/videos/{v}")
    s.stop()


def large(store):
    """Files above 64 MiB go in parts; what does not come to its end is given up."""
    uploads = lambda: [u["UploadId"] for u in store.s3.list_multipart_uploads(Bucket="clips").get("Uploads", [])]
    mine = lambda: store.keys("zt/one/jobs/video_large")
    verbs = lambda verb, text: [p for v, p, _ in store.proxy.seen if v == verb and text in p]

    def run(test):
        store.proxy.seen.clear()
        r = subprocess.run([EXE.parent / "tests/serve_test", f"--gtest_filter=S3Results.{test}"], env=store.environment(), capture_output=True, text=True, timeout=120)
        check(f"{test}", r.returncode == 0 and "[  PASSED  ] 1 test" in r.stdout and "SKIPPED" not in r.stdout, r.stdout[-1500:] + r.stderr[-500:])

    run("ALargeFileIsKeptInParts")
    check("in five parts, put together once, nothing left over", len(verbs("PUT", "partNumber=")) == 5 and len(verbs("POST", "uploadId=")) == 1 and not uploads(), store.proxy.seen)
    kept = store.s3.head_object(Bucket="clips", Key="zt/one/jobs/video_large/run.1/video.mp4")
    check("the object has its type", kept["ContentType"] == "video/mp4" and kept["ETag"].endswith('-5"'), kept)
    store.s3.delete_object(Bucket="clips", Key="zt/one/jobs/video_large/run.1/video.mp4")
    store.proxy.flaky = 2
    run("ALargeFileIsKeptInParts")
    check("a busy store is asked again", not uploads(), uploads())
    store.s3.delete_object(Bucket="clips", Key="zt/one/jobs/video_large/run.1/video.mp4")
    for what, status in (("refuses", 403), ("fails at", 500)):
        store.proxy.broken = {"partNumber=3": status}
        run("ALargeFileOnABrokenStoreIsAnError")
        check(f"a store that {what} a part: the upload is given up", len(verbs("DELETE", "uploadId=")) == 1 and not uploads() and not mine(), (verbs("DELETE", ""), uploads()))
    store.proxy.broken = {"partNumber=2": 0}
    run("ALargeFileCanBeCancelled")
    check("a cancelled upload is given up", not uploads() and not mine(), (uploads(), mine()))
    store.proxy.broken = {}
    run("AnotherFileThanWasMadeIsRefused")
    check("another file than was made leaves nothing", not uploads() and not mine(), (uploads(), mine()))
    store.s3.create_multipart_upload(Bucket="clips", Key="zt/one/jobs/video_x/run.1/video.mp4")   # moto dates it to 2010
    theirs = store.s3.create_multipart_upload(Bucket="clips", Key="zt/other/file")["UploadId"]
    run("WhatAKilledProcessBeganIsSwept")
    check("an old upload of nobody is swept, others' are not", uploads() == [theirs], uploads())
    store.s3.abort_multipart_upload(Bucket="clips", Key="zt/other/file", UploadId=theirs)


def credentials(store, d):
    s = Server(d, store.environment("wrong" * 8), "--results", "s3://clips/zt/one", "--drain", "1")
    r = s.request("GET", "/readyz")
    check("wrong credentials: not ready, with the remedy", r.status == 503 and "AWS_SECRET_ACCESS_KEY" in r.json["error"]["message"], r.data)
    video = s.create(evaluations=1)
    check("a clip waits for them", until(lambda: any("waits for its place" in x for x in s.lines)))
    s.stop()
    log = "".join(s.lines)
    check("neither secret is in the log", "wrongwrong" not in log and store.secret not in log)
    s = Server(d, store.environment(), "--results", "s3://clips/zt/one", "--drain", "1")
    check("right ones, and it is completed", s.wait(video)["status"] == "completed")
    s.stop()
    s = Server(d, store.environment(), "--results", "s3://absent/zt", "--drain", "1")
    r = s.request("GET", "/readyz")
    check("no such bucket: not ready, with the remedy", r.status == 503 and "make the bucket" in r.json["error"]["message"], r.data)
    s.stop()
    env = store.environment()
    for name, url, change, word in (("no bucket", "s3://", {}, "bucket"), ("another scheme", "gs://clips", {}, "s3://"), ("a prefix that climbs", "s3://clips/../x", {}, "prefix"),
                                    ("no credentials", "s3://clips", {"AWS_SECRET_ACCESS_KEY": ""}, "AWS_SECRET_ACCESS_KEY"),
                                    ("a broken endpoint", "s3://clips", {"AWS_ENDPOINT_URL_S3": "nonsense"}, "AWS_ENDPOINT_URL"),
                                    ("a broken region", "s3://clips", {"AWS_REGION": "a b"}, "AWS_REGION")):
        run = subprocess.run([EXE, "serve", "--model", MODEL, "--data", d, "--port", "0", "--results", url], env={**env, **change}, capture_output=True, text=True, timeout=30)
        check(f"{name}: refused at the start", run.returncode == 2 and word in run.stderr and store.secret not in run.stderr, (run.returncode, run.stderr))


def moving(store, d):
    """A server that kept its results in its folder is given a store: the old ones stay where they are and are served."""
    s = Server(d, store.environment(), "--drain", "1")
    old = s.create()
    s.wait(old)
    s.stop()
    for p in Path(d, "jobs").iterdir():
        os.utime(p, (0, 0))
    s = Server(d, store.environment(), "--results", "s3://clips/zt/two", "--drain", "1")
    new = s.create()
    s.wait(new)
    both = [s.request("GET", f"/v1/videos/{v}/content") for v in (old, new)]
    check("clips of before the store, and of after", [r.status for r in both] == [200, 200] and streams(both[0].data) == streams(both[1].data))
    check("the old one was not touched by the sweep", "video.mp4" in local_files(d, old), local_files(d, old))
    s.stop()


def main():
    store = Store()
    with tempfile.TemporaryDirectory(prefix="zt_results_") as d:
        reference = everyday(store, f"{d}/one")
        trouble(store, f"{d}/one", reference)
        beside(store, f"{d}/four", reference)
        large(store)
        credentials(store, f"{d}/two")
        moving(store, f"{d}/three")
    return close()


if __name__ == "__main__":
    sys.exit(main())
