"""Writes the spellings of MiniMax-H3 checkpoints that people have, from a folder in the diffusers layout (NumPy only; tests/checkpoints.py).
A tensor is (dtype of safetensors, array of that width); BF16 is uint16, F8_E4M3 is uint8. Facts: tests/golden/a/README.md and docs/checkpoints.md."""
import json
import re
import shutil
import struct

import numpy as np

NUMPY = {"F64": "<f8", "I32": "<i4", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "I8": "i1", "I16": "<i2", "U8": "u1", "I64": "<i8"}


def linked(model, folder, component):
    """A folder of links to the model's parts, with an empty folder in place of one component."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for p in model.iterdir():
        if p.name != component:
            (folder / p.name).symlink_to(p)
    (folder / component).mkdir()
    return folder


def load(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        a, b = t["data_offsets"]
        out[name] = (t["dtype"], np.frombuffer(raw[8 + n + a:8 + n + b], NUMPY[t["dtype"]]).reshape(t["shape"]))
    return out


def save(path, tensors, metadata=None):
    head, data, at = ({"__metadata__": metadata} if metadata else {}), [], 0
    for name, (dtype, a) in tensors.items():
        b = np.ascontiguousarray(a, NUMPY[dtype]).tobytes()
        head[name] = {"dtype": dtype, "shape": list(np.shape(a)), "data_offsets": [at, at + len(b)]}
        data.append(b)
        at += len(b)
    text = json.dumps(head).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def e4m3_values():
    code = np.arange(256)
    sign, e, m = np.where(code & 128, -1.0, 1.0), code >> 3 & 15, code & 7
    v = np.where(e, (8 + m) / 8.0 * 2.0 ** (e - 7.0), m / 8.0 * 2.0 ** -6)
    return np.where((code & 127) == 127, np.nan, sign * v).astype(np.float32)


E4M3 = e4m3_values()
E2M1 = np.float32([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])


def nearest(x, values):
    """Index of the nearest of `values` (all finite), for each of x."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    i = np.clip(np.searchsorted(v, x), 1, len(v) - 1)
    return order[i - (x - v[i - 1] < v[i] - x)]


def widen(t):
    dtype, a = t
    if dtype == "BF16":
        return (a.astype(np.uint32) << 16).view(np.float32)
    return E4M3[a] if dtype == "F8_E4M3" else a.astype(np.float32)


def to_bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


DIT = [("token_refiner.refiner_blocks.", "token_refiner.blocks."), ("transformer_blocks.", "blocks."), ("time_embedder.linear_1.", "time_embedder.proj_in."),
       ("time_embedder.linear_2.", "time_embedder.proj_out."), ("context_embedder.", "condition_proj."), ("norm_out.norm.", "final_layer.norm."),
       ("norm_out.linear.", "final_layer.adaln_proj.linear."), (".attn.norm_q.", ".attn.q_norm."), (".attn.norm_k.", ".attn.k_norm."),
       (".attn.to_out.0.", ".attn.out_proj."), (".ff.net.2.", ".mlp.fc2."), (".ff.net.0.proj.", ".mlp.fc1.")]
ENDS = [("audio_proj_in.", "audio_patch_proj."), ("audio_proj_out.", "final_layer.audio_out."), ("proj_in.", "video_patch_proj."), ("proj_out.", "final_layer.video_out.")]


def by_head(parts, heads):
    return np.concatenate([p.reshape(heads, -1, *p.shape[1:]) for p in parts], 1).reshape(-1, *parts[0].shape[1:])


def swap(a):
    return np.concatenate([a[len(a) // 2:], a[:len(a) // 2]])


def original_dit(sd, cfg, interleave):
    """Names of the released shards; q, k, v head by head (there) or stacked (the graph editors' files and GGUF)."""
    out = {}
    for name, (dtype, a) in sd.items():
        new = name
        for x, y in DIT:
            new = new.replace(x, y)
        for x, y in ENDS:
            if name.startswith(x):
                new = y + name[len(x):]
        if ".attn.to_k." in name or ".attn.to_v." in name:
            continue
        if ".attn.to_q." in name:
            parts = [sd[name.replace("to_q", p)][1] for p in ("to_q", "to_k", "to_v")]
            a = by_head(parts, cfg["num_attention_heads"]) if interleave else np.concatenate(parts)
            new = new.replace("to_q", "qkv_proj")
        if ".mlp.fc1." in new:
            a = swap(a)
        out[new] = (dtype, a)
    f = cfg["rope_freq_dim"]
    out["rope.inv_freq"] = ("F32", (1.0 / cfg["rope_theta"] ** (np.arange(0, 2 * f, 2) / (2 * f))).astype(np.float32))
    return out


def diffusers_dit(sd, heads):
    """The other way round, of stacked q, k, v."""
    out = {}
    for name, (dtype, a) in sd.items():
        new = name
        for x, y in ENDS:
            if name.startswith(y):
                new = x + name[len(y):]
        for x, y in DIT:
            if y in ("blocks.", "token_refiner.blocks."):
                new = x + new[len(y):] if new.startswith(y) else new
            else:
                new = new.replace(y, x)
        if name == "rope.inv_freq":
            continue
        if ".mlp.fc1." in name:
            a = swap(a)
        if ".qkv_proj." in name:
            for p, part in zip(("to_q", "to_k", "to_v"), np.split(a, 3)):
                out[new.replace("qkv_proj", p)] = (dtype, part)
        else:
            out[new] = (dtype, a)
    return out


QUANTISED = re.compile(r"(blocks\.\d+\.(attn\.qkv_proj|attn\.out_proj|mlp\.fc1|mlp\.fc2))\.weight")


def quantised(sd, how):
    """`how`(base, values) -> (tensors of the file, values that they stand for), for the matrices that the published files quantise."""
    file, means = {}, {}
    for name, t in sd.items():
        m = QUANTISED.fullmatch(name)
        if m:
            tensors, values = how(m[1], widen(t))
            file.update(tensors)
            means[name] = ("F32", values.astype(np.float32))
        else:
            file[name] = means[name] = t
    return file, means


def comfy(base, **q):
    return {base + ".comfy_quant": ("U8", np.frombuffer(json.dumps(q).encode(), np.uint8))}


def fp8(base, w):
    s = np.float32(np.abs(w).max() / 448)
    finite = np.nan_to_num(E4M3, nan=1e9)
    code = nearest(w / s, finite).astype(np.uint8)
    file = {base + ".weight": ("F8_E4M3", code), base + ".weight_scale": ("F32", s), **comfy(base, format="float8_e4m3fn")}
    if not base.endswith("fc2"):
        file[base + ".input_scale"] = ("F32", np.float32(1))
    return file, E4M3[code] * s


def hadamard(n):
    h4 = np.float64([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]])
    h = h4
    while len(h) < n:
        h = np.kron(h, h4)
    return h / np.sqrt(n)


def int8(group):
    def how(base, w):
        h = hadamard(group) if group else np.eye(1)
        turn = lambda x: (x.astype(np.float64).reshape(len(x), -1, len(h)) @ h).reshape(x.shape)
        turned = turn(w)
        s = (np.abs(turned).max(1, keepdims=True) / 127).astype(np.float32)
        code = np.clip(np.rint(turned / s), -127, 127).astype(np.int8)
        more = dict(convrot=True, convrot_groupsize=group) if group else {}
        return {base + ".weight": ("I8", code), base + ".weight_scale": ("F32", s), **comfy(base, format="int8_tensorwise", **more)}, turn(code * s)
    return how


def nvfp4(base, w):
    rows, groups = len(w), w.shape[1] // 16
    s2 = np.float32(np.abs(w).max() / (6 * 448))
    g = w.reshape(rows, groups, 16)
    finite = np.nan_to_num(E4M3, nan=1e9)
    scale = nearest(np.abs(g).max(2) / 6 / s2, finite).astype(np.uint8)
    each = E4M3[scale] * s2
    code = nearest(g / np.where(each == 0, 1, each)[..., None], E2M1).astype(np.uint8).reshape(rows, -1)
    tiled = np.zeros(((rows + 127) // 128 * 128, (groups + 3) // 4 * 4), np.uint8)
    tiled[:rows, :groups] = scale
    tiled = tiled.reshape(len(tiled) // 128, 4, 32, tiled.shape[1] // 4, 4).transpose(0, 3, 2, 1, 4).reshape(tiled.shape)
    file = {base + ".weight": ("U8", code[:, 0::2] << 4 | code[:, 1::2]), base + ".weight_scale": ("F8_E4M3", tiled), base + ".weight_scale_2": ("F32", s2),
            **comfy(base, format="nvfp4")}
    return file, (E2M1[code].reshape(g.shape) * each[..., None]).reshape(w.shape)


def curve(sd, points=1025, rank=8):
    """The time embedding as a table of `points` rows, factored by an SVD: no time embedder, no silu at run time."""
    silu = lambda x: x / (1 + np.exp(-x))
    w1, b1, w2, b2 = (widen(sd[f"time_embedder.{n}"]).astype(np.float64) for n in ("proj_in.weight", "proj_in.bias", "proj_out.weight", "proj_out.bias"))
    half = w1.shape[1] // 2
    a = np.linspace(0, 1, points)[:, None] * np.exp(-np.log(10000.0) * np.arange(half) / half)
    grid = silu(silu(np.concatenate([np.cos(a), np.sin(a)], 1) @ w1.T + b1) @ w2.T + b2)
    v = np.linalg.svd(grid, full_matrices=False)[2][:rank].T
    out = {k: t for k, t in sd.items() if not k.startswith("time_embedder.")}
    out["adaln_t_table"] = ("F32", (grid @ v).astype(np.float32))
    for k in list(out):
        if k.endswith("adaln_proj.linear.weight"):
            out[k] = ("BF16", to_bf16(widen(out[k]).astype(np.float64) @ v))
    return out


def gguf_file(path, sd, of, random):
    """A GGUF file by the package `gguf`; matrices of blocks in type `of`. Returns what its own decoder says the values are."""
    import gguf
    kind = gguf.GGMLQuantizationType[of]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    writer, means = gguf.GGUFWriter(str(path), "wan"), {}
    for name, t in sd.items():
        w = widen(t)
        if not QUANTISED.fullmatch(name) or w.size % values:
            writer.add_tensor(name, w)
            means[name] = ("F32", w)
            continue
        shape = w.shape
        if shape[1] % values:       # rows that are no whole blocks are folded
            writer.add_array(f"comfy.gguf.orig_shape.{name}", [int(d) for d in shape])
            w = w.reshape(-1, values)
        try:
            coded = gguf.quants.quantize(w, kind)
        except NotImplementedError:      # the package only decodes these: any codes will do, with scales of the weights' size
            coded = random.integers(0, 256, (len(w), w.shape[1] // values * size), np.uint8)
            block = coded.reshape(-1, size)
            where = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}[of]
            for at in where:
                block[:, at:at + 2] = np.full(len(block), np.float16(2e-4 * float(np.abs(w).max())), np.float16)[:, None].view(np.uint8)
        writer.add_tensor(name, coded, raw_dtype=kind)
        means[name] = ("F32", gguf.quants.dequantize(coded, kind).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return means


def original_vae(sd, heads):
    out = {}
    for name, (dtype, a) in sd.items():
        if ".attn.to_k." in name or ".attn.to_v." in name:
            continue
        new = name
        for x, y in (("down_blocks.", "down."), (".resnets.", ".block."), (".downsamplers.0.", ".downsample."), ("conv_shortcut", "nin_shortcut"),
                     ("decoder.proj_in.", "decoder.x_embedder."), ("attn.to_out.0.", "attn.to_out."), ("ff.net.2.", "ff.w2."), ("ff.net.0.proj.", "ff.w1."),
                     ("attn.to_q.", "attn.to_qkv.")):
            new = new.replace(x, y)
        if ".attn.to_q." in name:
            a = by_head([sd[name.replace("to_q", p)][1] for p in ("to_q", "to_k", "to_v")], heads)
        if ".ff.w1." in new:
            a = swap(a)
        out[new] = (dtype, a)
    out["decoder.mask_token"] = ("F32", np.zeros((1, 1, 4), np.float32))
    return out


def folded_audio(sd, cfg):
    """Weight norm multiplied out, mean and deviation of the latents as tensors."""
    out = {}
    for name, (dtype, a) in sd.items():
        if name.endswith(".weight_g"):
            continue
        if name.endswith(".weight_v"):
            v = widen((dtype, a)).astype(np.float64)
            g = widen(sd[name[:-1] + "g"]).astype(np.float64)
            out[name[:-2]] = ("F32", (g * v / np.sqrt((v * v).sum((1, 2), keepdims=True))).astype(np.float32))
        else:
            out[name] = (dtype, a)
    for key in ("latents_mean", "latents_std"):
        out[key] = ("F32", np.float32(cfg[key]))
    return out


def editors_text(sd, layers):
    """Cut after the layer that H3 reads, a level of the path left out."""
    out = {}
    for name, t in sd.items():
        m = re.match(r"model\.language_model\.layers\.(\d+)\.", name)
        if (m and int(m[1]) >= layers) or name in ("lm_head.weight", "model.language_model.norm.weight"):
            continue
        out[name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")] = t
    return out


def lora_layers(sd, random):
    """Random factors for some layers of a diffusers transformer, of ranks that differ: name -> (down [r, in], up [out, r])."""
    out, rank = {}, 2
    for name, t in sd.items():
        if re.match(r"transformer_blocks\.\d+\.(attn\.to_[qkv]|attn\.to_out\.0|ff\.net|adaln)|token_refiner\.refiner_blocks\.0\.ff|proj_out", name) and name.endswith(".weight"):
            rank = rank % 5 + 2
            rows, width = t[1].shape
            out[name[:-7]] = (random.standard_normal((rank, width)).astype(np.float32) * 0.1, random.standard_normal((rows, rank)).astype(np.float32) * 0.1)
    return out


def original_layer(name):
    for x, y in ENDS:
        if name.startswith(x[:-1]) and "." not in name:
            return y[:-1]
    for x, y in DIT:
        name = (name + ".").replace(x, y)[:-1]
    return name


def original_loras(layers, heads):
    """The same over the released names: q, k and v share one product of their joined factors; `heads` puts the rows head by head."""
    out = {}
    for name, (down, up) in layers.items():
        if name.endswith((".to_k", ".to_v")):
            continue
        if name.endswith(".to_q"):
            parts = [layers[name[:-1] + p] for p in "qkv"]
            down = np.concatenate([a for a, _ in parts])
            block, at = np.zeros((3, len(up), len(down)), np.float32), 0
            for i, (a, b) in enumerate(parts):
                block[i, :, at:at + len(a)] = b
                at += len(a)
            up = by_head(list(block), heads) if heads else np.concatenate(list(block))
            name = name.replace("to_q", "qkv_proj")
        if name.endswith("ff.net.0.proj"):
            up = swap(up)
        out[original_layer(name)] = (down, up)
    return out


def named(layers, prefix, down, up, alpha=None, flat=False):
    file = {}
    for name, (a, b) in layers.items():
        base = prefix + (name.replace(".", "_") if flat else name)
        file[base + down], file[base + up] = ("F32", a), ("F32", b)
        if alpha is not None:
            file[base + ".alpha"] = ("F32", np.float32(alpha))
    return file


def merged(sd, layers, strength, alpha=None):
    """base + strength alpha / r B A, as PEFT merges; alpha None: r."""
    out = dict(sd)
    for name, (a, b) in layers.items():
        scale = strength * (1 if alpha is None else alpha / len(a))
        out[name + ".weight"] = ("F32", (widen(out[name + ".weight"]).astype(np.float64) + scale * b.astype(np.float64) @ a).astype(np.float32))
    return out
