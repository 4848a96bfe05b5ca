"""Scores on held-out clips in the training code's own forward (checkpoints, no export, no program). usage: sample.py [--n 54 --evals 8,24 --frames 39,124 --tag x --key ema]; reads $H3NANO_DIR/{dit,vdec,adec}.pt.

The prompts and scorers are those of nano/evaluate. Writes contact sheets."""
import argparse, json
import numpy as np
import torch
import codec as C
import common as K
import h3
import vae
import world as D
from evaluate import prompts, scores
from evaluate.__main__ import pooled

torch.set_num_threads(1)
torch.set_grad_enabled(False)


class Nano:
    def __init__(self, dit="dit", vdec="vdec", adec="adec", key="ema"):
        self.tok = h3.tokenizer()
        self.P = h3.Presenter(self.tok)
        self.te, self.m = h3.make_te(h3.special_ids(self.tok)), h3.make_dit()
        c = K.load(dit)
        self.step, self.seen = c["step"], c["seen"]
        self.m.load_state_dict({k[2:]: v for k, v in c[key].items() if k[0] == "m"})
        self.te.load_state_dict({k[2:]: v for k, v in c[key].items() if k[0] == "t"})
        self.v, self.a = vae.make_video(), vae.make_audio()
        self.v.load_state_dict(K.load(vdec)["ema"], strict=False)
        self.a.load_state_dict(K.load(adec)["ema"], strict=False)

    def __call__(self, prompt, frames=39, evals=8, seed=0, sv=12., sa=3., first=None, last=None):
        """-> uint8 [F, H, W, 3], float [2, N]. first, last: uint8 pictures."""
        an = tuple(k for k, x in (("first", first), ("last", last)) if x is not None)
        ids, runs = self.P(prompt, len(an))
        L, na = frames // 17 * 5 + 2, D.audio_latents(frames)
        lay = h3.layout([r for r in runs if r[0]], L, D.H // 16, D.W // 16, na, an)
        cond, px, grid = None, None, None
        g = torch.Generator().manual_seed(seed)
        if an:
            im = np.stack([x for x in (first, last) if x is not None])
            px, grid = h3.vision_patches(im)
            z = vae.encode_picture(self.v, C.norm(im).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
            cond = h3.patchify(z[None])
            cond = .999 * cond + .001 * torch.randn(cond.shape, generator=g)
        T = h3.encode_text(self.te, torch.tensor([ids]), px, grid)
        noise = (torch.randn(1, lay[1][-1][0], 96, generator=g), torch.randn(1, lay[5], 32, generator=g))
        x, a = h3.sample(self.m, lay, T, evals, sv=sv, sa=sa, cond=cond, noise=noise)
        v = vae.decode_clip(self.v, h3.unpatchify(x, L))
        return v, self.a.decode(a.view(2, na, 32).transpose(1, 2)).sample[:, 0].numpy()


def main():
    ap = argparse.ArgumentParser()
    for k, v in dict(n=54, evals="8,24", frames="39,124", tag="eval", key="ema", shift="12:3", fl=0, dit="dit").items():
        ap.add_argument("--" + k, type=type(v), default=v)
    a = ap.parse_args()
    nano = Nano(dit=a.dit, key=a.key)
    print("step", nano.step, "seen", nano.seen)
    out = []
    sv, sa = (float(x) for x in a.shift.split(":"))
    for F in map(int, a.frames.split(",")):
        for e in map(int, a.evals.split(",")):
            rows, vids, kinds = [], [], {}
            for i, (m, cap) in enumerate(prompts.held_out(a.n, 0)):
                kw = {}
                if a.fl:                                      # 1 first, 2 last, 3 both
                    im = D.render(m, [0, F - 1])[0]
                    kw = dict(first=im[0] if a.fl & 1 else None, last=im[1] if a.fl & 2 else None)
                v, w = nano(cap, F, e, seed=i, sv=sv, sa=sa, **kw)
                s, raw = scores.clip(v, w, m)
                rows.append(s)
                kinds.setdefault(m["motion"], []).append(raw["seen"]["motion"] or "none")
                if i < 12:
                    vids.append(v)
            s = {k: [round(x, 3) for x in v] for k, v in pooled(rows).items()}
            print(f"== {F} frames, {e} evaluations, shift {sv:g}/{sa:g}, n {a.n}:", {k: v[0] for k, v in s.items()})
            print("  ", {k: {x: z.count(x) for x in sorted(set(z))} for k, z in kinds.items()}, flush=True)
            D.sheet(vids, f"{C.WORK}/{a.tag}_{F}_{e}.png", every=4 if F == 39 else 12, scale=.7)
            out.append(dict(step=nano.step, seen=nano.seen, frames=F, evals=e, n=a.n, shift=a.shift, fl=a.fl, scores=s))
            with open(f"{C.WORK}/{a.tag}.json", "w") as f:
                json.dump(out, f, indent=1)
    for i, (m, cap) in enumerate(prompts.held_out(12, 0)):
        print(i, cap)


if __name__ == "__main__":
    main()
