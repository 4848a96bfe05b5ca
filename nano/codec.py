"""The fixed linear latent spaces: 24 components of 4x16x16x3 pixel patches, 32 components of 800-sample audio frames.

They follow H3's own chunking: latent 0 of every 17-frame chunk is its first frame four times, then four frames a latent.
Because the latents never move, the transformer, both decoders and the encoders train independently and at once."""
import os
import numpy as np
import torch
from safetensors.torch import load_file
import world as D

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.environ.get("H3NANO_DIR", os.path.join(os.getcwd(), "h3-nano-work"))
MEAN = torch.tensor((0.485, 0.456, 0.406))                    # of the pixels H3's video VAE sees
STD = torch.tensor((0.229, 0.224, 0.225))
PC = load_file(os.path.join(HERE, "basis.safetensors"))       # mu [3072], V [3072, 24], vs [24], A [800, 32], as [32]
W24 = (PC["V"] / PC["vs"]).contiguous()
B24 = PC["mu"] @ W24
W32 = (PC["A"] / PC["as"]).contiguous()


def norm(v):
    """uint8 or 0..255 float [..., 3] -> normalised float."""
    v = torch.from_numpy(v) if isinstance(v, np.ndarray) else v
    return (v.float() / 255 - MEAN) / STD


def patches(x):
    """[n, 4, H, W, 3] -> [n, h, w, 3072] in the decoder's (c, t, y, x) order."""
    n, _, H, W, _ = x.shape
    return x.reshape(n, 4, H // 16, 16, W // 16, 16, 3).permute(0, 2, 4, 6, 1, 3, 5).reshape(n, H // 16, W // 16, 3072)


def groups(F):
    """Frame numbers of each latent, F = 17 n + 5 -> [5 n + 2, 4]."""
    out = []
    for f in range(0, F, 17):
        c = [f] * 3 + list(range(f, min(F, f + 17)))
        out += [c[i:i + 4] for i in range(0, len(c) // 4 * 4, 4)]
    return np.array(out)


def encode(x):
    """x [B, F, H, W, 3] normalised, F = 17 n + 5 -> [B, L, h, w, 24]."""
    g = groups(x.shape[1])
    return torch.stack([patches(x[b][torch.from_numpy(g)].flatten(0, 0)) @ W24 - B24 for b in range(x.shape[0])])


def encode_audio(a):
    """[..., 800 n] -> [..., n, 32]."""
    return torch.as_tensor(a).unflatten(-1, (-1, 800)) @ W32


def decode_audio(z):
    return ((z * PC["as"]) @ PC["A"].T).flatten(-2)


def decode(z):
    """Linear reconstruction [B, L, h, w, 24] -> normalised [B, F, H, W, 3] (only to look at)."""
    p = z.float() * PC["vs"] @ PC["V"].T + PC["mu"]
    B, L, h, w, _ = p.shape
    x = p.view(B, L, h, w, 3, 4, 16, 16).permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(B, 4 * L, h * 16, w * 16, 3)
    return x[:, [t for k in range(L) for t in (range(4 * k + 3, 4 * k + 4) if k % 5 == 0 else range(4 * k, 4 * k + 4))]]


_bg = {}


def clip_latents(m, g, h=D.H, w=D.W):
    """Latents of one clip, only the patches that the shape touches are drawn. g: frame numbers [L, 4] -> [L, h/16, w/16, 24]."""
    floor = m["motion"] == "bounce"
    k = (m["bg"], floor, h, w)
    if k not in _bg:
        im = D.background(m["bg"], floor, h, w)
        _bg[k] = (patches(norm(np.broadcast_to(im, (1, 4, *im.shape)).copy())) @ W24 - B24)[0]
    im = D.background(m["bg"], floor, h, w)
    x, y, s, a = D.path(m, g / D.FPS, w / h)
    out = _bg[k][None].repeat(len(g), 1, 1, 1)
    for i in range(len(g)):
        R = D.SIZES[m["size"]] * h * s[i].max() * 1.2 + 2
        y0, y1 = int(np.floor((y[i].min() * h - R) / 16)), int(np.ceil((y[i].max() * h + R) / 16))
        x0, x1 = int(np.floor((x[i].min() * h - R) / 16)), int(np.ceil((x[i].max() * h + R) / 16))
        y0, y1, x0, x1 = max(0, y0), min(h // 16, y1), max(0, x0), min(w // 16, x1)
        if y0 >= y1 or x0 >= x1:
            continue
        j = slice(0, 1) if (g[i] == g[i, 0]).all() else slice(0, 4)
        p = np.broadcast_to(im[y0 * 16:y1 * 16, x0 * 16:x1 * 16], (j.stop, (y1 - y0) * 16, (x1 - x0) * 16, 3)).copy()
        D.draw(p, m, x[i, j], y[i, j], s[i, j], a[i, j], y0 * 16, x0 * 16, h)
        p = norm(p)
        out[i, y0:y1, x0:x1] = (patches(p.expand(4, -1, -1, -1)[None] if j.stop == 1 else p[None]) @ W24 - B24)[0]
    return out
