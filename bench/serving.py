"""`zoetrope serve` on a free port, as the benches of the server run it."""
import json
import os
import re
import subprocess
import urllib.request


class Server:
    def __init__(self, zoetrope, model, data, *options, isa="best"):
        """isa: best or a value of ZT_ISA."""
        env = {**os.environ, **({} if isa == "best" else {"ZT_ISA": isa})}
        args = [zoetrope, "serve", "--model", model, "--port", "0", "--data", data, "--threads", "2", *map(str, options)]
        self.process = subprocess.Popen(args, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env)
        self.port = int(re.search(rb"http://127\.0\.0\.1:(\d+)", self.process.stderr.readline()).group(1))
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def json(self, path, body=None, method=None):
        data = json.dumps(body).encode() if body is not None else None
        r = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"} if data else {}, method=method)
        with urllib.request.urlopen(r, timeout=60) as answer:
            return json.loads(answer.read())

    def rss(self):
        """Resident MiB."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def stop(self):
        """The exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self.drain.wait(10)
        return code
