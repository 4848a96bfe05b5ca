"""The two VAEs of H3-nano on the fixed linear latents, with starts that are linear already, and fast training forwards."""
import math
import numpy as np
import torch
import torch.nn.functional as F
import codec as C
from h3 import RMS, sdpa

VAE = dict(in_channels=3, out_channels=3, latent_channels=24, block_out_channels=[8, 16, 32, 64, 64, 64], layers_per_block=1,
           spatial_downsample_factors=[2, 2, 2, 2, 1, 1], temporal_downsample_factors=[1, 2, 2, 1, 1, 1], norm_num_groups=4,
           norm_eps=1e-06, spatial_padding_mode="reflect", decoder_num_layers=5, decoder_num_attention_heads=6,
           decoder_attention_head_dim=32, decoder_num_register_tokens=4, decoder_ffn_mult=4, decoder_rope_theta=100.0,
           decoder_rope_dim_ratio=0.75, decoder_norm_eps=1e-05, clip_length=17, token_drop=3,
           latents_mean=[0.0] * 24, latents_std=[1.0] * 24)
AUDIO = dict(encoder_dim=4, encoder_rates=[2, 4, 4, 5, 5], latent_dim=128, latent_channels=32, num_attention_heads=2, decoder_dim=64,
             decoder_rates=[10, 10, 8], decoder_kernel_sizes=[20, 20, 16], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1]],
             sampling_rate=32000, latents_mean=[0.0] * 32, latents_std=[1.0] * 32)
LOGVAR = -14.0


def make_video():
    from diffusers import AutoencoderKLMiniMaxH3
    v = AutoencoderKLMiniMaxH3(**VAE)
    v.disable_tiling()
    with torch.no_grad():
        linear_decoder(v)
        linear_encoder(v)
    return v


def linear_decoder(v):
    """Residual stream = [24 latents | 40 constants that keep the last LayerNorm near-linear | free features of z]."""
    d, dim, c, nc = v.decoder, 192, 8., 40
    d.register_tokens.normal_(0, .02)
    v.post_quant_conv.weight.copy_(torch.eye(24).view(24, 24, 1, 1, 1))
    v.post_quant_conv.bias.zero_()
    d.proj_in.weight.zero_()
    d.proj_in.weight[:24] = torch.eye(24)
    d.proj_in.weight[24 + nc:] = torch.randn(dim - 24 - nc, 24) * .2
    d.proj_in.bias.zero_()
    d.proj_in.bias[24:24 + nc] = c * torch.where(torch.arange(nc) % 2 == 0, 1., -1.)
    g = math.sqrt((nc * c * c + 150) / dim)
    d.proj_out.weight.mul_(.3)
    d.proj_out.weight[:, :24] = C.PC["V"] * C.PC["vs"] * g
    d.proj_out.weight[:, 24:24 + nc] = 0
    d.proj_out.bias.copy_(C.PC["mu"])
    for b in d.transformer_blocks:
        for n in (b.norm1, b.norm2):
            n.weight.fill_(g)
            n.weight[24:24 + nc] = .1
        b.scale1.fill_(.5)
        b.scale2.fill_(.5)


def linear_encoder(v):
    """Strided convolutions that carry out the 24 projections of one picture: a tree of 2x2 merges, truncated by SVD to the
    channels at hand. The residual branches start at zero. The last GroupNorm and SiLU are kept near-linear by constants."""
    e, ch = v.encoder, VAE["block_out_channels"]
    for n, p in e.named_parameters():
        if "conv" in n and ("shortcut" in n or "downsamplers" in n or "conv2" in n or n.split(".")[0] in ("conv_in", "conv_out")):
            p.zero_()
    W = C.W24.T.reshape(24, 3, 4, 16, 16).sum(2)              # one picture = four equal frames
    T, k = W, [3, 8, 16, 32, 64]
    e.conv_in.weight[:3, :, -1, 1, 1] = torch.eye(3)
    for l in range(4):
        o, c, n, _ = T.shape
        blk = T.view(o, c, n // 2, 2, n // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, c * 4)      # rows: what is asked of a 2x2 block
        U = torch.linalg.svd(blk, full_matrices=False)[2][:k[l + 1]]                                # orthonormal rows
        b = e.down_blocks[l]
        r = b.resnets[0]
        if r.conv_shortcut is not None:
            r.conv_shortcut.weight[:c, :c, 0, 0, 0] = torch.eye(c)
        b.downsamplers[0].conv.weight[:len(U), :c, -1, :2, :2] = U.view(-1, c, 2, 2)
        T = (blk @ U.T).view(o, n // 2, n // 2, len(U)).permute(0, 3, 1, 2)
    last = T.reshape(24, -1)                                   # [24, 64]
    # every constant is exact in bfloat16 (32.25 sqrt(10 / 16) / 2 = 12.748 ~ 12.75), so the encoder survives being stored in it
    c, sig, g, nc, b0, s2 = 32.25, 6, 16, 10, 14., 12.75      # 4 groups of 16: 6 latents, 10 constants
    n = e.norm_out
    down = e.down_blocks[3].downsamplers[0].conv
    tree, last = down.weight[:, :, -1, :2, :2].clone(), last[:, :64]
    down.weight.zero_()
    out = torch.zeros(48, 64)
    for q in range(4):
        z = torch.arange(q * sig, q * sig + sig)
        at, cn = torch.arange(q * g, q * g + sig), torch.arange(q * g + sig, (q + 1) * g)
        down.weight[at, :, -1, :2, :2] = torch.einsum("zk,kcyx->zcyx", last[z], tree[:last.shape[1]])
        down.bias[at] = -C.B24[z]
        down.bias[cn] = c * torch.where(torch.arange(nc) % 2 == 0, 1., -1.)
        n.weight[at], n.bias[at] = s2, b0                     # silu(x / 2 + 14) = x / 2 + 14
        n.weight[cn], n.bias[cn] = s2, b0 + 16
        out[z[:, None], at[None]] = 2 * torch.eye(sig)
        out[z[:, None], cn[None, :8]] = -.25                  # the group mean, put back; the biases leave 2 * 14 - 2 * 30 = -32
    e.conv_out.weight[:, :, -1, 1, 1] = out
    e.conv_out.bias[:24] = 32.
    q = v.quant_conv
    q.weight.zero_()
    q.bias.zero_()
    q.weight[:24, :24, 0, 0, 0] = torch.eye(24)
    q.bias[24:] = LOGVAR


def encode_picture(v, x, moments=False):
    """x [B, 3, H, W] normalised -> [B, 24, h, w]; the class's computation for one frame, as 2-D convolutions."""
    def conv(x, c):
        p = c.spatial_padding
        x = F.pad(x, (p, p, p, p), mode="reflect") if p else x
        return F.conv2d(x, c.weight[:, :, -1], c.bias, stride=c.stride[1:])

    def gn(x, n):
        return F.silu(F.group_norm(x, n.num_groups, n.weight, n.bias, n.eps))
    e = v.encoder
    x = conv(x, e.conv_in)
    for b in e.down_blocks:
        for r in b.resnets:
            y = conv(gn(conv(gn(x, r.norm1), r.conv1), r.norm2), r.conv2)
            x = (x if r.conv_shortcut is None else conv(x, r.conv_shortcut)) + y
        for d in b.downsamplers or []:
            x = conv(F.pad(x, (0, 1, 0, 1), mode="reflect") if d.spatial_stride == 2 else x, d.conv)
    x = conv(gn(x, e.norm_out), e.conv_out)
    x = F.conv2d(x, v.quant_conv.weight[:, :, 0], v.quant_conv.bias)
    return x if moments else x[:, :24]


def decode7(v, z, dt=torch.bfloat16):
    """One 7-latent window [B, 24, 7, h, w] -> 22 frames, the class's computation in bf16 activations."""
    d = v.decoder
    L = lambda x, l: F.linear(x, l.weight.to(dt), None if l.bias is None else l.bias.to(dt))
    N = lambda x, n: RMS.apply(x, n.weight.to(dt) if n.weight is not None else torch.ones(x.shape[-1], dtype=dt), n.eps)
    B, Ch, T, h, w = z.shape
    x = z.permute(0, 2, 3, 4, 1).reshape(B, T * h * w, Ch)
    x = F.linear(x, v.post_quant_conv.weight.view(Ch, Ch), v.post_quant_conv.bias)
    x = F.linear(x, d.proj_in.weight, d.proj_in.bias).to(dt)
    n = x.shape[1]
    x = torch.cat([x, d.register_tokens.expand(B, -1, -1).to(dt), torch.zeros_like(x[:, :1])], 1)
    gr = [2 * (torch.arange(.5, s) / s) - 1 for s in (T, h, w)]
    pos = torch.cat([torch.stack(torch.meshgrid(*gr, indexing="ij"), -1).flatten(0, 2), torch.zeros(d.num_register_tokens + 1, 3)])[None]
    cos, sin = d.rope(pos)
    cos, sin = cos.to(dt), sin.to(dt)
    rd = cos.shape[-1]

    def rot(q):
        r, p = q[..., :rd], q[..., rd:]
        a, b = r.chunk(2, -1)
        return torch.cat([r * cos + torch.cat([-b, a], -1) * sin, p], -1)
    for b in d.transformer_blocks:
        a = b.attn
        y = N(x, b.norm1)
        q, k, u = (L(y, l).unflatten(2, (a.heads, -1)) for l in (a.to_q, a.to_k, a.to_v))
        q, k = rot(N(q, a.norm_q)), rot(N(k, a.norm_k))
        o = sdpa(q.transpose(1, 2), k.transpose(1, 2), u.transpose(1, 2)).transpose(1, 2).flatten(2)
        x = torch.addcmul(x, L(o, a.to_out[0]), b.scale1.to(dt))
        y, g = L(N(x, b.norm2), b.ff.net[0].proj).chunk(2, -1)
        x = torch.addcmul(x, L(y * F.silu(g), b.ff.net[2]), b.scale2.to(dt))
    x = F.layer_norm(x[:, :n].float(), (x.shape[-1],), d.norm_out.weight, d.norm_out.bias, d.norm_out.eps)
    x = L(x.to(dt), d.proj_out)
    x = x.view(B, T, h, w, 3, 4, 16, 16).permute(0, 4, 1, 5, 2, 6, 3, 7).reshape(B, 3, T * 4, h * 16, w * 16)
    return torch.cat([x[:, :, 3:20], x[:, :, 23:28]], 2)


@torch.no_grad()
def decode_clip(v, z, dt=torch.bfloat16):
    """[1, 24, 5 n + 2, h, w] -> uint8 [17 n + 5, H, W, 3] with the reference's cross-fade between windows."""
    n = (z.shape[2] - 2) // 5
    ws = [decode7(v, z[:, :, 5 * i:5 * i + 7], dt).float() for i in range(n)]
    out = []
    for i, y in enumerate(ws):
        y = y.clone()
        if i:
            k = torch.arange(5).view(1, 1, 5, 1, 1) / 5
            y[:, :, :5] = ws[i - 1][:, :, 17:] * (1 - k) + y[:, :, :5] * k
        out.append(y if i == n - 1 else y[:, :, :17])
    y = torch.cat(out, 2)[0].permute(1, 2, 3, 0)
    return ((y * C.STD + C.MEAN).clamp(0, 1) * 255).round().byte().numpy()


def make_audio():
    from diffusers import AutoencoderKLMiniMaxH3Audio
    return AutoencoderKLMiniMaxH3Audio(**AUDIO)


if __name__ == "__main__":
    import world as D
    torch.set_num_threads(1)
    torch.manual_seed(0)
    v = make_video()
    r = np.random.default_rng(0)
    ev = D.everything()
    ms = [D.meta(ev[r.integers(len(ev))]) for _ in range(6)]
    fr = [int(r.integers(124)) for _ in ms]
    x = C.norm(np.concatenate([D.render(m, [f])[0] for m, f in zip(ms, fr)])).permute(0, 3, 1, 2)
    z = torch.cat([C.clip_latents(m, np.full((1, 4), f)) for m, f in zip(ms, fr)]).permute(0, 3, 1, 2)
    with torch.no_grad():
        for n, p in v.named_parameters():
            if n.startswith(("encoder", "quant")):
                p.copy_(p.bfloat16().float())
        a, b = encode_picture(v, x), v.encode(x[:, :, None]).latent_dist.mode()[:, :, 0]
        print("picture encoder: 2-D against class %.1e, unexplained variance %.4f, by component" % ((a - b).abs().max(), (a - z).pow(2).mean() / z.var()), ((a - z).pow(2).mean((0, 2, 3)) / z.var((0, 2, 3))).numpy().round(3))
        zz = torch.stack([C.clip_latents(m, C.groups(39)) for m in ms[:1]]).permute(0, 4, 1, 2, 3)
        ref = v.decode(zz).sample
        y = decode_clip(v, zz, torch.float32)
        q = ((ref[0].permute(1, 2, 3, 0) * C.STD + C.MEAN).clamp(0, 1) * 255).round().byte().numpy()
        print("decoder against class", np.abs(y.astype(int) - q).max(), "frames", y.shape)
    import time
    for _ in range(3):
        t = time.process_time()
        encode_picture(v, x).pow(2).mean().backward()
    print("picture encoder CPU-s", (time.process_time() - t) / 6)
