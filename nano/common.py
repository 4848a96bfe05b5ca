"""What every trainer shares: a pausable clock, processes that average gradients, the checkpoint a minute, the learning rate by deadline, the run log."""
import argparse, csv, datetime, os, time
import numpy as np
import torch
import torch.distributed as dist
import codec as C


def args(**more):
    ap = argparse.ArgumentParser()
    ap.add_argument("--name", required=True, help="checkpoint $H3NANO_DIR/NAME.pt and log $H3NANO_DIR/NAME.csv")
    ap.add_argument("--seconds", type=float, required=True, help="run time from now; the learning rate falls to zero at its end")
    ap.add_argument("--decay", type=float, default=.35, help="share of that time over which it falls")
    ap.add_argument("--seed", type=int, default=1)
    for k, v in more.items():
        ap.add_argument("--" + k, type=type(v), default=v)
    return ap.parse_args()


def shares(values):
    """Numbers -> shares that sum to 1."""
    x = np.array([float(v) for v in values])
    return x / x.sum()


class Ranks:
    """The processes of one run (WORLD=N RANK=0.. RDV=file; alone without them), which average their gradients. torch's threads: NT."""
    def __init__(self):
        self.world, self.rank = int(os.environ.get("WORLD", "1")), int(os.environ.get("RANK", "0"))
        self.first = self.rank == 0
        torch.set_num_threads(int(os.environ.get("NT", "1")))

    def join(self):
        """Waits for the others; once everything else is ready."""
        if self.world > 1:
            dist.init_process_group("gloo", init_method="file://" + os.environ["RDV"], rank=self.rank, world_size=self.world, timeout=datetime.timedelta(minutes=30))

    def agree(self, late):
        """Whether to stop: the first process's clock counts."""
        flag = torch.tensor(float(late))
        if self.world > 1:
            dist.broadcast(flag, 0)
        return flag.item() > 0

    def average(self, params):
        """Every parameter's gradient becomes the mean over the processes; a process without one counts as zero."""
        if self.world == 1:
            return
        for p in params:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        flat = torch.cat([p.grad.view(-1) for p in params])
        dist.all_reduce(flat)
        for p, g in zip(params, (flat / self.world).split([p.numel() for p in params])):
            p.grad.copy_(g.view_as(p))


class Clock:
    """Time that a trainer has run. While the file $H3NANO_PAUSE exists, tick() sleeps."""
    def __init__(self, total, decay):
        self.t0, self.total, self.decay, self.cpu0, self.slept = time.time(), total, decay, time.process_time(), 0.
        self.pause, self.saved = os.environ.get("H3NANO_PAUSE", ""), 0.

    def tick(self):
        while self.pause and os.path.exists(self.pause) and time.time() - os.stat(self.pause).st_mtime < 120:   # a pause is short; an older file was forgotten
            time.sleep(1)
        return time.time() - self.t0

    def factor(self, step, warm=60):
        """Trapezoid."""
        el = time.time() - self.t0
        return min(1., (step + 1) / warm) * min(1., max(.01, (self.total - el) / (self.decay * self.total)))

    def due(self, every=60):
        if time.time() - self.saved > every:
            self.saved = time.time()
            return True
        return False

    def cpu(self):
        return time.process_time() - self.cpu0


def save(name, d):
    p = f"{C.WORK}/{name}.pt"
    torch.save(d, p + ".tmp")
    os.replace(p + ".tmp", p)


def load(name):
    p = f"{C.WORK}/{name}.pt"
    return torch.load(p, weights_only=False, map_location="cpu") if os.path.exists(p) else None


def log(name, **row):
    p = f"{C.WORK}/{name}.csv"
    new = not os.path.exists(p)
    with open(p, "a", newline="") as f:
        w = csv.DictWriter(f, list(row))
        if new:
            w.writeheader()
        w.writerow(row)
    print(" ".join(f"{k} {v}" for k, v in row.items()), flush=True)


@torch.no_grad()
def ema_update(ema, sd, step, top=.995):
    d = min(top, (1 + step) / (10 + step))
    for k, p in sd.items():
        if p.dtype.is_floating_point:
            ema[k].lerp_(p.float(), 1 - d)
