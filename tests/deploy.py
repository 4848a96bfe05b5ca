#!/usr/bin/env python3
"""What an operator installs: `cmake --install`, the Dockerfile's packages, command and health check, the systemd unit. No container is built:
the commands of the files are run on what was installed. Ends with "N passed, N failed".
usage: tests/deploy.py ZOETROPE BUILD      (needs dpkg and systemd-analyze)"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from counts import check, close

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())


def run(*args, **more):
    return subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=120, **more)


def installed(build, prefix):
    out = run("cmake", "--install", build, "--prefix", prefix)
    program = prefix / "bin/zoetrope"
    check("cmake --install puts the program and its model in place", program.exists() and (prefix / "share/zoetrope/models/h3-nano/modular_model_index.json").exists(), out.stderr)
    found = run(program, "inspect", "--json", cwd="/")
    check("an installed program finds the model that comes with it", found.returncode == 0 and str(prefix) in found.stdout, found.stderr or found.stdout)
    return program


def packages(program):
    """The image's list holds what the program is linked with, and nothing that it is not (ca-certificates are for https)."""
    listed = set(re.search(r"FROM debian:12-slim\s+RUN.*?--no-install-recommends\s+([^&]+)", DOCKERFILE).group(1).split())
    libraries = re.findall(r"=> (/\S+)", run("ldd", program).stdout)
    direct = set(re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", program).stdout))
    owners = {}
    for path in libraries:
        if Path(path).name in direct:
            out = run("dpkg", "-S", os.path.realpath(path)).stdout or run("dpkg", "-S", path).stdout
            owners[Path(path).name] = out.split(":")[0]
    always = {"libc6", "libgcc-s1", "libstdc++6"}
    check("the owner of every library is known", set(owners) == direct and all(owners.values()), (direct - set(owners), owners))
    wanted = set(owners.values()) - always
    check("the image installs what the program is linked with", wanted <= listed, wanted - listed)
    check("the image installs nothing else", listed - wanted == {"ca-certificates"}, listed - wanted)
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]]
    check("what the image copies is there", copied and all((ROOT / c).exists() for c in copied), copied)


def container(program, folder):
    """ENTRYPOINT and CMD as they stand, with the folders and the port of this test; then the health check."""
    command = json.loads(re.search(r"^ENTRYPOINT (\[.*\])", DOCKERFILE, re.M).group(1)) + json.loads(re.search(r"^CMD (\[.*\])", DOCKERFILE, re.M).group(1))
    secret, keys = re.search(r"zk_\w+", (out := run(program, "key", "alice").stdout)).group(), re.search(r"\{\"keys.*", out).group()
    (folder / "keys.json").write_text(keys)
    places = {"/var/lib/zoetrope": str(folder / "data"), "/etc/zoetrope/keys.json": str(folder / "keys.json"), "zoetrope": str(program)}
    check("the image's command names its folders", sum(c in places for c in command) == 3, command)
    server = subprocess.Popen([places.get(c, c) for c in command] + ["--port", "0"], stderr=subprocess.PIPE, text=True, cwd="/")
    try:
        port = next((m.group(1) for line in server.stderr if (m := re.search(r"http://[\d.]+:(\d+)", line))), None)
        health = json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", DOCKERFILE, re.M).group(1))
        check("the health check asks the port that the image exposes", sum("/8080 " in h for h in health) == 1 and re.search(r"^EXPOSE 8080$", DOCKERFILE, re.M), health)
        ask = [h.replace("/8080 ", f"/{port} ") for h in health]
        for _ in range(100):
            well = run(*ask)
            if well.returncode == 0:
                break
            time.sleep(0.1)
        check("the health check holds while the server is well", well.returncode == 0, well.stderr)
        body = json.dumps(dict(prompt="a red circle bounces", num_frames=22, evaluations=1, stream=True)).encode()
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/videos", body, headers), timeout=60) as answer:
            clip = answer.read()
        check("its key makes a clip", clip[4:8] == b"ftyp" and b"moof" in clip and len(clip) > 5000, clip[:200])
    finally:
        server.terminate()
        server.wait(30)
    check("the health check fails when there is no server", run(*ask).returncode != 0)


def unit(program, folder):
    text = (ROOT / "docs/zoetrope.service").read_text()
    (folder / "zoetrope.service").write_text(text.replace("/usr/local/bin/zoetrope", str(program)))
    out = run("systemd-analyze", "verify", folder / "zoetrope.service")
    check("systemd takes the unit as it is", out.returncode == 0 and not out.stderr.strip(), out.stderr or out.stdout)
    out = run("systemd-analyze", "security", "--offline=yes", "--threshold=20", folder / "zoetrope.service")
    check("its exposure is at most 2 of 10", out.returncode == 0, out.stdout[-200:])
    words = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.M).group(1))[1:]
    known = run(program, words[0], "--help").stdout
    check("the program knows every option of the unit", len(words) > 5 and all(re.search(rf"{w}\b", known) for w in words if w.startswith("--")), words)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = installed(Path(sys.argv[2]), folder / "prefix")
        packages(program)
        container(program, folder)
        unit(program, folder)
    return close()


if __name__ == "__main__":
    sys.exit(main())
