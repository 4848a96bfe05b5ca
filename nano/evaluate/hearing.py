"""What the sound of a clip says, measured without learned parts. Numpy only; float32 [2, N] at 32 kHz."""
import numpy as np
import world as D

FRAME = D.HOP                                                 # 25 ms


def loudness(a):
    """RMS of each 25 ms, both channels together."""
    n = a.shape[1] // FRAME
    return np.sqrt((a[:, :n * FRAME].reshape(2, n, FRAME) ** 2).mean((0, 2)) + 1e-14)


def onsets(a):
    """Times (s) at which a note begins: the 4 ms envelope more than doubles and reaches a third of the clip's loudest."""
    m, h = np.sqrt((a ** 2).mean(0)), 128
    n = len(m) // h
    e = np.sqrt((m[:n * h].reshape(n, h) ** 2).mean(1) + 1e-12)
    peak = e.max(initial=0.)
    on, i = [], 0
    while i < n and peak > .01:
        low = e[max(0, i - 6):i].min() if i else 0
        if e[i] > .35 * peak and e[i] > 2.2 * low + .02 * peak:
            on.append(i * h / D.SR)
            i += 20
        else:
            i += 1
    return on


def pitch(a):
    """Per 25 ms: the smallest strong multiple of 40 Hz (0: none)."""
    n = a.shape[1] // FRAME
    out = []
    for s in np.abs(np.fft.rfft(a[:, :n * FRAME].mean(0).reshape(n, FRAME), axis=1)):
        k = np.nonzero(s[6:40] > .45 * s[6:].max() + 1e-6)[0]
        out.append(k[0] + 6 if len(k) else 0)
    return np.array(out)


def pan(a):
    """Per 25 ms: share of the right channel, 0 to 1."""
    n = a.shape[1] // FRAME
    l, r = np.sqrt((a[:, :n * FRAME].reshape(2, n, FRAME) ** 2).mean(2))
    return r / (l + r + 1e-9)


def ranks(x):
    """Ranks with ties at their mean."""
    v, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2.)[inverse]


def rank_correlation(x, y):
    """Spearman's; 0 where one side is constant."""
    if len(x) < 3:
        return 0.
    a, b = ranks(np.asarray(x)), ranks(np.asarray(y))
    a, b = a - a.mean(), b - b.mean()
    n = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / n) if n > 0 else 0.


def silent(a, m):
    """Of a bounce or spin: are the gaps quiet? True where the median frame of the gaps is below a twentieth (26 dB) of the loud ones; None without gaps."""
    want, got = loudness(D.sound(m, a.shape[1] // FRAME)), loudness(a)
    gaps = want < .01 * want.max()
    if gaps.sum() < 4 or got.max() < .003:
        return None if gaps.sum() < 4 else False
    return bool(np.median(got[gaps]) < .05 * np.percentile(got, 98))
