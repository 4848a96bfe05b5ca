"""Checkers on pixels and waveforms, no learned parts: does a clip show and sound what its caption says?"""
import numpy as np
import world as D

COL = {k: np.array(v, np.float32) for k, v in D.COLORS.items()}


def objects(v):
    """uint8 [F, H, W, 3] -> background [H, W, 3], mask [F, H, W]. The background is read off the left and right edges."""
    x = v.astype(np.float32)
    F, H, W, _ = x.shape
    l = np.median(x[:, :, :6].transpose(1, 0, 2, 3).reshape(H, -1, 3), 1)
    r = np.median(x[:, :, -6:].transpose(1, 0, 2, 3).reshape(H, -1, 3), 1)
    g = np.linspace(0, 1, W, dtype=np.float32)[None, :, None]
    bg = l[:, None] * (1 - g) + r[:, None] * g
    return bg, np.abs(x - bg).max(-1) > 48


def background(bg):
    n = int(.9 * len(bg))
    return min(D.BGS, key=lambda k: np.abs(D.background(k, False, *bg.shape[:2])[:n] - bg[:n]).mean())


def motion(mask):
    """Class of the motion of a mask [F, H, W] (use 39 frames)."""
    F, H, W = mask.shape
    ar = mask.sum((1, 2)).astype(float)
    ok = ar > 15
    if ok.sum() < 8 or np.median(ar) < 20:
        return "none", None
    yy, xx = np.mgrid[0:H, 0:W]
    X, Y = (np.array([(mask[f] * z).sum() / max(1, ar[f]) for f in range(F)])[ok] for z in (xx, yy))
    t, A = np.arange(F)[ok], ar[ok]
    Xs, Ys = (np.convolve(np.pad(z, 1, mode="edge"), np.ones(3) / 3, "valid") for z in (X, Y))
    rx, ry = np.ptp(Xs) / H, np.ptp(Ys) / H
    n = max(3, len(A) // 6)
    ga = np.median(A[-n:]) / np.median(A[:n])
    dx, dy = (Xs[-n:].mean() - Xs[:n].mean()) / H, (Ys[-n:].mean() - Ys[:n].mean()) / H
    walk = np.abs(np.diff(Ys)).sum() / H
    if rx > .25 and ry > .18:
        k = "orbit"
    elif ry > .1 and walk > 1.6 * abs(dy) + .08 and rx < .3:
        k = "bounce"
    elif (ga > 1.3 or ga < .77) and abs(dx) < .12 and abs(dy) < .12:
        k = "grow" if ga > 1 else "shrink"
    elif abs(dx) > .1 and abs(dx) > 1.5 * abs(dy):
        k = "right" if dx > 0 else "left"
    elif abs(dy) > .07:
        k = "down" if dy > 0 else "up"
    else:
        k = "spin"
    b = []
    if k == "bounce":                                         # bottoms: local maxima of y
        b = [t[i] / D.FPS for i in range(1, len(Y) - 1) if Y[i] >= Y[i - 1] and Y[i] > Y[i + 1] and Y[i] > Y.min() + .75 * np.ptp(Y)]
    return k, b


def video(v, m):
    """Scores of a clip against the clip the caption fixes."""
    F, H, W, _ = v.shape
    bg, mask = objects(v)
    k, bottoms = motion(mask[:39])
    r = dict(bg=background(bg) == m["bg"], motion=k == m["motion"], kind=k, bottoms=bottoms or [])
    px = v[mask]
    if len(px) < 100:
        return dict(r, color=False, shape=False, iou=0., track=0.)
    c = np.median(px.astype(np.float32), 0)
    r["color"] = min(COL, key=lambda q: np.abs(COL[q] - c).sum() * .35 + np.abs((COL[q] - COL[q].mean()) - (c - c.mean())).sum()) == m["color"]
    iou, f = {}, np.arange(0, F, 3)
    for s in D.SHAPES:
        al = D.render(dict(m, shape=s), f, H, W)[1] > .5
        see = al.sum((1, 2)) > 60
        i, u = (al & mask[f]).sum((1, 2)), (al | mask[f]).sum((1, 2))
        iou[s] = float((i[see] / u[see]).mean()) if see.any() else 0.
        if s == m["shape"]:
            yy, xx = np.mgrid[0:H, 0:W]
            d = []
            for a, b in zip(al[see], mask[f][see]):
                d.append(b.sum() > 15 and np.hypot((xx[a].mean() - xx[b].mean()), (yy[a].mean() - yy[b].mean())) < .1 * H)
            r["track"] = float(np.mean(d)) if d else 0.
    r["iou"], r["shape"] = iou[m["shape"]], max(iou, key=iou.get) == m["shape"]
    return r


def onsets(a):
    """float [2, N] -> onset times from the 4 ms envelope."""
    m, h = a.mean(0), 128
    n = len(m) // h
    e = np.sqrt((m[:n * h].reshape(n, h) ** 2).mean(1) + 1e-12)
    pk = e.max()
    on, i = [], 0
    while i < n and pk > .01:
        lo = e[max(0, i - 6):i].min() if i else 0
        if e[i] > .35 * pk and e[i] > 2.2 * lo + .02 * pk:
            on.append(i * h / D.SR)
            i += 20
        else:
            i += 1
    return on


def pan(a):
    """Share of the right channel in the first and the last quarter of the sounding frames."""
    L, R = (np.sqrt((x.reshape(-1, 800) ** 2).mean(1)) for x in a)
    p, i = R / (L + R + 1e-6), np.nonzero((L + R) > .2 * (L + R).max())[0]
    q = max(1, len(i) // 4)
    return p[i[:q]].mean(), p[i[-q:]].mean()


def pitch(a):
    """Multiple of 40 Hz per 25 ms frame (the smallest strong one)."""
    out = []
    for s in np.abs(np.fft.rfft(a.mean(0).reshape(-1, 800), axis=1)):
        k = np.nonzero(s[6:40] > .45 * s[6:].max())[0]
        out.append(k[0] + 6 if len(k) else 0)
    return np.array(out)


def audio(a, m, bottoms=()):
    """Scores that apply to the motion. Trends over the first 65 latents (1.6 s)."""
    r, k = {}, m["motion"]
    b = a[:, :65 * 800]
    if k in ("left", "right"):
        n = int(.75 * 65) * 800 if m["speed"] == "quickly" else 65 * 800       # before it leaves the picture
        p0, p1 = pan(a[:, :n])
        r["pan"] = float(abs(p1 - p0) > .05 and (p1 > p0) == (k == "right"))
    if k in ("up", "down", "grow", "shrink"):
        n = int(.7 * 65) if m["speed"] == "quickly" else 65
        p = pitch(a[:, :n * 800])
        q = len(p) // 4
        d = np.median(p[-q:]) - np.median(p[:q])
        r["pitch"] = float(d > 0 if k in ("up", "shrink") else d < 0)
    if k in ("bounce", "spin"):
        ev, on = D.events(m, a.shape[1] / D.SR - .05), onsets(a)
        hit = [min([abs(e - o) for o in on] or [9]) < .07 for e in ev]
        r["onset_recall"] = float(np.mean(hit)) if ev else 1.
        r["onset_precision"] = float(np.mean([min(abs(e - o) for e in ev) < .07 for o in on])) if on and ev else 0.
    if k == "bounce":
        on = onsets(b)
        r["onset_vs_picture"] = float(len(bottoms) > 0 and len(on) > 0 and np.mean([min(abs(p - q) for q in on) < .07 for p in bottoms]))
    return r


def summary(rows):
    """List of score dictionaries -> {name: (mean, n)}."""
    ks = sorted({k for r in rows for k in r if k not in ("kind", "bottoms")})
    return {k: (round(float(np.mean([r[k] for r in rows if k in r])), 3), sum(k in r for r in rows)) for k in ks}


if __name__ == "__main__":
    r = np.random.default_rng(99)
    ev = D.everything()
    for F in (39, 124):
        rows, bad = [], []
        for _ in range(90):
            m = D.meta(ev[r.integers(len(ev))])
            s = video(D.render(m, range(F))[0], m)
            if not s["motion"]:
                bad.append((m["motion"], m["speed"], m["size"], m["shape"], s["kind"]))
            rows.append({**s, **audio(D.sound(m, D.audio_latents(F)), m, s["bottoms"])})
        print("true clips,", F, "frames:", summary(rows), bad)
