#!/usr/bin/env python3
"""Plants one likely porting bug at a time in a copy of the sources (the list of tests/golden/a/mutations.txt), builds, and asks whether
the golden checks or the model tests notice. A bug that nobody notices is a hole in the tests. Ends with "N passed, N failed".
usage: tests/mutations.py [NAME-PART...]     (not part of script/test's default run: about thirty builds)"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutations"
H3, QWEN, PIPE = "src/models/minimax_h3/", "src/models/qwen3_vl/", "src/pipeline/"
# name, file, what stands there, what the bug writes
MUTATIONS = [
    ("DiT: k and v exchanged", H3 + "dit.cc", 'b + "attn.to_k", b + "attn.to_v"', 'b + "attn.to_v", b + "attn.to_k"'),
    ("DiT: gate and value halves of fc1 swapped", H3 + "dit.cc", "swiglu(ctx.exec, ff, true, g);", "swiglu(ctx.exec, ff, false, g);"),
    ("VAE: gate and value halves swapped", H3 + "video_decoder.cc", "swiglu(ctx.exec, both, true, inner)", "swiglu(ctx.exec, both, false, inner)"),
    ("DiT rope: h and w swapped", H3 + "dit.cc", "(r * 3 + axis)]", "(r * 3 + (3 - axis) % 3)]"),
    ("DiT rope: turned the other way", H3 + "dit.cc", "[axis * f + j] = std::sin(angle)", "[axis * f + j] = -std::sin(angle)"),
    ("DiT rope: none", H3 + "dit.cc", "[axis * f + j] = std::sin(angle)", "[axis * f + j] = 0, p->cosine.mat().row(r)[axis * f + j] = 1"),
    ("rope time: spans 4,4,4,4,4", H3 + "layout.cc", "{1, 4, 4, 4, 4}", "{4, 4, 4, 4, 4}"),
    ("rope space: linspace with endpoint", H3 + "layout.cc", "step = delta / static_cast<double>(n);", "step = delta / static_cast<double>(n > 1 ? n - 1 : 1);"),
    ("layout: audio rows at w=0", H3 + "layout.cc", "add(origin + static_cast<double>(k), 0, w, kAudioTag)", "add(origin + static_cast<double>(k), 0, 0 * w, kAudioTag)"),
    ("noise: audio drawn before video", PIPE + "generate.cc", "TorchGenerator generator{request.seed}",
     "TorchGenerator generator{[&] { TorchGenerator g(request.seed); std::vector<float> v(64); g.randn(v); return g; }()}"),
    ("tags: text tagged 0", H3 + "layout.h", "kTextTag = 1", "kTextTag = 0"),
    ("tags: vision rows tagged 1", H3 + "presentation.cc", "add(pad, kVideoTag)", "add(pad, kTextTag)"),
    ("schedule: one more grid point", PIPE + "generate.cc", "flow_schedule(request.grid_points, index.video_shift)", "flow_schedule(request.grid_points + 1, index.video_shift)"),
    ("schedule: audio shift 12", PIPE + "generate.cc", "index.audio_shift)", "index.video_shift)"),
    ("step: velocity sign", PIPE + "sampler.cc", "at + from_timestep * velocity", "at - from_timestep * velocity"),
    ("timesteps: text rows at t=1", H3 + "layout.cc", "  RowTimesteps out;", "  for (int32_t i : layout.text_indices) row[static_cast<size_t>(i)] = 1.0f;\n  RowTimesteps out;"),
    ("fl2va: condition at t=1.0, not noised", PIPE + "generate.cc", "scale_noise(request.config.keyframe_noise_aug,", "scale_noise(1.0,"),
    ("fl2va: posterior mean instead of the sample", PIPE + "generate.cc", "std::exp(0.5f * log_variance)", "0.0f * std::exp(0.5f * log_variance)"),
    ("fl2va: no fp16 rounding", PIPE + "generate.cc", "to_float(to_f16(sample))", "sample"),
    ("fl2va: last frame anchored as first", H3 + "layout.cc", "a == Anchor::first ? clock", "a != Anchor::last || true ? clock"),
    ("text: hidden state 49", PIPE + "generate.cc", "static_cast<int>(request.config.text_encoder_layer)", "static_cast<int>(request.config.text_encoder_layer) - 1"),
    ("text: final norm applied", PIPE + "generate.cc", '  tap("prompt_embeds", embeds.view());', '  rms_norm(ctx.exec, embeds.mat(), nullptr, 1e-6f, embeds.mat());\n  tap("prompt_embeds", embeds.view());'),
    ("vision: no deepstack", QWEN + "text_encoder.cc", "if (i + 1 < layers &&", "if (i + 1 < 0 &&"),
    ("vision: 1-D positions instead of mrope", QWEN + "text_encoder.cc", "out[i] = p, out[n + i] = p + r, out[2 * n + i] = p + c", "out[i] = p + r * gw + c, out[n + i] = out[i], out[2 * n + i] = out[i]"),
    ("vision: merger with tanh gelu", QWEN + "vision_tower.cc", "Activation::gelu_erf", "Activation::gelu_tanh"),
    ("VAE: left tiles blended before they are lent", H3 + "tiling.cc", "      if (r < h - bottom) std::copy_n(row, w - right",
     "      std::copy_n(row + w - right, right, side.data() + n * right);\n      if (r < h - bottom) std::copy_n(row, w - right"),
    ("VAE: no tiling", H3 + "video_vae.h", "int64_t size = 256", "int64_t size = 4096"),
    ("VAE: no cross-fade between clips", H3 + "frame_stream.cc", "if (clip_ > 0 && layout_.overlap) cross_fade", "if (clip_ < 0 && layout_.overlap) cross_fade"),
    ("VAE: register tokens zero", H3 + "video_decoder.cc", 'd.suffix = w.vector("decoder.register_tokens");', 'd.suffix = w.vector("decoder.register_tokens");\n  for (float& v : d.suffix) v = 0;'),
    ("audio encoder: attention not causal", H3 + "audio_encoder.cc", ".causal = true", ".causal = false"),
    ("presentation: label without its trailing space", H3 + "presentation.cc", '"<Picture {}>: "', '"<Picture {}>:"'),
    ("presentation: label and prompt joined", H3 + "presentation.cc", '"<{:.1f} seconds>"', '"<{:.0f} seconds>"'),
]


def run(*args, timeout=1200):
    return subprocess.run([str(a) for a in args], cwd=WORK, capture_output=True, text=True, timeout=timeout)


def notices():
    """The first check that fails, or nothing."""
    for golden in ("a", "b"):
        for more in ((), ("--drawn",)):
            r = run(sys.executable, ROOT / "tests/golden/check.py", ROOT / "tests/golden" / golden, WORK / "build/zoetrope", *more)
            if r.returncode:
                return f"golden {golden} {' '.join(more)}: {(r.stdout.strip().splitlines() or ['crash'])[0][:90]}"
    r = run(WORK / "build/tests/models_test")
    return "" if r.returncode == 0 else "models_test: " + next((x for x in r.stdout.splitlines() if "FAILED" in x), "crash")[:90]


def main():
    wanted = [m for m in MUTATIONS if not sys.argv[1:] or any(a in m[0] for a in sys.argv[1:])]
    WORK.mkdir(parents=True, exist_ok=True)
    for part in ("src", "cmake", "CMakeLists.txt"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, WORK / part, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / part, WORK / part)
    (WORK / "tests").mkdir(exist_ok=True)
    for part in ("golden", "fixtures"):
        if not (WORK / "tests" / part).exists():
            os.symlink(ROOT / "tests" / part, WORK / "tests" / part)
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja")
    build = ("ninja", "-C", "build", "zoetrope", "models_test")
    if run(*build).returncode or (seen := notices()):
        print(f"the sources as they are do not pass: {seen}\n0 passed, 1 failed")
        return 1
    caught = 0
    for name, file, old, new in wanted:
        path = WORK / file
        text = path.read_text()
        if old not in text:
            print(f"FAIL {name}: {file} no longer holds {old!r}; mend the list", flush=True)
            continue
        path.write_text(text.replace(old, new))
        r = run(*build)
        by = "" if r.returncode else notices()
        path.write_text(text)
        caught += bool(by)
        print(f"{'ok  ' if by else 'FAIL'} {name}: {by or ('does not compile: ' + r.stdout[-200:] if r.returncode else 'nobody noticed')}", flush=True)
    print(f"{caught} passed, {len(wanted) - caught} failed")
    return 0 if caught == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
