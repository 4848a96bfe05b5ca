"""Audio decoder. usage: train_adec.py --name adec --seconds S [--lr LR --batch B]"""
import math
import numpy as np
import torch
import codec as C
import common as K
import vae
import world as D

torch.set_num_threads(1)
NF = 12


def batch(r, cl, n):
    out = []
    while len(out) < n:
        m = dict(cl[r.integers(len(cl))])
        a = D.sound(m, 130)
        for _ in range(2):
            s = int(r.integers(0, 130 - NF + 1)) * 800
            out.append(a[r.integers(2), s:s + NF * 800])
    x = torch.from_numpy(np.stack(out))
    return x, C.encode_audio(x).transpose(1, 2)


def stft_loss(a, b):
    l = 0
    for n in (256, 1024):
        w = torch.hann_window(n)
        A, B = (torch.stft(z, n, n // 4, window=w, return_complex=True).abs().clamp_min(1e-5) for z in (a, b))
        l = l + (A - B).norm() / (B.norm() + 1e-3) + .3 * (torch.log(A + .02) - torch.log(B + .02)).abs().mean()
    return l / 2


def main():
    a = K.args(lr=2e-3, batch=16)
    torch.manual_seed(a.seed)
    v = vae.make_audio()
    ps = list(v.decoder.parameters()) + list(v.dec_in_proj.parameters())
    opt = torch.optim.AdamW(ps, lr=a.lr, betas=(.9, .99), weight_decay=0)
    sd = lambda: {k: p for k, p in v.state_dict().items() if k.startswith(("decoder", "dec_in"))}
    step, spent, ema = 0, 0., None
    c = K.load(a.name)
    if c:
        v.load_state_dict(c["s"], strict=False)
        step, spent, ema = c["step"], c["spent"], c["ema"]
        if "o" in c:
            opt.load_state_dict(c["o"])
    if ema is None:
        ema = {k: p.detach().clone() for k, p in sd().items()}
    cl = [D.meta(x) for x in D.order()]
    r = np.random.default_rng(a.seed * 1000003 + step)
    EX, EZ = batch(np.random.default_rng(5), cl[-D.HELD_OUT:], 64)
    cl = cl[:-D.HELD_OUT]

    def evaluate():
        now = {k: p.clone() for k, p in sd().items()}
        v.load_state_dict(ema, strict=False)
        with torch.no_grad():
            y, q = (v.decode(z).sample[:, 0] for z in (EZ, EZ + .15 * torch.randn_like(EZ)))
        v.load_state_dict(now, strict=False)
        return [round(10 * math.log10(EX.pow(2).mean() / (z - EX).pow(2).mean()), 2) for z in (y, q)] + [round(stft_loss(y, EX).item(), 3)]
    clock = K.Clock(a.seconds, a.decay)
    step0 = step

    def ckpt():
        K.save(a.name, dict(s=sd(), ema=ema, o=opt.state_dict(), step=step, spent=spent + clock.cpu()))
    while clock.tick() < a.seconds:
        f = clock.factor(step - step0, 50)
        for g in opt.param_groups:
            g["lr"] = a.lr * f
        x, z = batch(r, cl, a.batch)
        z = z + torch.rand(len(z), 1, 1) * .2 * (torch.rand(len(z), 1, 1) < .5) * torch.randn_like(z)
        y = v.decode(z).sample[:, 0]
        mse = (y - x).pow(2).mean() / x.pow(2).mean().clamp_min(1e-4)
        loss = mse + .3 * (y - x).abs().mean() / x.abs().mean().clamp_min(1e-3) + (.3 * stft_loss(y, x) if step % 2 == 0 else 0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ps, 1.0)
        opt.step()
        step += 1
        K.ema_update(ema, sd(), step - step0 + (1000 if c else 0))
        if clock.due():
            s, n, st = evaluate()
            K.log(a.name, step=step, wall=round(clock.tick()), cpu=round(spent + clock.cpu()), lr=round(f, 3), mse=round(mse.item(), 4), snr=s, snr_noise15=n, stft=st)
            ckpt()
    ckpt()
    print("final", step, evaluate())


if __name__ == "__main__":
    main()
