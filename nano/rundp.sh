#!/bin/sh
# [SCRIPT=train_turbo.py] rundp.sh ARGS: train_dit.py (or that) in two one-thread processes that average gradients (twice the batch a step)
export WORLD=2 RDV="${TMPDIR:-/tmp}/h3nano.$$" GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
cd "$(dirname "$0")" || exit 1
RANK=1 python3 -W ignore "${SCRIPT:-train_dit.py}" "$@" >/dev/null 2>&1 &
RANK=0 python3 -W ignore "${SCRIPT:-train_dit.py}" "$@"
wait
