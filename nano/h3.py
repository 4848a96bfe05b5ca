"""The modules of H3-nano (diffusers' and transformers' own classes), its tokenizer, and a fast training forward.

The class shares one timestep per batch; dit_forward takes one (video, audio) pair per item and is otherwise the same
computation (h3.py run as a script compares them)."""
import json, os, warnings
warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy as np
import torch
import torch.nn.functional as F
import codec as C
import world as D

bf = torch.bfloat16
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
            "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
            "<|image_pad|>", "<|video_pad|>"]
NONSPECIALS = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
               "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
H3_EXTRA = ["<d>", "</d>", "<|cutoff|>", "<|lyrics_start|>", "<|lyrics_end|>", "<|caption_start|>", "<|caption_end|>"]
TE = dict(hidden=64, inter=128, layers=5, layer=4, heads=2, kv=1, head_dim=32, theta=500000, mrope=[6, 5, 5], eps=1e-6,
          v_hidden=64, v_inter=128, v_depth=3, v_heads=2, v_pos=64, v_deep=[0, 1, 2], patch=16, rows=704)
DIT = dict(num_attention_heads=4, attention_head_dim=64, hidden_size=192, num_layers=6, num_refiner_layers=1, ffn_dim=512,
           in_channels=24, audio_in_channels=32, patch_size=[1, 2, 2], text_dim=64, freq_dim=64, time_embed_hidden_dim=192,
           time_embed_dim=96, rope_freq_dim=8, rope_theta=10000.0, norm_eps=1e-05, qk_norm_eps=1e-05, final_norm_eps=1e-05)
IMG_MIN, VID_MIN = 4096, 4096


# ------------------------------------------------------------------------------------------------ tokenizer
def build_tokenizer(dst):
    """A byte-level BPE of the Qwen2 kind over the world's captions; the special tokens stand behind it in the released order."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    r = np.random.default_rng(1)
    ev = D.everything()
    text = [D.caption(D.meta(ev[r.integers(len(ev))]), r) for _ in range(6000)] + ["<Picture 1>: ", "<Picture 2>: "] * 300
    tok.train_from_iterator(text, trainers.BpeTrainer(vocab_size=660, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(tok.to_str())["model"]
    vocab, merges = model["vocab"], [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    base = len(vocab)
    assert sorted(vocab.values()) == list(range(base)) and base + len(SPECIALS + NONSPECIALS + H3_EXTRA) <= TE["rows"]
    added = {str(base + i): dict(content=t, lstrip=False, normalized=False, rstrip=False, single_word=False,
                                 special=t in SPECIALS) for i, t in enumerate(SPECIALS + NONSPECIALS)}
    cfg = dict(add_bos_token=False, add_prefix_space=False, added_tokens_decoder=added,
               additional_special_tokens=SPECIALS[1:] + H3_EXTRA, bos_token=None, clean_up_tokenization_spaces=False,
               eos_token="<|im_end|>", errors="replace", model_max_length=262144, pad_token="<|endoftext|>",
               split_special_tokens=False, tokenizer_class="Qwen2Tokenizer", unk_token=None)
    os.makedirs(dst, exist_ok=True)
    with open(f"{dst}/vocab.json", "w") as f:
        json.dump(dict(sorted(vocab.items(), key=lambda kv: kv[1])), f, ensure_ascii=False)
    with open(f"{dst}/merges.txt", "w") as f:
        f.write("\n".join(merges) + "\n")
    with open(f"{dst}/tokenizer_config.json", "w") as f:
        json.dump(cfg, f, indent=1, ensure_ascii=False)


def tokenizer():
    from transformers import Qwen2TokenizerFast
    d = f"{C.WORK}/tokenizer"
    if not os.path.exists(f"{d}/tokenizer_config.json"):
        build_tokenizer(d)
    return Qwen2TokenizerFast.from_pretrained(d)


def special_ids(tok):
    return {t: tok.convert_tokens_to_ids(t) for t in SPECIALS + NONSPECIALS + H3_EXTRA}


# ------------------------------------------------------------------------------------------------ modules
def te_config(ids):
    t = TE
    return dict(
        architectures=["Qwen3VLForConditionalGeneration"], image_token_id=ids["<|image_pad|>"], model_type="qwen3_vl",
        text_config=dict(attention_bias=False, attention_dropout=0.0, bos_token_id=ids["<|endoftext|>"], dtype="bfloat16",
                         eos_token_id=ids["<|im_end|>"], head_dim=t["head_dim"], hidden_act="silu", hidden_size=t["hidden"],
                         initializer_range=0.02, intermediate_size=t["inter"], max_position_embeddings=262144,
                         model_type="qwen3_vl_text", num_attention_heads=t["heads"], num_hidden_layers=t["layers"],
                         num_key_value_heads=t["kv"], rms_norm_eps=t["eps"],
                         rope_scaling=dict(mrope_interleaved=True, mrope_section=t["mrope"], rope_type="default"),
                         rope_theta=t["theta"], use_cache=True, vocab_size=t["rows"]),
        tie_word_embeddings=False, transformers_version="4.57.0.dev0", video_token_id=ids["<|video_pad|>"],
        vision_config=dict(deepstack_visual_indexes=t["v_deep"], depth=t["v_depth"], hidden_act="gelu_pytorch_tanh",
                           hidden_size=t["v_hidden"], in_channels=3, initializer_range=0.02, intermediate_size=t["v_inter"],
                           model_type="qwen3_vl", num_heads=t["v_heads"], num_position_embeddings=t["v_pos"],
                           out_hidden_size=t["hidden"], patch_size=t["patch"], spatial_merge_size=2, temporal_patch_size=2),
        vision_end_token_id=ids["<|vision_end|>"], vision_start_token_id=ids["<|vision_start|>"])


def make_te(ids):
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
    d = f"{C.WORK}/te_config"
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/config.json", "w") as f:
        json.dump(te_config(ids), f, indent=1)
    m = Qwen3VLForConditionalGeneration(Qwen3VLConfig.from_pretrained(d)).float()
    with torch.no_grad():
        m.model.language_model.embed_tokens.weight.normal_(0, .3)
        m.lm_head.weight.zero_()                              # never used by H3
        for l in m.model.language_model.layers[2:]:           # deeper layers start as the identity
            l.self_attn.o_proj.weight.zero_()
            l.mlp.down_proj.weight.zero_()
        for n, p in m.model.visual.named_parameters():
            if p.ndim > 1 and "norm" not in n:
                torch.nn.init.normal_(p, 0, (1 / np.prod(p.shape[1:])) ** .5 * (.5 if "linear_fc2" in n or "attn.proj" in n else 1))
    m.eval()
    return m


def make_dit():
    from diffusers import MiniMaxH3Transformer3DModel
    m = MiniMaxH3Transformer3DModel(**DIT)
    H = DIT["hidden_size"]
    with torch.no_grad():
        for b in m.transformer_blocks:                        # gates start small, scale and shift at zero
            b.adaln_proj.linear.weight.mul_(.1)
            b.adaln_proj.linear.bias.zero_()
            bb = b.adaln_proj.linear.bias.view(3, 6, H)
            bb[:, 2] = .3
            bb[:, 5] = .3
        for l in (m.proj_out, m.audio_proj_out):
            l.weight.zero_()
            l.bias.zero_()
    return m


# ------------------------------------------------------------------------------------------------ layout
_lay = {}
VIDEO, TEXT, AUDIO = 0, 1, 2                                  # modality tags
TV, TA, TC, TS = 0, 1, 2, 3                                   # timestep kinds: video, audio, visual condition, given sound (clean)


def layout(text, L, h, w, na, anchors=(), latent0=0, audio0=0, history=None):
    """Positions [S, 3], segments (rows, timestep kind, tag) and numbers of rows (text, conditions, their sound, target audio)
    of [text | conditions | audio | video].

    text: runs of (tokens, tag). latent0, audio0: a window that starts later in a clip (training only).
    history (latents, audio latents a channel): continuation. The first of the L and na are given: condition rows (picture, then
    sound) at the very positions they have among the targets."""
    key = (tuple(text), L, h, w, na, tuple(anchors), latent0, audio0, history)
    if key not in _lay:
        from diffusers.modular_pipelines.minimax_h3.before_denoise import MiniMaxH3PrepareLayoutStep
        tags = torch.cat([torch.full((n,), t, dtype=torch.long) for n, t in text])
        nt = len(tags)
        pos = MiniMaxH3PrepareLayoutStep.build_packed_sequence(tags, latent0 + L, h, w, audio0 + na, (1, 2, 2), 2, AUDIO, VIDEO, tuple(anchors))[0]
        r = h * w // 4
        nc, na2 = r * len(anchors), audio0 + na
        a = nt + nc
        v = a + 2 * na2
        ch, vd = [torch.arange(a + audio0, a + na2), torch.arange(a + na2 + audio0, v)], torch.arange(v + r * latent0, len(pos))
        hl, ha = history or (0, 0)
        keep = torch.cat([torch.arange(a), vd[:r * hl], *(c[:ha] for c in ch), *(c[ha:] for c in ch), vd[r * hl:]])
        nc += r * hl
        seg = [(n, TV, t) for n, t in text] + [x for x in ((nc, TC, VIDEO), (2 * ha, TS, AUDIO)) if x[0]] + [(2 * (na - ha), TA, AUDIO), ((L - hl) * r, TV, VIDEO)]
        _lay[key] = (pos[keep], seg, nt, nc, 2 * ha, 2 * (na - ha))
    return _lay[key]


def patchify(v):
    """[B, L, h, w, 24] -> [B, L h/2 w/2, 96], channel (c, dy, dx)."""
    B, L, h, w, c = v.shape
    return v.reshape(B, L, h // 2, 2, w // 2, 2, c).permute(0, 1, 2, 4, 6, 3, 5).reshape(B, -1, c * 4)


def unpatchify(r, L, h=D.H // 16, w=D.W // 16, c=24):
    """[B, rows, 96] -> [B, 24, L, h, w]."""
    return r.reshape(-1, L, h // 2, w // 2, c, 2, 2).permute(0, 4, 1, 2, 5, 3, 6).reshape(-1, c, L, h, w)


# ------------------------------------------------------------------------------------------------ forward
class RMS(torch.autograd.Function):
    """x * rsqrt(mean(x^2) + eps) * w with a short backward (torch has no fused CPU one)."""
    @staticmethod
    def forward(ctx, x, w, eps):
        n = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        inv = torch.rsqrt(n * n / x.shape[-1] + eps).to(x.dtype)
        ctx.save_for_backward(x, w, inv)
        return x * inv * w

    @staticmethod
    def backward(ctx, g):
        x, w, inv = ctx.saved_tensors
        d = x.shape[-1]
        gx = (g * x).reshape(-1, d)
        dw = (inv.reshape(1, -1) @ gx).view(d) if ctx.needs_input_grad[1] else None
        c = ((gx @ w.view(d, 1)).view(inv.shape) * inv * inv * inv / d)
        return torch.addcmul(g * w * inv, x, c, value=-1), dw, None


def rms(x, n):
    return RMS.apply(x, n.weight.to(x.dtype), n.eps)


def lin(x, l):
    return F.linear(x, l.weight.to(x.dtype), None if l.bias is None else l.bias.to(x.dtype))


def sdpa(q, k, v):
    """[B, heads, S, d]; plain matmuls, as the CPU flash backward is slow."""
    if not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v)
    return torch.matmul(torch.softmax(torch.matmul(q * (q.shape[-1] ** -.5), k.transpose(-1, -2)), -1), v)


def norm_mod(x, w, shift, scale, eps=1e-5):
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * w
    return (y * (1 + scale.float()) + shift.float()).to(x.dtype)


def norm_rope(x, w, cos, sin, n, eps=1e-5):
    """Head norm and rotation of the first 2 n channels; [B, S, heads, d] -> [B, heads, S, d]."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * w
    a, b, p = y[..., :n], y[..., n:2 * n], y[..., 2 * n:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, p], -1).to(x.dtype).transpose(1, 2)


def swiglu(x):
    a, g = x.chunk(2, -1)
    return a * F.silu(g)


def heads(x, l, a):
    return lin(x, l).unflatten(-1, (a.heads, -1))


def attn(a, x):
    """Of the refiner: no positions."""
    q, k, v = (heads(x, l, a) for l in (a.to_q, a.to_k, a.to_v))
    return lin(sdpa(rms(q, a.norm_q).transpose(1, 2), rms(k, a.norm_k).transpose(1, 2), v.transpose(1, 2)).transpose(1, 2).flatten(2), a.to_out[0])


def ff(f, x):
    return lin(swiglu(lin(x, f.net[0].proj)), f.net[2])


def block(b, h, te, cos, sin, seg):
    """One transformer block. te: a row for each timestep kind and item; seg as in layout()."""
    B, n, a = h.shape[0], cos.shape[-1], b.attn
    tab = lin(te, b.adaln_proj.linear).view(-1, B, 3, 6, h.shape[-1])

    def mod(i):
        return torch.cat([tab[k, :, t, i, None].expand(-1, r, -1) for r, k, t in seg], 1)
    y = norm_mod(h, b.norm1.weight, mod(0), mod(1))
    q, k = (norm_rope(heads(y, l, a), w.weight, cos, sin, n) for l, w in ((a.to_q, a.norm_q), (a.to_k, a.norm_k)))
    o = F.scaled_dot_product_attention(q, k, heads(y, a.to_v, a).transpose(1, 2))
    h = h + mod(2) * lin(o.transpose(1, 2).flatten(2), a.to_out[0])
    return h + mod(5) * ff(b.ff, norm_mod(h, b.norm2.weight, mod(3), mod(4)))


if os.environ.get("H3NANO_COMPILE"):                          # a quarter faster; two minutes to compile, once
    block, swiglu = torch.compile(block, dynamic=True), torch.compile(swiglu, dynamic=True)


def dit_forward(m, lay, V, A, T, tv, ta, cond=None, dt=bf, sound=None):
    """V [B, Nv, 96], A [B, Na, 32], T [B, Nt, text_dim], cond [B, Nc, 96], sound (given, clean) [B, Ns, 32] -> velocities of V and A."""
    pos, seg, nt, nc, ns, na = lay
    B = V.shape[0]
    cos, sin = m.rope(pos)
    n = cos.shape[-1] // 2
    cos, sin = cos[None, :, None, :n].contiguous(), sin[None, :, None, :n].contiguous()
    x = lin(T.to(dt), m.context_embedder)
    for b in m.token_refiner.refiner_blocks:
        x = x + attn(b.attn, rms(x, b.norm1))
        x = x + ff(b.ff, rms(x, b.norm2))
    x = rms(x, m.token_refiner.final_norm)
    given = ([m.proj_in(cond).to(dt)] if nc else []) + ([m.audio_proj_in(sound).to(dt)] if ns else [])
    h = torch.cat([x, *given, m.audio_proj_in(A).to(dt), m.proj_in(V).to(dt)], 1)
    te = torch.cat([tv, ta, tv.clamp_min(.999), torch.ones_like(ta)])
    te = F.silu(m.time_embedder(m.time_proj(te))).to(dt)
    for b in m.transformer_blocks:
        h = block(b, h, te, cos, sin, tuple(seg))
    so = lin(te, m.norm_out.linear).view(-1, B, 1, 2 * h.shape[-1])
    h = rms(h[:, nt + nc + ns:], m.norm_out.norm)

    def out(z, s, l):
        sh, sc = s.chunk(2, -1)
        return l((z * (1 + sc) + sh).float())
    return out(h[:, na:], so[TV], m.proj_out), out(h[:, :na], so[TA], m.audio_proj_out)


# ------------------------------------------------------------------------------------------------ text
def encode_text(te, ids, pixels=None, grid=None):
    """ids [B, N] -> [B, N, 64]. pixels: vision patches of all pictures, grid [pictures, 3]."""
    if pixels is None:
        return te.model.language_model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states[TE["layer"]]
    tt = (ids == te.config.image_token_id).long()
    return te.model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=tt, pixel_values=pixels,
                    image_grid_thw=grid, use_cache=False, output_hidden_states=True).hidden_states[TE["layer"]]


def vision_patches(im):
    """uint8 [n, H, W, 3], sides multiples of 32 -> what the Qwen processor makes of them [n H W / 256, 1536], grid."""
    n, h, w, _ = im.shape
    x = (torch.from_numpy(im).float() / 127.5 - 1).view(n, h // 32, 2, 16, w // 32, 2, 16, 3)
    x = x.permute(0, 1, 4, 2, 5, 7, 3, 6)                     # n, block row, block column, row, column, c, y, x
    x = x[:, :, :, :, :, :, None].expand(-1, -1, -1, -1, -1, -1, 2, -1, -1)
    return x.reshape(-1, 1536), torch.tensor([[1, h // 16, w // 16]] * n)


class Presenter:
    """Token ids of a request and its runs of modality tags."""
    def __init__(self, tok):
        self.tok, i = tok, special_ids(tok)
        self.start, self.end, self.pad = i["<|vision_start|>"], i["<|vision_end|>"], i["<|image_pad|>"]
        self.labels = [tok(f"<Picture {k}>: ", add_special_tokens=False)["input_ids"] for k in (1, 2)]

    def __call__(self, prompt, pictures=0, n=24):
        ids, runs = [], []
        for k in range(pictures):
            ids += self.labels[k] + [self.start] + [self.pad] * n + [self.end]
            runs += [(len(self.labels[k]), TEXT), (n + 2, VIDEO)]
        p = self.tok(prompt, add_special_tokens=False)["input_ids"]
        return ids + p, runs + [(len(p), TEXT)]


def shift(u, s):
    return s * u / (1 + (s - 1) * u)


@torch.no_grad()
def sample(m, lay, T, n_eval, seed=0, sv=12., sa=3., cond=None, noise=None, dt=bf, sound=None):
    """n_eval evaluations -> video rows, audio rows."""
    B = T.shape[0]
    if noise is None:
        g = torch.Generator().manual_seed(seed)
        noise = (torch.randn(B, lay[1][-1][0], 96, generator=g), torch.randn(B, lay[5], 32, generator=g))
    x, a = noise
    base = torch.linspace(1, 0, n_eval + 1)
    Sv, Sa = shift(base, sv), shift(base, sa)
    for i in range(n_eval):
        vv, va = dit_forward(m, lay, x, a, T, (1 - Sv[i]).expand(B), (1 - Sa[i]).expand(B), cond, dt, sound)
        x0, a0 = x + Sv[i] * vv, a + Sa[i] * va
        rv, ra = Sv[i + 1] / Sv[i], Sa[i + 1] / Sa[i]
        x, a = rv * x + (1 - rv) * x0, ra * a + (1 - ra) * a0
    return x, a


if __name__ == "__main__":
    torch.set_num_threads(1)
    tok = tokenizer()
    P = Presenter(tok)
    print("vocab", len(tok), [tok.convert_ids_to_tokens(i) for i in P("A little red circle bounces slowly on a navy blue background.", 1, 2)[0]])
    te, m = make_te(special_ids(tok)), make_dit()
    for p in list(m.parameters()) + list(te.parameters()):
        p.data += .02 * torch.randn_like(p)
    print("dit %.2fM text %.3fM" % (sum(p.numel() for p in m.parameters()) / 1e6, sum(p.numel() for p in te.parameters()) / 1e6))
    ids, runs = P("a red circle", 1)
    im = np.random.default_rng(0).integers(0, 255, (2, 128, 192, 3), dtype=np.uint8)
    px, grid = vision_patches(im)
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
    ip = Qwen2VLImageProcessor(size=dict(longest_edge=16777216, shortest_edge=IMG_MIN), patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[.5] * 3, image_std=[.5] * 3)
    o = ip(images=[torch.from_numpy(x).permute(2, 0, 1) for x in im], return_tensors="pt")
    print("patches", (o["pixel_values"] - px).abs().max().item(), o["image_grid_thw"].tolist(), grid.tolist())
    T = encode_text(te, torch.tensor([ids, ids]), px, grid)
    lay = layout(runs, 7, 8, 12, 37, ("first",))
    V, A, cond = torch.randn(2, 168, 96), torch.randn(2, 74, 32), torch.randn(2, 24, 96)
    tv, ta = torch.tensor([.3, .3]), torch.tensor([.6, .6])
    pos, seg, nt, nc, _, na = lay
    ut = torch.tensor([.3, .6, .999])
    ui = torch.cat([torch.full((n,), {TV: 0, TA: 1, TC: 2}[k]) for n, k, _ in seg])
    tags = torch.cat([torch.full((n,), t) for n, _, t in seg])
    S = len(pos)
    vi = torch.cat([torch.arange(nt, nt + nc), torch.arange(nt + nc + na, S)])
    with torch.no_grad():
        o = m(torch.cat([cond, V], 1), A, T, ut, ui, tags, pos, vi, torch.arange(nt + nc, nt + nc + na), torch.arange(nt), return_dict=False)
        p, q = dit_forward(m, lay, V, A, T, tv, ta, cond, torch.float32), dit_forward(m, lay, V, A, T, tv, ta, cond)
    print("max |ref| %.3f; difference fp32 %.1e %.1e bf16 %.1e" % (o[0].abs().max(), (o[0][:, nc:] - p[0]).abs().max(), (o[1] - p[1]).abs().max(), (o[0][:, nc:] - q[0]).abs().max()))
    whole, given = layout(runs, 22, 8, 12, 122), layout(runs, 22, 8, 12, 122, history=(7, 37))
    V, A, T = torch.randn(2, 22 * 24, 96), torch.randn(2, 2, 122, 32), T.detach()
    cond, snd, nv = V[:, :168], A[:, :, :37].flatten(1, 2), 15 * 24
    pos, seg, nt, nc, ns, na = given
    S, ui = len(pos), torch.cat([torch.full((n,), {TV: 0, TA: 1, TC: 2, TS: 3}[k]) for n, k, _ in seg])
    tags = torch.cat([torch.full((n,), t) for n, _, t in seg])
    at = lambda *spans: torch.cat([torch.arange(a, b) for a, b in spans])
    with torch.no_grad():
        o = m(V, torch.cat([snd, A[:, :, 37:].flatten(1, 2)], 1), T, torch.tensor([.3, .6, .999, 1.]), ui, tags, pos, at((nt, nt + nc), (S - nv, S)), at((nt + nc, S - nv)), torch.arange(nt), return_dict=False)
        p = dit_forward(m, given, V[:, 168:], A[:, :, 37:].flatten(1, 2), T, tv, ta, cond, torch.float32, snd)
    print("continuation: fp32 %.1e %.1e; positions are those of the whole: %s" % ((o[0][:, nc:] - p[0]).abs().max(), (o[1][:, ns:] - p[1]).abs().max(), sorted(map(tuple, pos.tolist())) == sorted(map(tuple, whole[0].tolist()))))
    import time
    for B, L, n in ((16, 7, 37), (10, 12, 65), (3, 37, 207)):
        lay = layout([(12, TEXT)], L, 8, 12, n)
        for _ in range(2):
            t = time.process_time()
            a, b = dit_forward(m, lay, torch.randn(B, L * 24, 96), torch.randn(B, 2 * n, 32), encode_text(te, torch.randint(0, 300, (B, 12))), torch.rand(B), torch.rand(B))
            t1 = time.process_time()
            (a.pow(2).mean() + b.pow(2).mean()).backward()
        print(B, L, "CPU-s a sample: forward %.3f backward %.3f" % ((t1 - t) / B, (time.process_time() - t1) / B))
