#!/usr/bin/env python3
"""What bench/ reads out of a peer's output, on a recorded excerpt of stable-diffusion.cpp's sd-cli -v (97d2990; nano, four evaluations, 56 frames).
usage: tests/bench.py      (ends with "N passed, N failed")"""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench/peers")]
import sdcpp  # noqa: E402
from counts import check, close  # noqa: E402

log = (ROOT / "tests/fixtures/bench/sd_cli.log").read_bytes().decode()
got = sdcpp.parse(log)
check("evaluations, the first without its loading", got["steps"] == [4.08, 1.22, 1.99, 1.5], got)
check("the evaluation is the median of the others", got["step"] == 1.5, got)
check("decoders without their loading", (got["audio"], got["video"]) == (24.36, 1.78), got)
got = sdcpp.parse(log.replace("1.22s/it", "2.50it/s"))
check("evaluations a second become seconds", got["steps"] == [4.08, 0.4, 1.99, 1.5], got)
got = sdcpp.parse(log[:log.index("decode audio latent")])
check("what was not decoded has no seconds", "audio" not in got and "video" not in got and got["step"] == 1.5, got)
got = sdcpp.parse("\n".join(x for x in log.replace("\r", "\n").split("\n") if not any(f"| {i}/4 " in x for i in (2, 3, 4))))
check("one evaluation alone counts", got["steps"] == [4.08] and got["step"] == 4.08, got)
got = sdcpp.parse(log[:log.index("sample 16x10x17")])
check("bars of loading are no evaluations", got == {"steps": []}, got)
sys.exit(close())
