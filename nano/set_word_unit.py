"""Keeps two words apart that the token refiner has learnt to merge. usage: set_word_unit.py IN OUT (checkpoint names; left and right)

Sets one little-used hidden unit of the refiner's FFN by ridge regression: it fires on the rows of the two words only, with opposite
signs, along a random direction. Train on with train_dit.py --freeze_text 1, or the unit drifts off. See docs/nano.md."""
import sys
import numpy as np
import torch
import torch.nn.functional as F
import common as K
import h3
import world as D

torch.set_grad_enabled(False)
WORDS = (" left", " right")


def rows(te, m, P, ids2, n=3500):
    """FFN inputs, hidden values and outputs of the refiner over captions, +1 / -1 where a word stands."""
    r = np.random.default_rng(0)
    b = m.token_refiner.refiner_blocks[0]
    out = []
    for c in D.order()[:n]:
        ids, _ = P(D.caption(D.meta(c), r))
        x = m.context_embedder(h3.encode_text(te, torch.tensor([ids])))[0]
        x = x + h3.attn(b.attn, b.norm1(x)[None])[0]
        y = b.norm2(x)
        a, g = b.ff.net[0].proj(y).chunk(2, -1)
        h = a * F.silu(g)
        out.append((y, h, x + b.ff.net[2](h), torch.tensor([float(i == ids2[0]) - float(i == ids2[1]) for i in ids])))
    return [torch.cat(z) for z in zip(*out)]


def main():
    c = K.load(sys.argv[1])
    tok = h3.tokenizer()
    P, te, m = h3.Presenter(tok), h3.make_te(h3.special_ids(tok)), h3.make_dit()
    assert len(m.token_refiner.refiner_blocks) == 1
    torch.manual_seed(11)
    v = torch.randn(m.config.hidden_size)
    m.load_state_dict({k[2:]: x for k, x in c["s"].items() if k[0] == "m"})
    te.load_state_dict({k[2:]: x for k, x in c["s"].items() if k[0] == "t"})
    f = m.token_refiner.refiner_blocks[0].ff
    Y, U, X, t = rows(te, m, P, [tok(w)["input_ids"][0] for w in WORDS])
    on = t != 0

    def ridge(target, w):
        A = Y * w[:, None]
        return torch.linalg.solve(A.T @ Y + 1e-5 * len(Y) * Y.pow(2).mean() * torch.eye(Y.shape[1]), A.T @ target)
    w = torch.where(on, 20., 1.)
    k = (U.abs().mean(0) * f.net[2].weight.norm(dim=0)).argmin().item()
    f.net[0].proj.weight[k] = ridge(t, w)                                         # value: +1, -1, else 0
    f.net[0].proj.weight[m.config.ffn_dim + k] = 4 * ridge(torch.where(on, 1., -.3), w)   # gate: open on the words, shut elsewhere
    f.net[2].weight[:, k] = v / v.norm() * .8 * X[on].norm(dim=-1).mean() / 3.93  # silu(4) = 3.93
    text = ("m.context_embedder", "m.token_refiner", "t.")
    now = {**{"m." + n: p for n, p in m.state_dict().items()}, **{"t." + n: p for n, p in te.state_dict().items()}}
    for key in ("s", "ema"):
        for n, p in now.items():
            if n.startswith(text):
                c[key][n] = p.clone()
    K.save(sys.argv[2], c)
    print("unit", k)


if __name__ == "__main__":
    main()
