"""Held-out prompts: combinations that no training clip had, in wordings drawn from the seed. Motions take turns."""
import numpy as np
import world as D


def held_out(n, seed):
    """[(what the caption fixes, caption)]."""
    rng = np.random.default_rng([20261201, seed])
    pool = {}
    for c in D.order()[-D.HELD_OUT:]:
        pool.setdefault(c[3], []).append(c)
    queue = {k: [] for k in pool}
    out = []
    for i in range(n):
        k = D.MOTIONS[i % len(D.MOTIONS)]
        if not queue[k]:                                      # each once before any comes again
            queue[k] = [pool[k][j] for j in rng.permutation(len(pool[k]))]
        m = D.meta(queue[k].pop())
        out.append((m, D.caption(m, rng)))
    return out


def mismatched(metas, seed):
    """For each clip the caption of another one: the floor of every score. A permutation that leaves none in place."""
    n = len(metas)
    if n < 2:
        return list(metas)
    order = np.random.default_rng([7, seed]).permutation(n)
    other = np.empty(n, int)
    other[order] = np.roll(order, 1)
    return [metas[i] for i in other]
