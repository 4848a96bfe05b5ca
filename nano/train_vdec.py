"""Video decoder. usage: train_vdec.py --name vdec --seconds S [--lr LR --batch B]"""
import math
import numpy as np
import torch
import torch.nn.functional as F
import codec as C
import common as K
import vae
import world as D

torch.set_num_threads(1)


def batch(r, cl, n):
    """n windows of 22 frames -> pixels [n, 3, 22, H, W], coverage, latents."""
    X, A, Z = [], [], []
    for _ in range(n):
        m = cl[r.integers(len(cl))]
        f0 = 17 * int(r.integers(0, 7))
        x, a = D.render(m, np.arange(f0, f0 + 22))
        X.append(x)
        A.append(a)
        Z.append(C.clip_latents(m, C.groups(22) + f0))
    return C.norm(np.stack(X)).permute(0, 4, 1, 2, 3), torch.from_numpy(np.stack(A))[:, None], torch.stack(Z).permute(0, 4, 1, 2, 3)


def main():
    a = K.args(lr=3e-3, batch=3)
    torch.manual_seed(a.seed)
    v = vae.make_video()
    ps = list(v.decoder.parameters()) + list(v.post_quant_conv.parameters())
    mu = [p for n, p in v.decoder.named_parameters() if "transformer_blocks" in n and p.ndim == 2]
    ids = {id(p) for p in mu}
    oa = torch.optim.AdamW([p for p in ps if id(p) not in ids], lr=a.lr, betas=(.9, .98), weight_decay=1e-3)
    om = torch.optim.Muon(mu, lr=a.lr, weight_decay=.01, adjust_lr_fn="match_rms_adamw")
    sd = lambda: {k: p for k, p in v.state_dict().items() if k.startswith(("decoder", "post_quant"))}
    step, spent, ema = 0, 0., None
    c = K.load(a.name)
    if c:
        v.load_state_dict(c["s"], strict=False)
        step, spent, ema = c["step"], c["spent"], c["ema"]
        if "oa" in c:
            oa.load_state_dict(c["oa"])
            om.load_state_dict(c["om"])
    if ema is None:
        ema = {k: p.detach().clone() for k, p in sd().items()}
    cl = [D.meta(x) for x in D.order()]
    r = np.random.default_rng(a.seed * 1000003 + step)
    EX, EA, EZ = batch(np.random.default_rng(123), cl[-D.HELD_OUT:], 6)
    cl = cl[:-D.HELD_OUT]

    def evaluate():
        now = {k: p.clone() for k, p in sd().items()}
        v.load_state_dict(ema, strict=False)
        S, M = C.STD.view(3, 1, 1, 1), C.MEAN.view(3, 1, 1, 1)
        with torch.no_grad():
            o = EX * S + M
            e = [((vae.decode7(v, z).float() * S + M).clamp(0, 1) - o).pow(2) for z in (EZ, EZ + .15 * torch.randn_like(EZ))]
        w = F.max_pool3d(EA, (1, 9, 9), 1, (0, 4, 4))
        v.load_state_dict(now, strict=False)
        return [round(-10 * math.log10(x), 2) for x in (e[0].mean(), (e[0] * w).sum() / (3 * w.sum()), e[1].mean())]
    clock = K.Clock(a.seconds, a.decay)
    step0 = step

    def ckpt():
        K.save(a.name, dict(s=sd(), ema=ema, oa=oa.state_dict(), om=om.state_dict(), step=step, spent=spent + clock.cpu()))
    while clock.tick() < a.seconds:
        f = clock.factor(step - step0, 30)
        for g in oa.param_groups + om.param_groups:
            g["lr"] = a.lr * f
        x, al, z = batch(r, cl, a.batch)
        z = z + torch.rand(a.batch, 1, 1, 1, 1) * .3 * (torch.rand(a.batch, 1, 1, 1, 1) < .6) * torch.randn_like(z)
        d = vae.decode7(v, z).float() - x
        w = 1 + 4 * F.interpolate(F.max_pool3d(al, (1, 8, 8), (1, 4, 4), (0, 2, 2)), size=al.shape[2:], mode="nearest")
        rec = (w * (d.abs() + .5 * d * d)).sum() / (w.sum() * 3)
        gx, gy = (d[..., 1:] - d[..., :-1]).abs(), (d[..., 1:, :] - d[..., :-1, :]).abs()
        loss = rec + .3 * ((gx * w[..., 1:]).mean() + (gy * w[..., 1:, :]).mean())
        oa.zero_grad(set_to_none=True)
        om.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ps, 1.0)
        oa.step()
        om.step()
        step += 1
        K.ema_update(ema, sd(), step - step0 + (1000 if c else 0))
        if clock.due(90):
            p, o, q = evaluate()
            K.log(a.name, step=step, wall=round(clock.tick()), cpu=round(spent + clock.cpu()), lr=round(f, 3), rec=round(rec.item(), 4), psnr=p, psnr_shape=o, psnr_noise15=q)
            ckpt()
    ckpt()
    print("final", step, evaluate())


if __name__ == "__main__":
    main()
