"""Borders of continuation: is a clip's change across the border of two segments what it is inside them? Runs build/zoetrope generate --long-video.

A border falls on the decoder's own grid: its windows of 17 frames fade over the five frames before, in every clip, continued or not. So a border is held
against the same place of the windows inside a segment ("same place"), where only the continuation differs, and against any frame inside too.

usage: python3 nano/evaluate/seams.py [--prompts 10] [--seconds 45] [--evaluations 8] [--seed 0] [--model DIR] [--zoetrope FILE] [--json]
Prints for each statistic its mean inside (any frame; same place) and at the borders, the difference from the same place with its 95 % interval (bootstrap over clips), and how often a border
is beyond the 95th percentile of the same place inside (.05 if borders are like any other frame)."""
import argparse, json, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "nano"))
import numpy as np
import world as D
from evaluate import clips, prompts
from evaluate import hearing as ear
from evaluate import sight as eye

FIRST, STEP = 73, 51                                          # frames of the first clip and of each segment (src/pipeline/channel.h)
WINDOW = 17                                                   # frames of the decoder's window; FIRST and STEP have the same place in it
WHAT = dict(brightness="change of the mean level (of 255)", background="change of the still part (levels)", motion="mean change of all pixels (levels)",
            jump="change of the object's velocity (heights a frame)", loudness="change of the sound's level over 25 ms (dB, where it sounds)")


def changes(v, a):
    """{statistic: [F - 1]}: what happens between each frame and the next; NaN where it cannot be said."""
    s = eye.Sight(v)
    x = v.astype(np.float32)
    out = dict(brightness=np.abs(np.diff(x.mean((1, 2, 3)))))
    d = np.abs(np.diff(x, axis=0)).mean(3)
    away = ~(s.mask[1:] | s.mask[:-1])
    out["motion"] = d.mean((1, 2))
    out["background"] = (d * away).sum((1, 2)) / np.maximum(1, away.sum((1, 2)))
    ok = s.whole
    vx, vy = np.diff(s.x), np.diff(s.y)
    jump = np.full(len(v) - 1, np.nan)
    both = ok[2:] & ok[1:-1] & ok[:-2]
    jump[1:][both] = np.hypot(np.diff(vx), np.diff(vy))[both]
    out["jump"] = jump
    loud = ear.loudness(a)
    n = (np.arange(1, len(v)) * 40 / D.FPS).astype(int)       # the 25 ms that hold the border, and the ones before
    n = np.minimum(n, len(loud) - 1)
    now, before = loud[n], loud[np.maximum(n - 1, 0)]
    out["loudness"] = np.where(np.minimum(now, before) > .01, np.abs(20 * np.log10(now / before)), np.nan)
    return out


def main():
    ap = argparse.ArgumentParser(prog="nano/evaluate/seams.py")
    for k, v in (("prompts", 10), ("seconds", 45), ("evaluations", 8), ("seed", 0)):
        ap.add_argument("--" + k, type=int, default=v)
    ap.add_argument("--model")
    ap.add_argument("--plan", default="fast")
    ap.add_argument("--zoetrope", default=str(ROOT / "build/zoetrope"))
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    frames = -(-(a.seconds * D.FPS - 5) // 17) * 17 + 5
    per = []                                                  # a clip: {statistic: (inside, borders)}
    with tempfile.TemporaryDirectory() as folder:
        for i, (_, caption) in enumerate(prompts.held_out(a.prompts, a.seed)):
            f = Path(folder) / "clip.mp4"
            clips.generate(a.zoetrope, caption, f, frames, a.evaluations, a.seed + i, a.model, a.plan, more=("--long-video",))
            v, sound = clips.read(f)
            at = np.arange(FIRST, len(v), STEP) - 1           # the change into the first new frame
            near = np.zeros(len(v) - 1, bool)
            for b in at:
                near[max(0, b - 3):b + 9] = True              # the decoder fades over five frames: the neighbourhood is neither
            inside = ~near
            inside[:FIRST] = False                            # what the first clip was, no continuation made
            frame = np.arange(len(v) - 1) + 1
            same = (frame % WINDOW == FIRST % WINDOW) & (frame > FIRST) & ~np.isin(frame - 1, at)
            of = lambda x, where: x[where & ~np.isnan(x)]
            per.append({k: (of(x, inside), of(x, same), of(x, np.isin(frame - 1, at))) for k, x in changes(v, sound).items()})
    out, rng = dict(prompts=a.prompts, seconds=frames / D.FPS, evaluations=a.evaluations, borders=int(sum(len(p["brightness"][2]) for p in per))), np.random.default_rng(1)
    for k in WHAT:
        use = [p[k] for p in per if all(map(len, p[k]))]
        if not use:
            continue
        mean = lambda part, pick: float(np.concatenate([use[i][part] for i in pick]).mean())
        every = range(len(use))
        boot = [mean(2, pick) - mean(1, pick) for pick in (rng.integers(0, len(use), len(use)) for _ in range(1000))]
        top = np.concatenate([np.full(len(b), np.mean([x > np.percentile(i, 95) for x in b])) for _, i, b in use])
        out[k] = dict(inside=round(mean(0, every), 4), same_place=round(mean(1, every), 4), border=round(mean(2, every), 4), difference=round(mean(2, every) - mean(1, every), 4),
                      interval=[round(float(np.percentile(boot, q)), 4) for q in (2.5, 97.5)], beyond_95th=round(float(top.mean()), 3), n=int(sum(len(b) for _, _, b in use)))
    if a.json:
        print(json.dumps(out, indent=1))
    else:
        print(f"{a.prompts} prompts of {out['seconds']:.1f} s, {a.evaluations} evaluations, {out['borders']} borders")
        for k, what in WHAT.items():
            if k in out:
                r = out[k]
                print(f"{k:11s} inside {r['inside']:.4f}  same place {r['same_place']:.4f}  border {r['border']:.4f}  difference {r['difference']:+.4f} ({r['interval'][0]:+.4f} to {r['interval'][1]:+.4f})"
                      f"  beyond the 95th percentile {r['beyond_95th']:.2f}  n {r['n']}   {what}")


if __name__ == "__main__":
    main()
