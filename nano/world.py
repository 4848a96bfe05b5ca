"""The world H3-nano knows: one shape moves on a lit background and sounds as it moves. numpy only.

A caption fixes everything but the noise: every path is a function of the time since the start, so a short clip is
the beginning of a longer one. x runs over [0, W/H], y over [0, 1] (1 = bottom). Periods are fractions of 17 frames,
the clip length of H3's video VAE. The light comes from the upper left, on the shapes and on the background: that
gradient is what lets attention, which sees relative positions only, tell left from right.
Every partial of the sound is a multiple of 40 Hz with phase 0 at t = 0, so that a steady note repeats every
800 samples = one audio latent. Contacts and ticks start at their instant (causal), pitch follows height or size, pan follows x."""
import functools
import numpy as np

FPS, SR, HOP, H, W = 24, 32000, 800, 128, 192
CHUNK = 17 / FPS
COLORS = dict(red=(226, 44, 44), green=(46, 190, 74), blue=(52, 96, 236), yellow=(245, 216, 50),
              purple=(168, 66, 214), cyan=(56, 212, 222), orange=(246, 140, 34), white=(242, 242, 242))
BGS = dict(dark=((44, 44, 54), (12, 12, 18)), gray=((142, 144, 150), (90, 92, 96)),       # upper left, lower right
           light=((236, 238, 242), (176, 180, 188)), navy=((30, 48, 116), (8, 14, 44)))
BAD = {("white", "light"), ("blue", "navy")}
SHAPES = ("circle", "square", "triangle", "star", "ring")
SIZES = dict(small=.12, medium=.18, large=.25)                # radius / height
SPEEDS = ("slowly", "", "quickly")
MOTIONS = ("bounce", "left", "right", "up", "down", "orbit", "grow", "shrink", "spin")
SCALE = np.array([8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32])  # times 40 Hz: 320..1280 Hz
PART = dict(circle={1: 1.0, 2: .08}, square={1: .8, 3: .27, 5: .16}, triangle={1: .6, 2: .3, 3: .2, 4: .15},
            star={1: .6, 4: .3, 7: .12}, ring={1: .6, 2: .45})
_t = np.arange(HOP) / SR
TABLE = {s: np.stack([sum(a * np.sin(2 * np.pi * 40 * k * m * _t) for m, a in p.items()) for k in SCALE]).astype(np.float32)
         for s, p in PART.items()}


def valid(m):
    """A spinning circle looks still; white on light and blue on navy are hard to see."""
    return (m["color"], m["bg"]) not in BAD and not (m["motion"] == "spin" and m["shape"] in ("circle", "ring"))


@functools.lru_cache(None)
def everything():
    """All 11,610 different clips of the world, as tuples."""
    import itertools
    ks = ("color", "shape", "size", "motion", "speed", "bg")
    return [c for c in itertools.product(COLORS, SHAPES, SIZES, MOTIONS, SPEEDS, BGS) if valid(dict(zip(ks, c)))]


HELD_OUT = 300                                                # the last clips of order() are never trained on


def order():
    """Every clip of the world in a fixed shuffle."""
    ev = everything()
    return [ev[i] for i in np.random.default_rng(20261201).permutation(len(ev))]


def meta(c):
    return dict(zip(("color", "shape", "size", "motion", "speed", "bg"), c))


# ------------------------------------------------------------------------------------------------ captions
VERBS = dict(bounce=("bounces", "is bouncing", "bounces up and down"), left=("slides left", "slides to the left", "moves left"),
             right=("slides right", "slides to the right", "moves right"), up=("rises", "moves up", "is rising"),
             down=("falls", "moves down", "is falling"), orbit=("orbits", "circles around", "moves in a circle"),
             grow=("grows", "is growing", "gets bigger"), shrink=("shrinks", "is shrinking", "gets smaller"),
             spin=("spins", "is spinning", "rotates"))


def caption(m, rng):
    """A natural sentence. The size is left out when it is medium, the background (sometimes) when it is dark."""
    def pick(*a):
        return a[int(rng.integers(len(a)))]
    size = dict(small=pick("small ", "small ", "little "), medium="", large=pick("large ", "big "))[m["size"]]
    sp = dict(slowly=" slowly", quickly=pick(" quickly", " quickly", " fast")).get(m["speed"], "")
    thing = f"{size}{m['color']} {m['shape']}"
    if m["shape"] == "circle" and rng.random() < .2:
        thing = f"{size}{m['color']} ball"
    v = VERBS[m["motion"]][0] if rng.random() < .6 else pick(*VERBS[m["motion"]])
    bg = pick(m["bg"], m["bg"], m["bg"], dict(dark="black", gray="grey", light="bright", navy="navy blue")[m["bg"]])
    art = "an" if thing.startswith("orange") else "a"
    k = rng.random()
    if m["bg"] == "dark" and k < .2:
        s = f"{art} {thing} {v}{sp}"
    elif k < .65:
        s = f"{art} {thing} {v}{sp} on a {bg} background"
    elif k < .75:
        s = f"{thing} {v}{sp}, {bg} background"
    elif k < .85:
        s = f"on a {bg} background, {art} {thing} {v}{sp}"
    elif k < .92:
        s = f"the {thing} {v}{sp} against a {bg} background"
    else:
        s = f"{art} {thing} {v}{sp} in front of a {bg} background"
    if rng.random() < .4:
        s = s[0].upper() + s[1:] + "."
    return s


# ------------------------------------------------------------------------------------------------ motion
def path(m, t, aspect=W / H):
    """x, y, scale, angle at the times t (seconds)."""
    t = np.asarray(t, np.float64)
    k, sp, r = m["motion"], SPEEDS.index(m["speed"]), SIZES[m["size"]]
    x, y, s, a = np.full_like(t, aspect / 2), np.full_like(t, .5), np.ones_like(t), np.zeros_like(t)
    rr = 1.2 * r + .02
    if k == "bounce":                                         # dropped from the top of its arc at t = 0
        per, h = bounce(m)
        p = (t / per + .5) % 1.0
        y = .93 - r - h * 4 * p * (1 - p)
    elif k in ("left", "right"):                              # leaves at one side and comes back at the other
        x = (r + .1 + (.28, .52, .9)[sp] * t + rr) % (aspect + 2 * rr) - rr
        x = x if k == "right" else aspect - x
    elif k in ("up", "down"):
        y = (r + .06 + (.2, .36, .6)[sp] * t + rr) % (1 + 2 * rr) - rr
        y = y if k == "down" else 1 - y
    elif k == "orbit":                                        # clockwise from the top
        th = -np.pi / 2 + 2 * np.pi * t / (CHUNK * (6, 3, 2)[sp])
        x, y = aspect / 2 + .45 * np.cos(th), .5 + .26 * np.sin(th)
    elif k in ("grow", "shrink"):
        u = np.clip(t / (5.2, 2.6, 1.3)[sp], 0, 1)
        s = .6 + 1.1 * (u if k == "grow" else 1 - u)
    elif k == "spin":
        a = np.pi / 2 * t / (CHUNK * (2, 1, .5)[sp])
    return x, y, s, a


def bounce(m):
    sp = SPEEDS.index(m["speed"])
    return CHUNK * (2, 1, 2 / 3)[sp], (.60, .50, .38)[sp] * (1 - 1.1 * (SIZES[m["size"]] - .11))


def events(m, T):
    """Times of the contacts of a bounce, of the quarter turns of a spin."""
    sp = SPEEDS.index(m["speed"])
    if m["motion"] == "bounce":
        per = bounce(m)[0]
        return [e for e in per * (np.arange(80) + .5) if e < T]
    if m["motion"] == "spin":
        return [e for e in CHUNK * (2, 1, .5)[sp] * np.arange(1, 80) if e < T]
    return []


# ------------------------------------------------------------------------------------------------ pictures
def sdf(shape, x, y, r):
    """Signed distance (approximate) to the shape of radius r centred at 0."""
    if shape == "circle":
        return np.hypot(x, y) - r
    if shape == "ring":
        return np.abs(np.hypot(x, y) - r * .72) - r * .28
    if shape == "square":
        return np.maximum(np.abs(x), np.abs(y)) - r * .86
    if shape == "triangle":
        return np.maximum(np.maximum(.866 * x - .5 * y, -.866 * x - .5 * y), y) - r * .55
    a = np.arctan2(x, -y)                                     # star, 5 points
    rad = np.hypot(x, y)
    a = np.abs((a + np.pi / 5) % (2 * np.pi / 5) - np.pi / 5)
    R, ri = r * 1.15, r * .5                                  # points, valleys
    nx, ny = ri * np.sin(np.pi / 5), R - ri * np.cos(np.pi / 5)
    return ((rad * np.cos(a) - R) * nx + rad * np.sin(a) * ny) / np.hypot(nx, ny)


@functools.lru_cache(64)
def background(bg, floor, h=H, w=W):
    a, b = (np.array(c, np.float32) for c in BGS[bg])
    g = .5 * (np.arange(h, dtype=np.float32) / (h - 1))[:, None] + .5 * (np.arange(w, dtype=np.float32) / (w - 1))[None]
    im = a * (1 - g[..., None]) + b * g[..., None]
    if floor:
        f = int(round(.93 * h))
        im[f:] = im[f:] * .6 + 16 + (14 if bg in ("dark", "navy") else -24)
    return np.clip(im, 0, 255)


def draw(im, m, x, y, s, a, oy=0, ox=0, h=H):
    """Paints the shape into im [n, hh, ww, 3] (float, a copy of the background at rows oy, columns ox). Returns coverage."""
    n, hh, ww, _ = im.shape
    r = (SIZES[m["size"]] * h * s)[:, None, None]
    dx = (np.arange(ww, dtype=np.float32) + ox + .5)[None, None] - (x * h).astype(np.float32)[:, None, None]
    dy = (np.arange(hh, dtype=np.float32) + oy + .5)[None, :, None] - (y * h).astype(np.float32)[:, None, None]
    c, sn = np.cos(a)[:, None, None], np.sin(a)[:, None, None]
    al = np.clip(.5 - sdf(m["shape"], c * dx + sn * dy, -sn * dx + c * dy, r) / 1.4, 0, 1).astype(np.float32)[..., None]
    sh = 1.08 - .22 * np.clip((dx + dy) / (2 * r) + .3, -1, 1)
    im += al * (np.clip(np.array(COLORS[m["color"]], np.float32) * sh[..., None], 0, 255) - im)
    return al[..., 0]


def render(m, frames, h=H, w=W):
    """Frames by number -> video uint8 [n, h, w, 3], coverage [n, h, w]."""
    t = np.asarray(frames) / FPS
    x, y, s, a = path(m, t, w / h)
    bg = background(m["bg"], m["motion"] == "bounce", h, w)
    out, al = np.empty((len(t), h, w, 3), np.uint8), np.zeros((len(t), h, w), np.float32)
    for i in range(len(t)):
        R = SIZES[m["size"]] * h * s[i] * 1.2 + 3
        y0, y1 = (int(np.clip(v, 0, h)) for v in (y[i] * h - R, y[i] * h + R + 1))
        x0, x1 = (int(np.clip(v, 0, w)) for v in (x[i] * h - R, x[i] * h + R + 1))
        im = bg.copy()
        if y1 > y0 and x1 > x0:
            p = bg[None, y0:y1, x0:x1].copy()
            al[i, y0:y1, x0:x1] = draw(p, m, x[i:i + 1], y[i:i + 1], s[i:i + 1], a[i:i + 1], y0, x0, h)[0]
            im[y0:y1, x0:x1] = p[0]
        out[i] = im + .5
    return out, al


# ------------------------------------------------------------------------------------------------ sound
def notes(m, na, aspect=W / H):
    """Index into SCALE of the steady note of each audio latent: it follows height, of a growing or shrinking shape smallness."""
    _, y, s, _ = path(m, (np.arange(na) + .5) / 40, aspect)
    i = 9.5 - 17 * (SIZES[m["size"]] * s - .05) if m["motion"] in ("grow", "shrink") else (1 - y) * 12 - 1
    return np.clip(np.round(i), 0, 10).astype(int)


def sound(m, na, aspect=W / H):
    """float32 [2, 800 na] for the first na audio latents."""
    n = na * HOP
    ta = (np.arange(na) + .5) / 40
    x = path(m, ta, aspect)[0]
    tab = TABLE[m["shape"]]
    t = np.arange(n) / SR
    base = dict(small=9, medium=6, large=2)[m["size"]]
    if m["motion"] in ("bounce", "spin"):
        tau = .075 if m["motion"] == "bounce" else .03
        mono = np.zeros(n, np.float32)
        for i, e in enumerate(events(m, n / SR)):
            i0 = int(np.ceil(e * SR))
            i1 = min(n, i0 + int(SR * tau * 9))
            q = t[i0:i1] - e
            note = base if m["motion"] == "bounce" else max(0, base - 1 - 2 * (i % 2))
            w = np.take(tab[note], np.arange(i0, i1) % HOP)
            mono[i0:i1] += (np.exp(-q / tau) * (1 - np.exp(-q / .0015)) * w).astype(np.float32)
        amp = .6
    else:
        idx = notes(m, na, aspect)
        mono = np.zeros(n, np.float32)
        for u in np.unique(idx):
            g = np.repeat((idx == u).astype(np.float64), HOP)
            c = np.concatenate([np.zeros(161), np.cumsum(g), np.full(160, g.sum())])
            mono += (((c[320:] - c[:-320])[:n] / 320) * np.tile(tab[u], na)).astype(np.float32)
        mono *= np.minimum(1, t / .02)
        amp = .4
    th = np.interp(t, ta, .12 + .76 * np.clip(x / aspect, 0, 1)) * np.pi / 2
    return (amp * np.stack([mono * np.cos(th), mono * np.sin(th)])).astype(np.float32)


def audio_latents(frames):
    return int(round(frames / FPS * 40))


def sheet(videos, file, every=4, scale=1):
    """List of uint8 [F, H, W, 3] -> PNG contact sheet, one row a clip."""
    from PIL import Image
    n = max(len(v[::every]) for v in videos)
    rows = [np.concatenate([v[min(i * every, len(v) - 1)] for i in range(n)], 1) for v in videos]
    im = Image.fromarray(np.concatenate(rows, 0))
    if scale != 1:
        im = im.resize((int(im.width * scale), int(im.height * scale)), Image.BILINEAR)
    im.save(file)


if __name__ == "__main__":
    import sys, time
    r = np.random.default_rng(0)
    ev = everything()
    t0 = time.time()
    ms = [dict(meta(ev[r.integers(len(ev))]), motion=k, shape=s) for k, s in zip(MOTIONS, SHAPES[1:] + SHAPES)]
    ms[-1]["shape"] = "star"
    vs = [render(m, range(124))[0] for m in ms]
    au = [sound(m, 207) for m in ms]
    print(len(ev), "clips; s/clip", (time.time() - t0) / len(ms))
    for m, a in zip(ms, au):
        print(caption(m, r), "|", a.shape, float(np.abs(a).max()), ["%.2f" % e for e in events(m, 2)])
    sheet(vs, sys.argv[1] if len(sys.argv) > 1 else "world.png", every=11, scale=.6)
