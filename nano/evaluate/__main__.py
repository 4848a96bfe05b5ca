"""Scores of H3-nano on held-out prompts: runs build/zoetrope and reads its MP4s. Needs numpy, pillow (build/venv has them) and ffmpeg.

usage: python3 nano/evaluate [--prompts N] [--evaluations K] [--seed S] [--json] [--model DIR] [--plan P] [--frames F] [--html FILE]
                             [--first-frame] [--last-frame] [--true] [--lora FILE[:S]] [--zoetrope FILE] [--keep DIR]
Prompt i is generated with seed S + i. --first-frame and --last-frame give the true pictures (fl2va). --true scores the world's own clips instead
(no program needed): what the scorers say of perfect clips. The floor is the same clips against other prompts; the ceiling is bounds.json."""
import argparse, json, os, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "nano"))
try:
    import numpy as np
    import PIL  # noqa: F401
except ImportError as lack:
    venv = ROOT / "build/venv/bin/python"
    if not venv.exists() or Path(sys.prefix).resolve() == venv.parents[1].resolve():
        sys.exit(f"nano/evaluate: {lack}; script/setup makes build/venv, which has it (tests/requirements.txt)")
    os.execv(venv, [str(venv), str(Path(__file__).parent), *sys.argv[1:]])
import world as D
from evaluate import clips, intervals, page, prompts, scores
from evaluate import sight as eye

BOUNDS = Path(__file__).with_name("bounds.json")


def options():
    ap = argparse.ArgumentParser(prog="nano/evaluate", description=__doc__.split("\n")[0])
    for k, v, h in (("prompts", 54, "held-out prompts"), ("evaluations", 8, "of the denoiser"), ("seed", 0, "of the prompts and the noise"), ("frames", 124, "17 n + 5")):
        ap.add_argument("--" + k, type=int, default=v, help=f"{h} (default {v})")
    ap.add_argument("--model", help="model folder (default: the program's own)")
    ap.add_argument("--plan", default="fast", help="exact, fast or a plan file (default fast)")
    ap.add_argument("--lora", help="an adapter, as zoetrope generate takes it (its shifts count; --evaluations are asked for here)")
    ap.add_argument("--zoetrope", default=str(ROOT / "build/zoetrope"))
    ap.add_argument("--html", help="write a page with contact sheets")
    ap.add_argument("--keep", help="folder that keeps the MP4s")
    for k in ("json", "first-frame", "last-frame", "true"):
        ap.add_argument("--" + k, action="store_true")
    a = ap.parse_args()
    if a.prompts < 1 or a.frames < 5 or a.frames % 17 != 5:
        ap.error("--prompts is at least 1, --frames is 17 n + 5 (22, 39, 124)")
    return a


def given(a, m):
    """The true pictures that a run of fl2va is given."""
    want = [("first_frame", 0)] * a.first_frame + [("last_frame", a.frames - 1)] * a.last_frame
    return [(k, D.render(m, [f])[0][0]) for k, f in want]


def one(a, i, m, caption, folder):
    """Frames, sound, and the pictures given, of prompt i."""
    if a.true:
        return D.render(m, range(a.frames))[0], D.sound(m, D.audio_latents(a.frames)), []
    out, pictures, files = Path(folder) / f"{i:03d}.mp4", given(a, m), {}
    for name, im in pictures:
        from PIL import Image
        files[name.split("_")[0]] = Path(folder) / f"{i:03d}_{name}.png"
        Image.fromarray(im).save(files[name.split("_")[0]])
    clips.generate(a.zoetrope, caption, out, a.frames, a.evaluations, a.seed + i, a.model, a.plan, more=["--lora", a.lora] if a.lora else (), **files)
    v, sound = clips.read(out)
    if not a.keep:
        out.unlink()
    if len(v) != a.frames:
        raise clips.Failed(f"{out}: {len(v)} frames, wanted {a.frames}")
    return v, sound, pictures


def pooled(results):
    """[{name: (points, out of)}] -> {name: (value, low, high, n)}."""
    out = {}
    for k in scores.WHAT:
        has = [r[k] for r in results if k in r]
        s = intervals.score(*zip(*has)) if has else None
        if s:
            out[k] = s
    return out


def by_motion(rows, names=("motion", "shape", "overlap", "onset_recall")):
    """Mean of a few scores for each motion."""
    out = {}
    for k in D.MOTIONS:
        mine = [r["scores"] for r in rows if r["meta"]["motion"] == k]
        out[k] = {n: round(float(np.mean([s[n][0] / s[n][1] for s in mine if n in s])), 3) for n in names if any(n in s for s in mine)}
    return {k: v for k, v in out.items() if v}


def ceiling(a):
    """Scores of true clips through the codecs at this length, as far as they were measured."""
    known = json.loads(BOUNDS.read_text()) if BOUNDS.exists() else {}
    return known.get("ceiling", {}).get(str(a.frames), {}), known.get("codec_db")


def report(a, rows, floor, seconds):
    s, top = pooled([r["scores"] for r in rows]), ceiling(a)[0]
    out = dict(model=str(a.model or "models/h3-nano"), prompts=a.prompts, evaluations=a.evaluations, seed=a.seed, frames=a.frames, plan=a.plan, lora=a.lora, true_clips=a.true,
               **{k: round(v[0], 4) for k, v in s.items()}, intervals={k: [round(v[1], 4), round(v[2], 4)] for k, v in s.items()}, n={k: v[3] for k, v in s.items()},
               floor={k: round(v[0], 4) for k, v in pooled(floor).items()}, ceiling=top, by_motion=by_motion(rows), seconds=round(seconds, 1))
    for k in ("flicker_levels", "border_levels", "first_frame_db", "last_frame_db"):
        has = [r["raw"][k] for r in rows if k in r["raw"]]
        if has:
            out[k] = round(float(np.mean(has)), 3)
    return out


def table(r):
    print(f"{r['prompts']} prompts, {r['evaluations']} evaluations, {r['frames']} frames, plan {r['plan']}, seed {r['seed']}, {r['seconds']} s")
    print(f"{'score':16s} value    95 %          n  floor  ceiling")
    for k in scores.WHAT:
        if k in r["intervals"]:
            show = lambda x: f"{x:.2f}" if x is not None else "   -"
            print(f"{k:16s} {r[k]:.3f}  {r['intervals'][k][0]:.2f} to {r['intervals'][k][1]:.2f} {r['n'][k]:5d}   {show(r['floor'].get(k))}     {show(r['ceiling'].get(k))}")


def main():
    a, start = options(), time.time()
    todo = prompts.held_out(a.prompts, a.seed)
    others = prompts.mismatched([m for m, _ in todo], a.seed)
    rows, floor = [], []
    with tempfile.TemporaryDirectory() as scratch:
        if a.keep:
            Path(a.keep).mkdir(parents=True, exist_ok=True)
        for i, (m, caption) in enumerate(todo):
            try:
                v, sound, pictures = one(a, i, m, caption, a.keep or scratch)
            except (clips.Failed, OSError) as e:
                print(f"nano/evaluate: {e}", file=sys.stderr)
                return 1
            sight = eye.Sight(v)
            s, raw = scores.clip(sight, sound, m, pictures, ceiling(a)[1])
            rows.append(dict(index=i, prompt=caption, meta=m, scores=s, raw=raw, sheet=page.sheet(v) if a.html else None))
            floor.append(scores.clip(sight, sound, others[i])[0] if a.prompts > 1 else {})
            if not a.json and sys.stderr.isatty():
                print(f"\r{i + 1}/{a.prompts}", end="", file=sys.stderr)
    r = report(a, rows, floor, time.time() - start)
    if a.html:
        Path(a.html).write_text(page.page(r, rows, scores.WHAT))
    if a.json:
        print(json.dumps(r, indent=1))
    else:
        table(r)
    return 0


if __name__ == "__main__":
    sys.exit(main())
