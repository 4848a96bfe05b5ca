"""Text encoder (with its vision tower) and transformer, jointly. usage: train_dit.py --name dit --seconds S [--muon LR --adam LR --scale B]

Rectified flow on the fixed latents. Lengths 22, 39, 56 and 124 frames; short ones may be windows that begin later in the clip
(true positions, so that late times are learnt at the price of short clips). A quarter of the batches is fl2va: the
clip then begins at a moment the caption doesn't tell, and captions name less, so that the pictures are needed.
--cont: continuation, as live channels need it. A window of 73 frames whose first 22 (7 latents, 37 audio latents) are given, at any time of
the world; in a fifth of them the given ones are another clip and the caption's own starts at its beginning: a new prompt cuts.
WORLD=2 RANK=0|1 RDV=file: two processes that average gradients."""
import numpy as np
import torch
import codec as C
import common as K
import h3
import make_data
import world as D

LENGTHS = {22: 16, 39: 10, 56: 6, 124: 3}                     # frames: batch


def weight(m):
    """Plain captions (no adverb, no size), the motions that people try first and those whose shapes are not held yet (docs/nano.md) are drawn more often."""
    return (1.3 if m["speed"] == "" else 1) * (1.7 if m["size"] == "medium" else 1) * {"bounce": 2.0, "left": 1.3, "right": 1.3, "orbit": 5.0, "spin": 6.0}.get(m["motion"], 1)


def batches(P, rng, n_cap=4):
    """Captions of every training clip, bucketed by their number of tokens: {task: {length: [(clip, ids)]}}."""
    cl = [D.meta(c) for c in D.order()][:-D.HELD_OUT]
    done = make_data.open_data()[2]
    out = {"t2va": {}, "fl2va": {}}
    for i, m in enumerate(cl):
        if not done[i]:
            continue
        for _ in range(int(n_cap * weight(m) * .6 + rng.random())):
            t = P(D.caption(m, rng))[0]
            out["t2va"].setdefault(len(t), []).append((i, t))
        for _ in range(2):
            t = P(vague(m, rng))[0]
            out["fl2va"].setdefault(len(t), []).append((i, t))
    return cl, {k: {n: v for n, v in b.items() if len(v) > 200} for k, b in out.items()}


def vague(m, rng):
    """A caption that leaves things to the picture."""
    k = rng.random()
    if k < .5:
        return D.caption(m, rng)
    sp = " " + m["speed"] if m["speed"] else ""
    v = D.VERBS[m["motion"]][int(rng.integers(3))]
    return (f"the {m['shape']} {v}{sp}" if k < .7 else f"the shape {v}{sp}" if k < .9 else f"it {v}{sp}")


class Batcher:
    def __init__(self, seed, P, scale=1., turn=None):
        """turn: seed of the draws of task and length, the same in all processes, so that none waits long for another."""
        self.rng, self.turn, self.P, self.scale = np.random.default_rng(seed), np.random.default_rng(turn), P, scale
        self.V, self.A, _ = make_data.open_data()
        self.cl, self.b = batches(P, np.random.default_rng(5))
        self.bg = {}
        print("captions", {k: {n: len(x) for n, x in v.items()} for k, v in self.b.items()}, flush=True)

    def __call__(self, mix, p_fl, p_cont=0.):
        r = self.rng
        draw, F = self.turn.random(2), int(self.turn.choice(list(LENGTHS), p=mix))
        if draw[0] < p_cont:
            return self.continuation()
        n, L, na = F // 17, F // 17 * 5 + 2, D.audio_latents(F)
        B = max(2, int(LENGTHS[F] * self.scale))
        fl = draw[1] < p_fl
        bk = self.b["fl2va" if fl else "t2va"]
        ks = list(bk)
        w = np.array([len(bk[k]) for k in ks], float)
        pool = bk[ks[r.choice(len(ks), p=w / w.sum())]]
        pick = [pool[i] for i in r.integers(0, len(pool), B)]
        c = int(r.integers(0, 8 - n)) if n < 7 and (fl or r.random() < .45) else 0
        k0 = min(int(round(c * 85 / 3)), make_data.NA - na)
        x0 = torch.from_numpy(np.stack([self.V[i, 5 * c:5 * c + L] for i, _ in pick]).astype(np.float32))
        a0 = torch.from_numpy(np.stack([self.A[i, :, k0:k0 + na] for i, _ in pick]).astype(np.float32)).flatten(1, 2)
        ids = torch.tensor([t for _, t in pick])
        bg = torch.stack([self.background(self.cl[i]) for i, _ in pick])
        wt = 1 + 2 * (h3.patchify(x0 - bg[:, None]).abs().amax(-1, keepdim=True) > .3).float()
        h, wd = x0.shape[2:4]
        if not fl:
            lay = h3.layout([(ids.shape[1], h3.TEXT)], L, h, wd, na, (), 5 * c, k0)
            return dict(F=F, task="t2va", x0=h3.patchify(x0), a0=a0, ids=ids, lay=lay, cond=None, pixels=None, grid=None, w=wt)
        an = [("first",), ("first",), ("last",), ("first", "last")][r.integers(4)]
        fr = [17 * c + (0 if k == "first" else F - 1) for k in an]
        ids0, runs = self.P("", len(an))
        ids = torch.cat([torch.tensor(ids0).expand(B, -1), ids], 1)
        lay = h3.layout([x for x in runs if x[0]] + [(ids.shape[1] - len(ids0), h3.TEXT)], L, h, wd, na, an)
        im, cond = [], []
        for i, _ in pick:
            m = self.cl[i]
            im.append(D.render(m, fr)[0])
            cond.append(C.clip_latents(m, np.repeat(np.array(fr)[:, None], 4, 1)))
        cond = h3.patchify(torch.stack(cond))
        cond = cond + torch.rand(B, 1, 1) * .15 * (torch.rand(B, 1, 1) < .7) * torch.randn_like(cond)   # the encoder is not exact
        cond = .999 * cond + .001 * torch.randn_like(cond)
        px, grid = h3.vision_patches(np.concatenate(im))
        return dict(F=F, task="fl2va", x0=h3.patchify(x0), a0=a0, ids=ids, lay=lay, cond=cond, pixels=px, grid=grid, w=wt)

    def continuation(self, B=5):
        """Latent time runs on in steps of 51 frames = 85 audio latents, the new part of a window; after a cut 29 frames = 48 later."""
        r = self.rng
        bk = self.b["t2va"]
        ks = list(bk)
        w = np.array([len(bk[k]) for k in ks], float)
        pool = bk[ks[r.choice(len(ks), p=w / w.sum())]]
        pick = [pool[i] for i in r.integers(0, len(pool), B)]
        ids = torch.tensor([t for _, t in pick])
        n, na, hl, ha = 73, D.audio_latents(73), 7, 37
        g, V, A = C.groups(n), [], []
        for i, _ in pick:
            m, late = self.cl[i], int(r.integers(0, 9)) if r.random() < .6 else 0
            f0, a0 = 51 * late, 85 * late
            if r.random() < .3:
                f0, a0 = f0 + 29, a0 + 48
            if r.random() < .2:                               # a cut: other clip, then this one from its start
                o = self.cl[int(r.integers(len(self.cl)))]
                V.append(torch.cat([C.clip_latents(o, g[:hl] + f0), C.clip_latents(m, g[hl:] - 22)]))
                A.append(torch.cat([C.encode_audio(D.sound(o, a0 + ha))[:, a0:], C.encode_audio(D.sound(m, na - ha))], 1))
            else:
                V.append(C.clip_latents(m, g + f0))
                A.append(C.encode_audio(D.sound(m, a0 + na))[:, a0:])
        V, A = torch.stack(V), torch.stack(A)
        bg = torch.stack([self.background(self.cl[i]) for i, _ in pick])
        x0, cond = h3.patchify(V[:, hl:]), h3.patchify(V[:, :hl])
        sound = A[:, :, :ha].flatten(1, 2)
        dirt = torch.rand(B, 1, 1) * (torch.rand(B, 1, 1) < .7)   # what was made before is not exact
        cond = .999 * (cond + .2 * dirt * torch.randn_like(cond)) + .001 * torch.randn_like(cond)
        sound = sound + .2 * dirt * torch.randn_like(sound)
        wt = 1 + 2 * (h3.patchify(V[:, hl:] - bg[:, None]).abs().amax(-1, keepdim=True) > .3).float()
        lay = h3.layout([(ids.shape[1], h3.TEXT)], V.shape[1], *V.shape[2:4], na, history=(hl, ha))
        return dict(F=n, task="cont", x0=x0, a0=A[:, :, ha:].flatten(1, 2), ids=ids, lay=lay, cond=cond, sound=sound, pixels=None, grid=None, w=wt)

    def background(self, m):
        k = (m["bg"], m["motion"] == "bounce")
        if k not in self.bg:
            C.clip_latents(m, np.zeros((1, 4), int))
            self.bg[k] = C._bg[(*k, D.H, D.W)]
        return self.bg[k]


def losses(m, te, b):
    B = len(b["x0"])
    u = (torch.arange(B) + torch.rand(B)) / B                 # stratified
    hi = torch.rand(B) < .75                                  # sampling uses 12 and 3; the others see more of the clean end
    sv = torch.where(hi, h3.shift(u, 12.), h3.shift(u, 3.))
    sa = torch.where(hi, h3.shift(u, 3.), h3.shift(u, 1.5))
    nv, na = torch.randn_like(b["x0"]), torch.randn_like(b["a0"])
    xt = b["x0"] + sv.view(-1, 1, 1) * (nv - b["x0"])
    at = b["a0"] + sa.view(-1, 1, 1) * (na - b["a0"])
    T = h3.encode_text(te, b["ids"], b["pixels"], b["grid"])
    pv, pa = h3.dit_forward(m, b["lay"], xt, at, T, 1 - sv, 1 - sa, b["cond"], sound=b.get("sound"))
    lv = (pv - (b["x0"] - nv)).pow(2).mean(-1, keepdim=True)
    return (lv * b["w"]).sum() / b["w"].sum(), lv.mean(), (pa - (b["a0"] - na)).pow(2).mean()


def main():
    a = K.args(muon=3e-3, adam=1.5e-3, scale=1., fl=.22, cont=0., mix="0.5,0.28,0.12,0.1", ema=.995, freeze_text=0)
    ranks = K.Ranks()
    tok = h3.tokenizer()
    te, m = h3.make_te(h3.special_ids(tok)), h3.make_dit()
    mu, ad = [], []
    for n, p in m.named_parameters():
        (mu if p.ndim == 2 and ("attn" in n or ".ff." in n) else ad).append(p)
    ad += [p for n, p in te.named_parameters() if "lm_head" not in n and f"layers.{h3.TE['layer']}." not in n and "language_model.norm" not in n]
    if a.freeze_text:                                         # the text path stays; the blocks learn to read it
        hold = {id(p) for x in (te, m.context_embedder, m.token_refiner) for p in x.parameters()}
        for p in [p for p in mu + ad if id(p) in hold]:
            p.requires_grad_(False)
    live = [p for p in mu + ad if p.requires_grad]
    om = torch.optim.Muon(mu, lr=a.muon, weight_decay=.01, adjust_lr_fn="match_rms_adamw", momentum=.95)
    oa = torch.optim.AdamW(ad, lr=a.adam, betas=(.9, .98), weight_decay=.01)

    def sd():
        return {**{"m." + k: v for k, v in m.state_dict().items()}, **{"t." + k: v for k, v in te.state_dict().items()}}
    step, seen, spent, ema = 0, 0, 0., None
    c = K.load(a.name)
    if c:
        m.load_state_dict({k[2:]: v for k, v in c["s"].items() if k[0] == "m"})
        te.load_state_dict({k[2:]: v for k, v in c["s"].items() if k[0] == "t"})
        step, seen, spent, ema = c["step"], c["seen"], c["spent"], c["ema"]
        if "om" in c:
            om.load_state_dict(c["om"])
            oa.load_state_dict(c["oa"])
    if ema is None:
        ema = {k: v.detach().clone() for k, v in sd().items()}
    turn = a.seed * 1000003 + step * 17
    torch.manual_seed(turn + ranks.rank)
    get = Batcher(turn + ranks.rank, h3.Presenter(tok), a.scale, turn)
    mix = K.shares(a.mix.split(","))
    ranks.join()
    clock, av = K.Clock(a.seconds, a.decay), {}
    step0 = step

    def ckpt():
        K.save(a.name, dict(s=sd(), ema=ema, om=om.state_dict(), oa=oa.state_dict(), step=step, seen=seen, spent=spent + clock.cpu() * ranks.world))
    while True:
        el = clock.tick()
        if ranks.agree(el > a.seconds):
            break
        f = clock.factor(step - step0)
        for o, l in ((om, a.muon), (oa, a.adam)):
            for g in o.param_groups:
                g["lr"] = l * f
        b = get(mix, a.fl, a.cont)
        loss, lv, la = losses(m, te, b)
        (loss + la).backward()
        ranks.average(live)
        torch.nn.utils.clip_grad_norm_(ad, 1.0)
        om.step()
        oa.step()
        om.zero_grad(set_to_none=True)
        oa.zero_grad(set_to_none=True)
        step += 1
        seen += len(b["x0"]) * ranks.world
        if ranks.first:
            K.ema_update(ema, sd(), step - step0 + (1000 if c else 0), a.ema)
            k = b["F"] if b["task"] == "t2va" else b["task"]
            for n, x in ((f"v{k}", lv), (f"a{k}", la)):
                av[n] = x.item() if n not in av else .96 * av[n] + .04 * x.item()
            if clock.due():
                row = dict(step=step, seen=seen, wall=round(el), cpu=round(spent + clock.cpu() * ranks.world), lr=round(f, 3))
                for k in (*LENGTHS, "fl2va", "cont"):
                    row.update({f"v{k}": round(av.get(f"v{k}", 0), 4), f"a{k}": round(av.get(f"a{k}", 0), 4)})
                K.log(a.name, **row)
                ckpt()
    if ranks.first:
        ckpt()
    print("final", step, seen)


if __name__ == "__main__":
    main()
