"""95 % intervals of scores in 0 to 1. Numpy only."""
import numpy as np

Z = 1.959963984540054


def wilson(hits, n):
    """Score interval of a share of yes/no outcomes."""
    if not n:
        return 0., 1.
    p, z2 = hits / n, Z * Z
    mid, half = (p + z2 / (2 * n)) / (1 + z2 / n), Z * np.sqrt(max(0., p * (1 - p)) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0., float(mid - half)), min(1., float(mid + half))


def bootstrap(got, of, rounds=2000):
    """Interval of sum(got) / sum(of), whole clips drawn with replacement: what one clip gives hangs together."""
    got, of = np.asarray(got, float), np.asarray(of, float)
    pick = np.random.default_rng(0).integers(0, len(got), (rounds, len(got)))
    total = of[pick].sum(1)
    share = got[pick].sum(1)[total > 0] / total[total > 0]
    return tuple(float(x) for x in np.percentile(share, [2.5, 97.5]))


def score(got, of):
    """Per clip: points and out of how many -> (value, low, high, n). Wilson where every clip says yes or no; else bootstrap."""
    got, of = np.asarray(got, float), np.asarray(of, float)
    total, counted = float(of.sum()), bool((of == of.round()).all())
    if not total:
        return None
    value = float(got.sum() / total)
    if (of == 1).all() and np.isin(got, (0., 1.)).all():
        low, high = wilson(got.sum(), len(got))
    elif value in (0., 1.):                                   # a bootstrap of equal outcomes would claim certainty: as if a clip were one outcome
        low, high = wilson(len(got) * value, len(got))
    else:
        low, high = bootstrap(got, of)
    return value, min(low, value), max(high, value), int(total) if counted else len(got)
