"""Loss curves of the runs. usage: plot.py ../docs/nano_loss.png"""
import csv, glob, os, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

if __name__ == "__main__":
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs")
    rd = lambda n: [r for f in sorted(glob.glob(f"{here}/{n}*.csv")) for r in csv.DictReader(open(f))]   # a run and those that went on from it
    fig, ax = plt.subplots(1, 2, figsize=(9, 3.4))
    rows = rd("dit")
    for k, c, s in (("v22", "tab:blue", "video, 22 frames"), ("v124", "tab:green", "video, 124 frames"), ("vfl2va", "tab:orange", "video, fl2va"), ("vcont", "tab:brown", "video, continuation"), ("a22", "tab:red", "audio, 22 frames"), ("a124", "tab:purple", "audio, 124 frames")):
        p = [(int(r["seen"]), float(r[k])) for r in rows if float(r.get(k) or 0) > 0]
        ax[0].plot(*zip(*p), c, label=s, lw=1)
    ax[0].set(xlabel="samples (after the warm start); text path frozen from 24 k", ylabel="velocity MSE (running mean)", title="transformer", yscale="log")
    ax[0].legend(fontsize=7)
    p = rd("vdec")
    ax[1].plot([int(r["step"]) for r in p], [float(r["psnr"]) for r in p], label="whole picture")
    ax[1].plot([int(r["step"]) for r in p], [float(r["psnr_shape"]) for r in p], label="around the shape")
    ax[1].set(xlabel="steps of 3 x 22 frames", ylabel="PSNR, dB (held-out)", title="video decoder")
    ax[1].legend(fontsize=7)
    for a in ax:
        a.grid(alpha=.3)
    fig.tight_layout()
    fig.savefig(sys.argv[1], dpi=80)
