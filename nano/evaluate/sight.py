"""What the frames of a clip show, measured without learned parts. Numpy only; uint8 frames [F, H, W, 3]; lengths in heights of the picture."""
import functools
import numpy as np
import world as D

COLORS = {k: np.array(v, np.float32) for k, v in D.COLORS.items()}
SEEN = 20                                                     # pixels below which nothing is there


def backdrop(v):
    """[H, W, 3] read off the left and right edges (median over time), a straight line between them."""
    x = v.astype(np.float32)
    l, r = (np.median(e.transpose(1, 0, 2, 3).reshape(len(x[0]), -1, 3), 1) for e in (x[:, :, :6], x[:, :, -6:]))
    g = np.linspace(0, 1, x.shape[2], dtype=np.float32)[None, :, None]
    return l[:, None] * (1 - g) + r[:, None] * g


def most(d):
    """Largest channel; numpy is slow at reducing an axis of three."""
    return np.maximum(np.maximum(d[..., 0], d[..., 1]), d[..., 2])


class Sight:
    """bg [H, W, 3]; mask [F, H, W]; colour [3] or None; area [F] pixels; x, y [F] centroid; seen [F]; whole [F] (no pixel at the rim)."""
    def __init__(self, v):
        F, H, W, _ = v.shape
        self.v, self.H, self.W, self.bg, self.still = v, H, W, backdrop(v), None
        d = v.astype(np.float32) - self.bg
        far = most(np.abs(d))
        rough = far > 48
        self.colour, self.mask = None, rough
        if rough.sum() >= 100:
            self.colour = np.median(v[rough].astype(np.float32), 0)
            c = self.colour - self.bg                         # half covered or more; against the object's own colour
            self.mask = (np.einsum('fhwc,hwc->fhw', d, c) > .5 * (c * c).sum(-1)) & (far > 24)
        self.area = self.mask.sum((1, 2)).astype(float)
        n = np.maximum(self.area, 1)
        self.x = (self.mask.sum(1) * (np.arange(W) + .5)).sum(1) / n / H
        self.y = (self.mask.sum(2) * (np.arange(H) + .5)).sum(1) / n / H
        self.seen = self.area > SEEN
        m = self.mask
        rim = m[:, :2].any((1, 2)) | m[:, -2:].any((1, 2)) | m[:, :, :2].any((1, 2)) | m[:, :, -2:].any((1, 2))
        self.whole = self.seen & ~rim


def background(s):
    n = int(.9 * s.H)                                         # above the floor of a bounce
    return min(D.BGS, key=lambda k: np.abs(D.background(k, False, s.H, s.W)[:n] - s.bg[:n]).mean())


def colour(s):
    if s.colour is None:
        return None
    c = s.colour
    return min(COLORS, key=lambda q: np.abs(COLORS[q] - c).sum() * .35 + np.abs((COLORS[q] - COLORS[q].mean()) - (c - c.mean())).sum())


@functools.lru_cache(None)
def outline(shape):
    """Of a shape of radius 1: area, centroid y (x is 0)."""
    g = (np.arange(-160, 160) + .5) / 120
    on = D.sdf(shape, g[None], g[:, None], 1.) < 0
    return on.sum() / 120. ** 2, float((on * g[:, None]).sum() / on.sum())


def agreement(mask, x, y, area, shape, angle):
    """Intersection over union of a mask with the shape of the same area and centroid."""
    a1, oy = outline(shape)
    r = np.sqrt(area / a1)
    H, W = mask.shape
    R = int(1.6 * r) + 3
    y0, x0 = max(0, int(y) - R), max(0, int(x) - R)
    m = mask[y0:int(y) + R, x0:int(x) + R]
    c, sn = np.cos(angle), np.sin(angle)
    dx = np.arange(x0, x0 + m.shape[1])[None] + .5 - (x + sn * oy * r)   # the centroid turns with the shape
    dy = np.arange(y0, y0 + m.shape[0])[:, None] + .5 - (y - c * oy * r)
    on = D.sdf(shape, c * dx + sn * dy, -sn * dx + c * dy, r) < 0
    return (on & m).sum() / max(1, (on | m).sum())


def shape(s, spinning=False, looks=12):
    """The shape that fits best at the object's own place and area, so that a late or small object is not a wrong one."""
    f = np.nonzero(s.whole & (s.area > 60))[0]
    if not len(f):
        return None, {}
    f = f[np.linspace(0, len(f) - 1, min(looks, len(f))).astype(int)]
    fit = {}
    for k in D.SHAPES:
        turns = np.arange(0, 2 * np.pi, np.pi / 12) if spinning and k in ("square", "triangle", "star") else [0.]
        fit[k] = float(np.mean([max(agreement(s.mask[i], s.x[i] * s.H, s.y[i] * s.H, s.area[i], k, a) for a in turns) for i in f]))
    return max(fit, key=fit.get), fit


def size(s, m):
    """Nearest of the three sizes by area, the named growth taken out."""
    f = np.nonzero(s.whole)[0]
    if not len(f):
        return None
    scale = D.path(m, f / D.FPS, s.W / s.H)[2]
    r = np.median(np.sqrt(s.area[f] / outline(m["shape"])[0]) / s.H / scale)
    return min(D.SIZES, key=lambda k: abs(np.log(D.SIZES[k] / r)))


def motion(s, frames=39):
    """Which of the nine motions the first frames show, whatever its phase and speed."""
    ok = s.seen[:frames]
    if ok.sum() < 8:
        return None
    X, Y, A = s.x[:frames][ok], s.y[:frames][ok], s.area[:frames][ok]
    X, Y = (np.convolve(np.pad(z, 1, mode="edge"), np.ones(3) / 3, "valid") for z in (X, Y))
    n = max(3, len(A) // 6)
    growth = np.median(A[-n:]) / np.median(A[:n])
    dx, dy = X[-n:].mean() - X[:n].mean(), Y[-n:].mean() - Y[:n].mean()
    walk = np.abs(np.diff(Y)).sum()
    if np.ptp(X) > .25 and np.ptp(Y) > .18:
        return "orbit"
    if np.ptp(Y) > .1 and walk > 1.6 * abs(dy) + .08 and np.ptp(X) < .3:
        return "bounce"
    if (growth > 1.3 or growth < .77) and abs(dx) < .12 and abs(dy) < .12:
        return "grow" if growth > 1 else "shrink"
    if abs(dx) > .1 and abs(dx) > 1.5 * abs(dy):
        return "right" if dx > 0 else "left"
    if abs(dy) > .07:
        return "down" if dy > 0 else "up"
    return "spin"


def speed(s, m):
    """The speed whose path (for a spin: whose turning outline) the clip follows best."""
    F = len(s.area)
    cost = {}
    for k in D.SPEEDS:
        q = dict(m, speed=k)
        if m["motion"] == "spin":
            f = np.nonzero(s.whole[:39])[0][::2]
            angle = D.path(q, f / D.FPS, s.W / s.H)[3]
            cost[k] = -np.mean([agreement(s.mask[i], s.x[i] * s.H, s.y[i] * s.H, s.area[i], m["shape"], a) for i, a in zip(f, angle)]) if len(f) else 0
            continue
        x, y, z, _ = D.path(q, np.arange(F) / D.FPS, s.W / s.H)
        r = D.SIZES[m["size"]] * z
        there = (x > -.3 * r) & (x < s.W / s.H + .3 * r) & (y > -.3 * r) & (y < 1 + .3 * r)
        d = np.minimum(.5, np.hypot(s.x - x, s.y - y)) + .5 * np.minimum(1, np.abs(np.log(np.maximum(np.sqrt(s.area / outline(m["shape"])[0]) / s.H, .01) / r)))
        cost[k] = np.where(there & s.seen, d, np.where(there != s.seen, .5, 0)).mean()
    return min(cost, key=cost.get) if s.seen.any() else None


def overlap(s, m, step=3):
    """(mean intersection over union with the true mask, share of frames whose centroid is within 0.1) over the frames that should show it."""
    f = np.arange(0, len(s.area), step)
    al = D.render(m, f, s.H, s.W)[1] > .5
    see = al.sum((1, 2)) > 60
    if not see.any():
        return None
    iou, near = [], []
    for a, i in zip(al[see], f[see]):
        b = s.mask[i]
        iou.append((a & b).sum() / (a | b).sum())
        yy, xx = np.nonzero(a)
        near.append(bool(s.seen[i] and np.hypot(xx.mean() + .5 - s.x[i] * s.H, yy.mean() + .5 - s.y[i] * s.H) < .1 * s.H))
    return float(np.mean(iou)), float(np.mean(near))


def contacts(s):
    """Times (s) at which a bouncing object is lowest. It comes and leaves at speed, so the time between frames follows from the two neighbours."""
    Y, out = s.y, []
    if s.seen.sum() < 8 or np.ptp(Y[s.seen]) < .05:
        return out
    lo, hi = np.percentile(Y[s.seen], 3), np.percentile(Y[s.seen], 99)
    for i in range(1, len(Y) - 1):
        if not s.seen[i - 1:i + 2].all() or Y[i] < Y[i - 1] or Y[i] <= Y[i + 1] or Y[i] < lo + .6 * (hi - lo):
            continue
        a, b = Y[i] - Y[i - 1], Y[i] - Y[i + 1]
        if max(a, b) < .004:
            continue
        t = (i + (Y[i + 1] - Y[i - 1]) / (2 * max(a, b))) / D.FPS
        if not out or t - out[-1] > .2:
            out.append(t)
    return out


def psnr(a, b, peak=255.):
    e = np.mean((a.astype(np.float32) - b.astype(np.float32)) ** 2)
    return float(99. if e == 0 else 10 * np.log10(peak ** 2 / e))


def stillness(s):
    """Mean change of the background between two frames, in levels of 255: (inside a chunk, across its borders). 17 frames are a chunk."""
    away = ~(s.mask[1:] | s.mask[:-1])
    for k in (1, 2, 3):                                       # and a margin of three pixels around the object
        grown = away.copy()
        grown[:, 1:] &= away[:, :-1]
        grown[:, :-1] &= away[:, 1:]
        grown[:, :, 1:] &= away[:, :, :-1]
        grown[:, :, :-1] &= away[:, :, 1:]
        away = grown
    d = np.abs(s.v[1:].astype(np.int16) - s.v[:-1])
    d = (d[..., 0] + d[..., 1] + d[..., 2]) / np.float32(3)
    per = (d * away).sum((1, 2)) / np.maximum(1, away.sum((1, 2)))
    border = np.arange(1, len(s.v)) % 17 == 0
    return float(per[~border].mean()), float(per[border].mean()) if border.any() else None
