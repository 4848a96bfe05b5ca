#!/usr/bin/env python3
"""diffusers' time from prompt to MP4 file on the CPU, warm; one JSON line a run.

  stack_diffusers.py MODEL --dtype bf16|fp32 --frames 124 --points 50 --runs 3 --out clip.mp4 --prompt TEXT [--threads 2] [--wait]

The reference pipeline as it is, with its default of 50 grid points (49 evaluations), text-to-video; the model's own values of
modular_model_index.json. The audio codec stays in float32 as the reference's card asks. Frames and sound go to ffmpeg with the encoder
settings of our own writer (x264 veryfast, crf 17; AAC 160 kbit/s).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ap = argparse.ArgumentParser()
ap.add_argument("model")
ap.add_argument("--dtype", default="bf16", choices=["fp32", "bf16"])
ap.add_argument("--frames", type=int, default=124)
ap.add_argument("--points", type=int, default=50)
ap.add_argument("--runs", type=int, default=3)
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--prompt", default="a large yellow circle bounces slowly on a navy background")
ap.add_argument("--out", default="clip.mp4")
ap.add_argument("--wait", action="store_true")
a = ap.parse_args()
for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(k, None)
os.environ["OMP_NUM_THREADS"] = str(a.threads)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Scheduler, MiniMaxH3Transformer3DModel  # noqa: E402
from diffusers.modular_pipelines import MiniMaxH3Blocks, MiniMaxH3ModularPipeline  # noqa: E402
from diffusers.modular_pipelines.minimax_h3 import decoders, denoise  # noqa: E402
from transformers import Qwen2TokenizerFast, Qwen3VLForConditionalGeneration, Qwen3VLProcessor  # noqa: E402

torch.set_num_threads(a.threads)
torch.set_grad_enabled(False)
dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[a.dtype]
index = json.load(open(f"{a.model}/modular_model_index.json"))
# Values that the released pipeline holds as constants and a small model states in its index.
for name in ("text_encoder_layer", "keyframe_encode_seed", "keyframe_noise_aug"):
    if name in index:
        setattr(MiniMaxH3ModularPipeline, name, property(lambda self, v=index[name]: v))
MiniMaxH3ModularPipeline.min_duration = property(lambda self: index.get("min_duration_s", 5.0))
pipe = MiniMaxH3Blocks().init_pipeline()
pipe.update_components(
    text_encoder=Qwen3VLForConditionalGeneration.from_pretrained(f"{a.model}/text_encoder", dtype=dtype).eval(),
    tokenizer=Qwen2TokenizerFast.from_pretrained(f"{a.model}/tokenizer"), processor=Qwen3VLProcessor.from_pretrained(f"{a.model}/processor"),
    vae=AutoencoderKLMiniMaxH3.from_pretrained(f"{a.model}/vae", torch_dtype=dtype).eval(),
    audio_vae=AutoencoderKLMiniMaxH3Audio.from_pretrained(f"{a.model}/audio_vae", torch_dtype=torch.float32).eval(),
    transformer=MiniMaxH3Transformer3DModel.from_pretrained(f"{a.model}/transformer", torch_dtype=dtype).eval(),
    scheduler=MiniMaxH3Scheduler.from_pretrained(f"{a.model}/scheduler"), audio_scheduler=MiniMaxH3Scheduler.from_pretrained(f"{a.model}/audio_scheduler"),
    **{k: index[k] for k in ("canvas_short_edge", "canvas_max_pixels", "reference_image_short_edge") if k in index})
pipe.set_progress_bar_config(disable=True)


def quiet(block):
    for b in getattr(block, "sub_blocks", {}).values():
        quiet(b)
    if hasattr(block, "set_progress_bar_config"):
        block.set_progress_bar_config(disable=True)


quiet(pipe.blocks)
stage = {}


def timed(owner, name):
    """Adds the seconds of every call of a block to its stage."""
    inner = owner.__call__

    def call(self, *args, **kwargs):
        t, c = time.perf_counter(), time.process_time()
        out = inner(self, *args, **kwargs)
        stage[name] = stage.get(name, 0) + time.perf_counter() - t
        stage[name + "_cpu"] = stage.get(name + "_cpu", 0) + time.process_time() - c
        return out
    owner.__call__ = call


timed(denoise.MiniMaxH3DenoiseLoopWrapper, "denoise")
timed(decoders.MiniMaxH3VideoDecodeStep, "video_decode")
timed(decoders.MiniMaxH3AudioDecodeStep, "audio_decode")


def encode(frames, sound, rate):
    n, h, w, _ = frames.shape
    with tempfile.NamedTemporaryFile(suffix=".f32") as f:
        f.write(np.ascontiguousarray(sound.T).tobytes())
        f.flush()
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{w}x{h}", "-r", "24", "-i", "-", "-f", "f32le",
                        "-ar", str(rate), "-ac", str(sound.shape[0]), "-i", f.name, "-c:v", "libx264", "-preset", "veryfast", "-crf", "17", "-pix_fmt",
                        "yuv420p", "-c:a", "aac", "-b:a", "160k", "-movflags", "+faststart", "-threads", str(a.threads), a.out],
                       input=frames.tobytes(), check=True)


def clip(points):
    stage.clear()
    t, c = time.perf_counter(), time.process_time()
    s = pipe(prompt=a.prompt, num_inference_steps=points, num_frames=a.frames, output_type="pt", generator=torch.Generator("cpu").manual_seed(2))
    frames = s.get("videos")[0].permute(0, 2, 3, 1).mul(255).round().to(torch.uint8).numpy()
    sound = s.get("audio").float().numpy()[0]
    e = time.perf_counter()
    encode(frames, sound, s.get("sampling_rate"))
    end = time.perf_counter()
    return dict(program="diffusers", dtype=a.dtype, threads=a.threads, frames=len(frames), evaluations=points - 1, total=end - t,
                total_cpu=time.process_time() - c, encode=end - e, size=f"{frames.shape[2]}x{frames.shape[1]}", **stage)


clip(3)
print("ready", flush=True)
for run in range(a.runs):
    if a.wait and not sys.stdin.readline():
        break
    print(json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in clip(a.points).items()}), flush=True)
