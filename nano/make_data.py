"""Latents of every clip of the world, 124 frames each (2.3 GB). usage: make_data.py [WORKERS]; needs $H3NANO_DIR.

Order is a fixed shuffle; the last 300 clips are never trained on (held out for evaluation)."""
import os, sys
import numpy as np
import torch
import codec as C
import world as D

FRAMES, L, NA = 124, 37, 207


def open_data(mode="r"):
    n = len(D.everything())
    if mode == "w+":
        os.makedirs(C.WORK, exist_ok=True)
    f = lambda name, shape, t: np.lib.format.open_memmap(f"{C.WORK}/{name}.npy", mode=mode, dtype=t, shape=shape if mode == "w+" else None)
    return f("video", (n, L, D.H // 16, D.W // 16, 24), np.float16), f("audio", (n, 2, NA, 32), np.float16), f("done", (n,), np.uint8)


def work(rank, world):
    torch.set_num_threads(1)
    V, A, done = open_data("r+")
    g = C.groups(FRAMES)
    for i, c in enumerate(D.order()):
        if i % world == rank and not done[i]:
            m = D.meta(c)
            V[i] = C.clip_latents(m, g).numpy()
            A[i] = C.encode_audio(D.sound(m, NA)).numpy()
            done[i] = 1


if __name__ == "__main__":
    import torch.multiprocessing as mp
    if not os.path.exists(f"{C.WORK}/done.npy"):
        open_data("w+")
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    mp.spawn(work, (n,), n)
