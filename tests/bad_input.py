#!/usr/bin/env python3
"""What must not work, and what must work though it looks odd. Every case runs the program once on a tiny checkpoint:
a refusal has exit code 2 (request) or 3 (model), a message that names the thing, no output file, no crash, no hang.
usage: tests/bad_input.py ZOETROPE [-k PART_OF_A_NAME]      (needs numpy, safetensors, pillow and the ffmpeg program)
Ends with "N passed, N failed"."""
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import wave
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

GOLDEN = Path(__file__).resolve().parent / "golden/a"
TIMEOUT = 120
REQUEST, MODEL, RESOURCE, FINE = 2, 3, 4, 0
CASES = []


def case(name, code, message, prompt="waves", task="t2va", setup=None, args=(), base=True, output="out.mp4", env=None, limit=None):
    """code: one exit code or several that are right; message: a pattern that stderr must hold if the run is refused.
    setup(folder) writes files into the case's own folder, which holds model/ (a copy); args may name them as {d}/NAME."""
    CASES.append(dict(name=name, codes=code if isinstance(code, tuple) else (code,), message=message, prompt=prompt, task=task, setup=setup,
                      args=list(args), base=base, output=output, env=env or {}, limit=limit))


# ---------------------------------------------------------------------------------------------- what the cases write
def fresh(path):
    """The model's files are hard links: whoever changes one first takes it away from the others."""
    data = path.read_bytes()
    path.unlink()
    return data


def edit(file, change):
    def f(d):
        p = d / "model" / file
        p.write_bytes(change(fresh(p)))
    return f


def edit_json(file, change):
    def f(data):
        j = json.loads(data)
        change(j)
        return json.dumps(j).encode()
    return edit(file, f)


def set_key(file, key, value):
    return edit_json(file, lambda j: j.__setitem__(key, value))


def drop_key(file, key):
    return edit_json(file, lambda j: j.pop(key))


def edit_header(file, change):
    """Changes the JSON header of a safetensors file and keeps its bytes."""
    def f(data):
        n = struct.unpack("<Q", data[:8])[0]
        h = json.loads(data[8:8 + n])
        change(h)
        text = json.dumps(h).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + n:]
    return edit(file, f)


def remove(file):
    def f(d):
        p = d / "model" / file
        shutil.rmtree(p) if p.is_dir() else p.unlink()
    return f


def edit_tensors(file, change):
    """Loads a safetensors file as raw (dtype, shape, bytes), lets change() work on it, writes it again."""
    def f(data):
        n = struct.unpack("<Q", data[:8])[0]
        h = json.loads(data[8:8 + n])
        h.pop("__metadata__", None)
        t = {k: [v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]] for k, v in h.items()}
        change(t)
        header, at, blob = {}, 0, b""
        for k, (dtype, shape, raw) in t.items():
            header[k] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + len(raw)])
            at += len(raw)
            blob += raw
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + blob
    return edit(file, f)


def poison(name, value):
    """One element of a tensor becomes NaN or infinite."""
    def f(t):
        key = next(k for k in t if re.fullmatch(name, k))
        dtype, shape, raw = t[key]
        bits = struct.pack("<f", value) if dtype == "F32" else struct.pack("<f", value)[2:]
        t[key][2] = raw[:len(bits) * 3] + bits + raw[len(bits) * 4:]
    return f


def put(name, data):
    return lambda d: (d / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def picture(name, size=(32, 32), mode="RGB", **save):
    return lambda d: Image.new(mode, size, None).save(d / name, **save)


def big_png(name, side):
    """side x side black pixels of one bit each."""
    def f(d):
        z = zlib.compressobj(9)
        row = bytes(1 + (side + 7) // 8)
        data = b"".join(z.compress(row) for _ in range(side)) + z.flush()

        def chunk(tag, body):
            return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))
        (d / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)) + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return f


def exif_jpeg(name):
    def f(d):
        exif = Image.Exif()
        exif[0x0112] = 6                        # turn by 90 degrees
        Image.new("RGB", (64, 32), (200, 30, 30)).save(d / name, exif=exif)
    return f


def sound(name, samples, channels=1, rate=32000):
    def f(d):
        with wave.open(str(d / name), "wb") as w:
            w.setnchannels(channels)
            w.setsampwidth(2)
            w.setframerate(rate)
            w.writeframes((np.sin(np.arange(samples * channels) * 0.05) * 9000).astype("<i2").tobytes())
    return f


def video(name, frames=30, size="64x48", rate=24, with_sound=False, cut=None):
    def f(d):
        cmd = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc=size={size}:rate={rate}"]
        if with_sound:
            cmd += ["-f", "lavfi", "-i", "sine=sample_rate=32000"]
        cmd += ["-frames:v", str(frames), "-t", str(frames / rate), "-c:v", "libx264", "-pix_fmt", "yuv420p", str(d / name)]
        subprocess.run(cmd, check=True, stdin=subprocess.DEVNULL)
        if cut:
            p = d / name
            p.write_bytes(p.read_bytes()[:cut])
    return f


def together(*setups):
    return lambda d: [s(d) for s in setups]


# ---------------------------------------------------------------------------------------------- the model's files
DIT, VAE, AUDIO = (f"{x}/diffusion_pytorch_model.safetensors" for x in ("transformer", "vae", "audio_vae"))
TEXT = "text_encoder/model.safetensors"
FILES = dict(dit=DIT, vae=VAE, audio=AUDIO, text=TEXT)


def model_cases():
    case("model: no such folder", MODEL, "nowhere", args=["--model", "{d}/nowhere"])
    case("model: a file that is no model", MODEL, "file.txt", setup=put("file.txt", "hello"), args=["--model", "{d}/file.txt"])
    case("model: an empty folder", MODEL, "empty", setup=lambda d: (d / "empty").mkdir(), args=["--model", "{d}/empty"])
    index = "modular_model_index.json"
    case("model: no index", MODEL, index, setup=remove(index))
    case("model: an index that is no JSON", MODEL, f"{index}.*JSON", setup=edit(index, lambda b: b[:50]))
    case("model: an index that is no object", MODEL, index, setup=edit(index, lambda b: b"[1, 2]"))
    case("model: an unknown pipeline", MODEL, "FluxPipeline", setup=set_key(index, "_class_name", "FluxPipeline"))
    case("model: an unknown transformer", MODEL, "WanTransformer3DModel", setup=set_key("transformer/config.json", "_class_name", "WanTransformer3DModel"))
    case("model: nested JSON", MODEL, "transformer/config.json", setup=edit("transformer/config.json", lambda b: b"[" * 200000))
    case("model: no transformer", MODEL, "transformer", setup=remove("transformer"))
    case("model: no scheduler", MODEL, "scheduler", setup=remove("scheduler"))
    for what, file in FILES.items():
        stem = Path(file).name
        case(f"{what}: weights missing", MODEL, str(Path(file).parent), setup=remove(file))
        case(f"{what}: weights empty", MODEL, f"{stem}.*bytes", setup=edit(file, lambda b: b""))
        case(f"{what}: weights truncated", MODEL, f"{stem}.*truncated", setup=edit(file, lambda b: b[:-100]))
        case(f"{what}: weights cut inside the header", MODEL, f"{stem}.*truncated", setup=edit(file, lambda b: b[:100]))
        case(f"{what}: weights padded", MODEL, f"{stem}.*7 bytes", setup=edit(file, lambda b: b + b"\0" * 7))
        case(f"{what}: a shard without its index", MODEL, "shard without its index",
             setup=lambda d, f=file: (d / "model" / f).rename((d / "model" / f).with_name(f"{Path(f).stem}-00001-of-00002.safetensors")))
    case("dit: a header length that lies", MODEL, "claims", setup=edit(DIT, lambda b: struct.pack("<Q", 2**62) + b[8:]))
    case("dit: a header that is no JSON", MODEL, "JSON|begin with", setup=edit(DIT, lambda b: b[:8] + b"?" * 200 + b[208:]))
    case("dit: a Git LFS pointer", MODEL, "Git LFS", setup=edit(DIT, lambda b: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"))

    def overlap(h):
        names = [k for k in h if k != "__metadata__"]
        first = min(names, key=lambda k: h[k]["data_offsets"])
        size = h[first]["data_offsets"][1]
        second = sorted(names, key=lambda k: h[k]["data_offsets"])[1]
        a, b = h[second]["data_offsets"]
        h[second]["data_offsets"] = [a - min(4, size), b - min(4, size)]
    case("dit: overlapping tensors", MODEL, "inside tensor", setup=edit_header(DIT, overlap))
    case("dit: a shape that lies", MODEL, "proj_in.weight.*wanted", setup=edit_header(DIT, lambda h: h["proj_in.weight"].__setitem__("shape", [64, 97])))
    case("dit: a shape that overflows", MODEL, "proj_in.weight", setup=edit_header(DIT, lambda h: h["proj_in.weight"].__setitem__("shape", [2**40, 2**40])))
    case("dit: a negative dimension", MODEL, "proj_in.weight", setup=edit_header(DIT, lambda h: h["proj_in.weight"].__setitem__("shape", [-64, -96])))
    case("dit: an unknown dtype", MODEL, "proj_in.weight.*Q4", setup=edit_header(DIT, lambda h: h["proj_in.weight"].__setitem__("dtype", "Q4")))
    case("dit: a wrong dtype", MODEL, "proj_in.weight.*I32", setup=edit_header(DIT, lambda h: h["proj_in.weight"].__setitem__("dtype", "I32")))

    def smaller(t):
        dtype, shape, raw = t["proj_in.weight"]
        t["proj_in.weight"] = [dtype, [shape[0] - 1, shape[1]], raw[:-shape[1] * 4]]
    case("dit: a wrong shape", MODEL, r"proj_in.weight.*\[63, 96\].*\[64, 96\]", setup=edit_tensors(DIT, smaller))
    case("dit: a missing tensor", MODEL, "proj_in.bias", setup=edit_tensors(DIT, lambda t: t.pop("proj_in.bias")))
    case("dit: a tensor that nobody knows", MODEL, "surprise.weight", setup=edit_tensors(DIT, lambda t: t.__setitem__("surprise.weight", ["F32", [1], b"\0" * 4])))
    case("vae: a missing tensor", MODEL, "decoder.proj_out.bias", setup=edit_tensors(VAE, lambda t: t.pop("decoder.proj_out.bias")))
    case("audio: a missing tensor", MODEL, "dec_in_proj.bias", setup=edit_tensors(AUDIO, lambda t: t.pop("dec_in_proj.bias")))
    case("text: a missing tensor", MODEL, "layers.7.mlp.up_proj.weight", setup=edit_tensors(TEXT, lambda t: t.pop("model.language_model.layers.7.mlp.up_proj.weight")))
    nan, inf = float("nan"), float("inf")
    case("dit: NaN weights", MODEL, "NaN|nan|finite", setup=edit_tensors(DIT, poison(r"transformer_blocks\.1\.attn\.to_v\.weight", nan)))
    case("dit: infinite weights", MODEL, "[Ii]nf|finite", setup=edit_tensors(DIT, poison(r"proj_out\.weight", inf)))
    case("vae: NaN weights", MODEL, "NaN|nan|finite", setup=edit_tensors(VAE, poison(r"decoder\.proj_out\.weight", nan)))
    case("audio: NaN weights", MODEL, "NaN|nan|finite", setup=edit_tensors(AUDIO, poison(r"dec_in_proj\.weight", nan)))
    case("text: NaN weights", MODEL, "NaN|nan|finite", setup=edit_tensors(TEXT, poison(r"model\.language_model\.layers\.3\.self_attn\.o_proj\.weight", nan)))


def config_cases():
    for file, key in (("transformer/config.json", "num_layers"), ("transformer/config.json", "hidden_size"), ("vae/config.json", "block_out_channels"),
                      ("vae/config.json", "latents_mean"), ("audio_vae/config.json", "decoder_rates"), ("audio_vae/config.json", "latent_dim"),
                      ("scheduler/scheduler_config.json", "shift")):
        where, part = f"{file}: {key}", re.escape(key)
        case(f"config: {where} missing", MODEL, part, setup=drop_key(file, key))
        case(f"config: {where} a string", MODEL, part, setup=set_key(file, key, "many"))
        case(f"config: {where} negative", MODEL, part, setup=set_key(file, key, -3))
        case(f"config: {where} huge", MODEL, part, setup=set_key(file, key, 10**18))
        case(f"config: {where} zero", MODEL, part, setup=set_key(file, key, 0))
    for key in ("num_attention_heads", "attention_head_dim", "ffn_dim", "freq_dim", "rope_freq_dim", "time_embed_dim", "in_channels", "text_dim"):
        case(f"config: transformer {key} that the weights deny", MODEL, ".", setup=edit_json("transformer/config.json", lambda j, k=key: j.__setitem__(k, 2 * j[k])))
    case("config: no text_config", MODEL, "text_config", setup=drop_key("text_encoder/config.json", "text_config"))
    case("config: text heads that do not divide", MODEL, "attention heads",
         setup=edit_json("text_encoder/config.json", lambda j: j["text_config"].__setitem__("num_key_value_heads", 3)))
    case("config: too few text layers", MODEL, "num_hidden_layers|layer", setup=edit_json("text_encoder/config.json", lambda j: j["text_config"].__setitem__("num_hidden_layers", 20)))
    case("config: mrope sections that do not fit", MODEL, "mrope_section",
         setup=edit_json("text_encoder/config.json", lambda j: j["text_config"]["rope_scaling"].__setitem__("mrope_section", [40, 2, 2])))
    case("config: a latent deviation of zero", MODEL, "latents_std", setup=edit_json("vae/config.json", lambda j: j["latents_std"].__setitem__(3, 0)))
    case("config: too few latent means", MODEL, "latents_mean", setup=edit_json("vae/config.json", lambda j: j["latents_mean"].pop()))
    case("config: groups that do not divide", MODEL, "norm_num_groups", setup=set_key("vae/config.json", "norm_num_groups", 3))
    case("config: no config at all", MODEL, "vae/config.json", setup=remove("vae/config.json"))
    vocab, merges, tok = "tokenizer/vocab.json", "tokenizer/merges.txt", "tokenizer/tokenizer_config.json"
    case("tokenizer: no vocabulary", MODEL, "vocab.json|tokenizer", setup=remove(vocab))
    case("tokenizer: a vocabulary that is no JSON", MODEL, "vocab.json", setup=edit(vocab, lambda b: b[:-2]))
    case("tokenizer: a negative id", MODEL, "vocab.json", setup=edit_json(vocab, lambda j: j.__setitem__(next(iter(j)), -5)))
    case("tokenizer: an id beyond the embedding", MODEL, "vocab|embed|token", setup=edit_json(vocab, lambda j: j.__setitem__(next(iter(j)), 10**9)))
    case("tokenizer: merges of nothing known", MODEL, "merges.txt", setup=edit(merges, lambda b: b + b"\nq\xff\xfe zzzz\n"))
    case("tokenizer: no folder", MODEL, "tokenizer", setup=remove("tokenizer"))
    case("tokenizer: a configuration that is a list", MODEL, "tokenizer_config.json", setup=edit(tok, lambda b: b"[]"))


# ---------------------------------------------------------------------------------------------- the request
def prompt_cases():
    case("prompt: empty", REQUEST, "prompt", prompt="")
    case("prompt: missing", REQUEST, "prompt", prompt=None)
    case("prompt: 100,000 characters", REQUEST, "prompt.*100000|100000.*", prompt="word " * 20000)
    case("prompt: invalid UTF-8", REQUEST, "UTF-8", prompt=b"waves \xff\xfe and \xc3")
    case("prompt: an overlong form", REQUEST, "UTF-8", prompt=b"waves \xc0\xaf")
    case("prompt: a lone surrogate", REQUEST, "UTF-8", prompt=b"waves \xed\xa0\x80")
    case("prompt: NUL bytes", REQUEST, "NUL|zero byte|control", prompt=b"waves\0and gulls")
    case("prompt: file missing", REQUEST, "nothing.txt", prompt=None, args=["--prompt-file", "{d}/nothing.txt"])
    case("prompt: file is a folder", REQUEST, "model", prompt=None, args=["--prompt-file", "{d}/model"])
    case("prompt: all emoji", FINE, "", prompt="🙂🙂🏳️‍🌈👩‍👩‍👧‍👦🇩🇪")
    case("prompt: right to left", FINE, "", prompt="שלום עולם مرحبا بالعالم \u202eabc\u202c")
    case("prompt: pads of the vocabulary", (FINE, REQUEST), "image_pad|video_pad|prompt", prompt="<|vision_start|><|image_pad|><|vision_end|> <|video_pad|>")
    case("prompt: looks like an option", FINE, "", prompt="--help -o x")


def option_cases():
    case("options: unknown", REQUEST, "--colour", args=["--colour", "red"])
    case("options: size and short edge", REQUEST, "--size.*--short-edge|--short-edge.*--size", args=["--short-edge", "32"])
    case("options: size and aspect", REQUEST, "--size.*--aspect|--aspect.*--size", args=["--aspect", "16:9"])
    case("options: seconds and frames", REQUEST, "--seconds.*--frames|--frames.*--seconds", args=["--seconds", "1"])
    case("options: steps and evaluations", REQUEST, "--steps.*--evaluations|--evaluations.*--steps", args=["--evaluations", "3"])
    case("options: prompt and prompt file", REQUEST, "--prompt.*--prompt-file|--prompt-file.*--prompt", setup=put("p.txt", "x"), args=["--prompt-file", "{d}/p.txt"])
    picture_32 = picture("a.png")
    case("options: t2va with a first frame", REQUEST, "first", setup=picture_32, args=["--first-frame", "{d}/a.png"])
    case("options: fl2va without a frame", REQUEST, "first.*last|frame", task="fl2va")
    case("options: ref2va without a reference", REQUEST, "reference", task="ref2va")
    case("options: ref2va with a first frame", REQUEST, "first|frame", task="ref2va", setup=picture_32, args=["--first-frame", "{d}/a.png", "--reference", "{d}/a.png"])
    case("options: fl2va with a reference", REQUEST, "reference", task="fl2va", setup=picture_32, args=["--first-frame", "{d}/a.png", "--reference", "{d}/a.png"])
    case("options: unknown task", REQUEST, "task.*x2y|x2y", task="x2y")
    case("options: unknown plan", REQUEST, "plan|warp", args=["--plan", "warp"])
    case("options: a plan that is no JSON", (REQUEST, MODEL), "plan.json", setup=put("plan.json", "{"), args=["--plan", "{d}/plan.json"])
    case("options: a configuration that is no JSON", (REQUEST, MODEL), "c.json", setup=put("c.json", "{"), args=["--config", "{d}/c.json"])
    case("options: a configuration with an unknown key", (REQUEST, MODEL), "canvas_shrt", setup=put("c.json", '{"canvas_shrt": 3}'), args=["--config", "{d}/c.json"])
    case("options: a configuration with a negative canvas", (REQUEST, MODEL), "canvas_short_edge", setup=put("c.json", '{"canvas_short_edge": -3}'), args=["--config", "{d}/c.json"])
    case("options: no such configuration", (REQUEST, MODEL), "none.json", args=["--config", "{d}/none.json"])
    case("options: no such subcommand", REQUEST, ".", base=False, args=["fly"])
    case("options: nothing", (REQUEST, FINE), ".", base=False, args=[])
    for what, value in (("a word", "now"), ("negative", "-1"), ("fractional", "1.5"), ("beyond 64 bits", "99999999999999999999999")):
        case(f"seed: {what}", REQUEST, "seed", args=["--seed", value])
    for value in ("0", "1", "-3", "abc", "1000000000", "2.5", "nan"):
        case(f"steps: {value}", REQUEST, "steps", args=["--steps", value])
    for value in ("0", "-1", "1e9", "nan", "inf", "abc", "99999999999999999999"):
        case(f"seconds: {value}", REQUEST, "seconds", args=["--frames", "", "--seconds", value])
    for value in ("0", "-5", "379", "1000000000", "x", "99999999999999999999"):
        case(f"frames: {value}", REQUEST, "frames", args=["--frames", value])
    for value in ("-1", "abc", "1.5", "99999999999999999999", "1073741825"):
        case(f"memory: {value}", REQUEST, "memory", args=["--memory", value])
    case("memory: too little for one block", RESOURCE, "--memory is 8 MiB.*needs about.*every block.*--memory.*smaller", args=["--memory", "8"])
    case("memory: no limit", FINE, "", args=["--memory", "0"])
    for command in ("inspect", "doctor", "worker", "serve"):
        case(f"memory: -2 for {command}", REQUEST, "memory", base=False, output=None, args=[command, "--memory", "-2"])
    for value in ("33x64", "0x0", "-32x32", "32x", "x", "abc", "32x32x32", "1000000x1000000", "99999999999x32", "16x32"):
        case(f"size: {value}", REQUEST, "size", args=["--size", value])
    for value in ("0", "-3", "abc", "1000000000"):
        case(f"short edge: {value}", REQUEST, "short-edge", args=["--size", "", "--short-edge", value])
    for value in ("0:1", "16:0", "abc", "100:1", "1:-1", "nan:1"):
        case(f"aspect: {value}", REQUEST, "aspect", args=["--size", "", "--aspect", value])


def noise_file(change):
    def f(d):
        t = {"noise_video": np.zeros((1, 24, 7, 2, 2), np.float32), "noise_audio_rows": np.zeros((74, 32), np.float32)}
        change(t)
        save_file(t, d / "n.safetensors")
    return f


def output_cases():
    case("output: folder that does not exist", REQUEST, "none/out.mp4", output="none/out.mp4")
    case("output: a folder", REQUEST, "model", output="model")
    case("output: not writable", REQUEST, "/proc/out.mp4", output="/proc/out.mp4")
    case("output: none", (REQUEST, FINE), "-o|output", output=None)
    case("output: disk full", REQUEST, "out.mp4.*(full|large|space|write)|write.*out.mp4", limit=4096)
    case("output: trace in a folder that does not exist", REQUEST, "none/t.safetensors", args=["--trace", "{d}/none/t.safetensors"])
    bad = (REQUEST, MODEL)
    case("noise: no such file", bad, "none.safetensors", args=["--noise", "{d}/none.safetensors"])
    case("noise: no safetensors", bad, "n.safetensors", setup=put("n.safetensors", "hello there, not a tensor"), args=["--noise", "{d}/n.safetensors"])
    case("noise: wrong shape", bad, r"noise_video.*want", setup=noise_file(lambda t: t.__setitem__("noise_video", t["noise_video"][:, :, :5])), args=["--noise", "{d}/n.safetensors"])
    case("noise: wrong dtype", bad, r"noise_video", setup=noise_file(lambda t: t.__setitem__("noise_video", t["noise_video"].astype(np.int32))), args=["--noise", "{d}/n.safetensors"])
    case("noise: NaN", bad, r"noise_video.*(NaN|nan|finite)", setup=noise_file(lambda t: t["noise_video"].__setitem__((0, 0, 0, 0, 0), np.nan)), args=["--noise", "{d}/n.safetensors"])


def quantize_cases():
    def q(name, code, message, args, **more):
        case("quantize: " + name, code, message, base=False, output=None, args=["quantize", *args], **more)

    out = ["-o", "{d}/q"]
    q("unknown type", REQUEST, "Q9_9.*Q8_0", ["{d}/model", *out, "--type", "Q9_9"])
    q("no type", REQUEST, "--type", ["{d}/model", *out])
    q("no output", REQUEST, "--output", ["{d}/model", "--type", "Q8_0"])
    q("no such model", MODEL, "none", ["{d}/none", *out, "--type", "Q8_0"])
    q("a file for a model", MODEL, "config.json", ["{d}/config.json", *out, "--type", "Q8_0"])
    q("same in and out", REQUEST, "model.*already", ["{d}/model", "-o", "{d}/model", "--type", "Q8_0"])
    q("output there", REQUEST, "q.*already", ["{d}/model", *out, "--type", "Q8_0"], setup=lambda d: (d / "q").mkdir())
    q("output a link to nothing", REQUEST, "q.*already", ["{d}/model", *out, "--type", "Q8_0"], setup=lambda d: (d / "q").symlink_to("nothing"))
    q("output without a parent", REQUEST, "none.*make it first", ["{d}/model", "-o", "{d}/none/q", "--type", "Q8_0"])
    q("output's parent cannot be written", REQUEST, "/proc/q", ["{d}/model", "-o", "/proc/q", "--type", "Q8_0"])
    q("output in the model", REQUEST, "lies in the model", ["{d}/model", "-o", "{d}/model/q", "--type", "Q8_0"])
    q("output empty", REQUEST, "name of a folder", ["{d}/model", "-o", "", "--type", "Q8_0"])
    q("output a folder above", REQUEST, "already", ["{d}/model", "-o", "{d}/..", "--type", "Q8_0"])
    q("another is at work", REQUEST, r"\.q\.part", ["{d}/model", *out, "--type", "Q8_0"], setup=lambda d: (d / ".q.part").mkdir())
    q("a component that cannot be", REQUEST, "vae.*text_encoder", ["{d}/model", *out, "--type", "Q8_0", "--component", "vae"])
    q("a component that is not there", REQUEST, "transformer_ref", ["{d}/model", *out, "--type", "Q8_0", "--component", "transformer_ref"],
      setup=lambda d: shutil.rmtree(d / "model/transformer_ref"))
    q("weights cut short", MODEL, "diffusion_pytorch_model", ["{d}/model", *out, "--type", "Q8_0"], setup=edit("transformer/diffusion_pytorch_model.safetensors", lambda b: b[:-9]))
    q("weights of another config", MODEL, "transformer", ["{d}/model", *out, "--type", "fp8"], setup=set_key("transformer/config.json", "num_layers", 7))
    q("a link that leads back", REQUEST, "link", ["{d}/model", *out, "--type", "Q8_0"], setup=lambda d: (d / "model/up").symlink_to(d / "model"))
    def c(name, code, message, args, **more):
        case("convert: " + name, code, message, base=False, output=None, args=["convert", *args], **more)

    c("unknown layout", REQUEST, "sideways.*original", ["{d}/model", *out, "--layout", "sideways"])
    c("no layout", REQUEST, "--layout", ["{d}/model", *out])
    c("unknown type", REQUEST, "Q8_0.*BF16", ["{d}/model", *out, "--layout", "single", "--type", "Q8_0"])
    c("no such model", MODEL, "none", ["{d}/none", *out, "--layout", "single"])
    c("same in and out", REQUEST, "model.*already", ["{d}/model", "-o", "{d}/model", "--layout", "single"])
    c("output there", REQUEST, "q.*already", ["{d}/model", *out, "--layout", "single"], setup=lambda d: (d / "q").mkdir())
    c("output without a parent", REQUEST, "none.*make it first", ["{d}/model", "-o", "{d}/none/q", "--layout", "single"])
    c("output's parent cannot be written", REQUEST, "/proc/q", ["{d}/model", "-o", "/proc/q", "--layout", "single"])
    c("weights cut short", MODEL, "diffusion_pytorch_model", ["{d}/model", *out, "--layout", "original"], setup=edit("transformer/diffusion_pytorch_model.safetensors", lambda b: b[:-9]))
    c("config that is no JSON", MODEL, "config.json", ["{d}/model", *out, "--layout", "original"], setup=edit("transformer/config.json", lambda b: b"{"))
    c("disk full", REQUEST, "write|copied", ["{d}/model", *out, "--layout", "single"], limit=100000)
    q("disk full", REQUEST, "write|copied", ["{d}/model", *out, "--type", "F32"], limit=100000)


def media_cases():
    def first(name, code, message, setup, file):
        case(f"frame: {name}", code, message, task="fl2va", setup=setup, args=["--first-frame", "{d}/" + file])

    first("missing", REQUEST, "none.png", None, "none.png")
    first("no image", REQUEST, "a.png", put("a.png", "this is no picture at all, only words"), "a.png")
    first("empty", REQUEST, "a.png", put("a.png", ""), "a.png")
    first("a folder", REQUEST, "model", None, "model")
    first("a sound", REQUEST, "a.wav", sound("a.wav", 8000), "a.wav")
    first("truncated", REQUEST, "a.png", together(lambda d: Image.effect_noise((64, 64), 90).save(d / "a.png"), lambda d: (d / "a.png").write_bytes((d / "a.png").read_bytes()[:900])), "a.png")
    first("20,000 x 20,000", REQUEST, "a.png.*20000", big_png("a.png", 20000), "a.png")
    first("a size that lies", REQUEST, "a.png", together(big_png("a.png", 64), lambda d: (d / "a.png").write_bytes(
        (lambda b: b[:16] + struct.pack(">II", 2**31 - 1, 2**31 - 1) + b[24:])((d / "a.png").read_bytes()))), "a.png")
    first("1x1", (REQUEST, FINE), "a.png", picture("a.png", (1, 1)), "a.png")
    first("CMYK", (REQUEST, FINE), "a.jpg", picture("a.jpg", (64, 64), "CMYK"), "a.jpg")
    first("alpha", (REQUEST, FINE), "a.png", picture("a.png", (64, 64), "RGBA"), "a.png")
    first("palette", FINE, "", picture("a.png", (64, 64), "P"), "a.png")
    first("grey with 16 bits", FINE, "", picture("a.png", (64, 64), "I;16"), "a.png")
    first("EXIF rotation", (REQUEST, FINE), "a.jpg", exif_jpeg("a.jpg"), "a.jpg")

    def reference(name, code, message, setup, *files):
        args = [x for f in files for x in ("--reference", "{d}/" + f)]
        case(f"reference: {name}", code, message, task="ref2va", setup=setup, args=args)

    a = picture("a.png", (48, 40))
    reference("missing", REQUEST, "none.mp4", None, "none.mp4")
    reference("no medium", REQUEST, "a.txt", put("a.txt", "words"), "a.txt")
    reference("a video without sound", FINE, "", video("a.mp4"), "a.mp4")
    reference("a video with sound", FINE, "", video("a.mp4", with_sound=True), "a.mp4")
    reference("a sound alone", REQUEST, "audio|sound", sound("a.wav", 16000), "a.wav")
    reference("a sound beside a picture", FINE, "", together(a, sound("a.wav", 16000)), "a.png", "a.wav")
    reference("a sound at 44.1 kHz", FINE, "", together(a, sound("a.wav", 16000, 2, 44100)), "a.png", "a.wav")
    reference("a sound of no length", REQUEST, "a.wav", together(a, sound("a.wav", 0)), "a.png", "a.wav")
    reference("a video of no length", REQUEST, "a.mp4", put("a.mp4", ""), "a.mp4")
    reference("a truncated video", REQUEST, "a.mp4", video("a.mp4", cut=600), "a.mp4")
    reference("a short video", REQUEST, "a.mp4|frames", video("a.mp4", frames=3), "a.mp4")
    reference("ten pictures", REQUEST, "9|pictures|images", together(a), *["a.png"] * 10)
    reference("four videos", REQUEST, "3|videos", video("a.mp4"), *["a.mp4"] * 4)
    reference("a picture of 8:1", REQUEST, "256x32", picture("a.png", (256, 32)), "a.png")


# ---------------------------------------------------------------------------------------------- running them
def command(exe, c, d):
    args = [a.replace("{d}", str(d)) for a in c["args"]]
    if not c["base"]:
        return [exe, *args]
    options = {"--model": str(d / "model"), "--config": str(d / "config.json"), "--task": c["task"], "--steps": "2", "--frames": "22", "--size": "32x32"}
    extra = []
    for key, value in zip(args[::2], args[1::2]):
        # an empty value takes a default of this table away, another one replaces it, everything else is added
        if value == "":
            options.pop(key)
        elif key in options and key != "--reference":
            options[key] = value
        else:
            extra += [key, value]
    cmd = [exe, "generate"]
    if isinstance(c["prompt"], str) and len(c["prompt"]) < 1000:
        cmd += ["--prompt=" + c["prompt"]]
    elif c["prompt"] is not None:
        (d / "prompt.txt").write_bytes(c["prompt"] if isinstance(c["prompt"], bytes) else c["prompt"].encode())
        cmd += ["--prompt-file", str(d / "prompt.txt")]
    for key, value in options.items():
        cmd += [f"{key}={value}"]
    for key, value in zip(extra[::2], extra[1::2]):
        cmd += [f"{key}={value}"]
    if c["output"]:
        cmd += ["-o", str(d / c["output"])]
    return cmd


def limited(bytes_):
    """A file-size limit stands for a full disk: writes fail with an error once it is reached."""
    def f():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
    return f


def listing(d):
    return {str(p.relative_to(d)) for p in d.rglob("*")}


def verdict(exe, c, d, config):
    """Nothing if the case went as it should, else what was wrong."""
    subprocess.run(["cp", "-al", GOLDEN / "model", d / "model"], check=True)
    (d / "config.json").write_text(json.dumps(config))
    if c["setup"]:
        c["setup"](d)
    cmd = command(exe, c, d)
    before = listing(d)
    try:
        run = subprocess.run(cmd, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, cwd=d, env={**os.environ, "ZT_THREADS": "1", **c["env"]},
                             preexec_fn=limited(c["limit"]) if c["limit"] else None)
    except subprocess.TimeoutExpired:
        return f"no end after {TIMEOUT} s"
    said = run.stderr.decode("utf-8", "replace")
    last = " / ".join(said.strip().splitlines()[-2:])[-300:]
    if re.search(r"AddressSanitizer|LeakSanitizer|runtime error:|terminate called|Assertion", said):
        return "crash: " + "".join(said.strip().splitlines()[:3])[:300]
    if run.returncode not in c["codes"]:
        return f"exit {run.returncode}, wanted {' or '.join(map(str, c['codes']))}: {last}"
    made = {x for x in listing(d) - before if not x.endswith("prompt.txt")}
    if run.returncode == 0:
        return "" if not c["output"] or (d / c["output"]).stat().st_size > 1000 else "no output"
    if made:
        return f"left {sorted(made)}"
    if not re.search(c["message"], said, re.S):
        return f"the message does not name {c['message']!r}: {last}"
    return ""


def main():
    exe = str(Path(sys.argv[1]).resolve())
    part = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    config = json.loads((GOLDEN / "cases.json").read_text())["config"]
    for group in (model_cases, config_cases, prompt_cases, option_cases, output_cases, quantize_cases, media_cases):
        group()

    def one(c):
        d = Path(tempfile.mkdtemp(prefix="zt_bad_", dir=BASE))
        try:
            return verdict(exe, c, d, config)
        except Exception as e:                       # the case itself is broken: that is a failure too
            return f"{type(e).__name__}: {e}"
        finally:
            shutil.rmtree(d, ignore_errors=True)

    chosen = [c for c in CASES if part in c["name"]]
    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parent.parent / "build") as base:
        global BASE                                  # beside the model, so that hard links work
        BASE = base
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            results = list(pool.map(one, chosen))
    for c, problem in zip(chosen, results):
        if problem:
            print(f"FAIL {c['name']}: {problem}")
    failed = sum(map(bool, results))
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
