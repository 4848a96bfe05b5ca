#!/usr/bin/env python3
"""Our kernels against PyTorch's in one session, in turns, and one JSON line for each shape.

usage: kernels_torch.py --bench build/bench/kernels_bench [--rounds 7] [--filter REGEX] [--out bench/results/kernels.jsonl]

Both sides use the same number of threads; every round times ours, then the peer's. The figure is the ratio of medians (above 1: ours is
faster). In bf16 ours takes and gives float32, rounding inside; the peer gets bf16 tensors that were rounded beforehand, and the better of
its plain and its prepacked product counts. On a machine that others use, --cpu-time compares one thread's processor time of the least round.
"""
import argparse, json, os, re, statistics, subprocess, time

parser = argparse.ArgumentParser()
parser.add_argument("--bench", required=True)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--filter", default=".")
parser.add_argument("--out")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--cpu-time", action="store_true", help="one thread, processor time, ratio of the least rounds")
args = parser.parse_args()
if args.cpu_time:
    args.threads = 1
clock = time.thread_time if args.cpu_time else time.perf_counter
os.environ["OMP_NUM_THREADS"] = os.environ["ZT_THREADS"] = str(args.threads)
for key in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(key, None)
import torch
import torch.nn.functional as F

torch.set_num_threads(args.threads)
torch.set_grad_enabled(False)


def product(dtype, M, N, K):
    a, w = torch.randn(M, K).to(dtype), torch.randn(N, K).to(dtype)
    runs = {"linear": lambda: F.linear(a, w)}
    if dtype == torch.bfloat16:
        packed = torch.ops.mkldnn._reorder_linear_weight(w, M)
        runs["linear, prepacked"] = lambda: torch.ops.mkldnn._linear_pointwise(a, packed, None, "none", [], "")
    return runs


def attention(dtype, S, heads, d):
    q, k, v = (torch.randn(1, heads, S, d).to(dtype) for _ in range(3))
    return {"scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(q, k, v)}


def conv1d(dtype, T, C, taps, dilation):
    x, w, b = torch.randn(1, C, T + (taps - 1) * dilation).to(dtype), torch.randn(C, C, taps).to(dtype), torch.randn(C).to(dtype)
    return {"conv1d": lambda: F.conv1d(x, w, b, dilation=dilation)}


def snake_aa(dtype, T, C):
    x, alpha, beta = torch.randn(1, C, T), torch.rand(1, C, 1), torch.rand(1, C, 1) + 1
    up, down = torch.randn(1, 1, 12).expand(C, 1, 12).contiguous(), torch.randn(1, 1, 12).expand(C, 1, 12).contiguous()

    def run():
        y = 2 * F.conv_transpose1d(F.pad(x, (5, 5), mode="replicate"), up, stride=2, groups=C)[..., 15:-15]
        y = y + (1 / (beta + 1e-9)) * torch.sin(y * alpha).pow(2)
        return F.conv1d(F.pad(y, (5, 6), mode="replicate"), down, stride=2, groups=C)
    return {"pad, conv_transpose1d, sin, pow, pad, conv1d": run}


def rows(f):
    def make(dtype, M, N):
        x = torch.randn(M, N)
        return {"eager": lambda: f(x)}
    return make


PEERS = {"gemm": product, "attention": attention, "conv1d": conv1d, "snake_aa": snake_aa,
         "rms_norm": rows(lambda x: F.rms_norm(x, x.shape[-1:])), "silu": rows(F.silu), "gelu_erf": rows(F.gelu),
         "group_norm_silu": rows(lambda x: F.silu(F.group_norm(x.t()[None], 32)))}


def ours(name):
    out = subprocess.run([args.bench, f"--benchmark_filter=^{re.escape(name)}$", "--benchmark_min_time=0.1", "--benchmark_format=json"],
                         capture_output=True, text=True, check=True).stdout
    out = json.loads(out)
    return out["benchmarks"][0]["cpu_time" if args.cpu_time else "real_time"], out["context"]


def peer(run):
    times, end = [], time.perf_counter() + 0.1
    run()
    while not times or time.perf_counter() < end:
        t = clock()
        run()
        times.append(clock() - t)
    return statistics.mean(times) * 1e6


cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
names = subprocess.run([args.bench, "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout.split()
for name in names:
    if not re.search(args.filter, name):
        continue
    op, dtype, shape = name.split("/")[:3]
    runs = PEERS[op](torch.bfloat16 if dtype == "bf16" else torch.float32, *(int(n) for n in shape.split("x")))
    mine, theirs = [], {k: [] for k in runs}
    for _ in range(args.rounds):
        time_us, context = ours(name)
        mine.append(time_us)
        for k, run in runs.items():
            theirs[k].append(peer(run))
    k = min(theirs, key=lambda k: statistics.median(theirs[k]))
    middle = min if args.cpu_time else statistics.median   # of the rounds, each a mean
    a, b = middle(mine), middle(theirs[k])
    row = {"commit": context["commit"], "cpu": cpu, "threads": args.threads, "isa": context["isa"], "op": f"{op}/{dtype}", "shape": shape,
           "command": f"bench/peers/kernels_torch.py --filter '^{op}/{dtype}/{shape}/' --rounds {args.rounds}{' --cpu-time' if args.cpu_time else ''}",
           "clock": "processor time of one thread, least round" if args.cpu_time else "wall, medians",
           "ours_us": round(a, 1), "ours_min_us": round(min(mine), 1), "peer": f"torch {torch.__version__} {k}", "peer_us": round(b, 1),
           "peer_min_us": round(min(theirs[k]), 1), "ratio": round(b / a, 3)}
    print(f"{op}/{dtype}/{shape}: ours {a:.0f} (min {min(mine):.0f}) us, {k} {b:.0f} (min {min(theirs[k]):.0f}) us, ratio {b / a:.2f}", flush=True)
    if args.out:
        with open(args.out, "a") as f:
            f.write(json.dumps(row) + "\n")
