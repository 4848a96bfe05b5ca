#!/usr/bin/env python3
"""The scorers of nano/evaluate on true clips, on damaged clips and on the program's own. usage: nano.py [ZOETROPE]   (numpy, pillow, ffmpeg)
Ends with 'N passed, N failed'."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "nano"))
import numpy as np

import world as D
from evaluate import clips, intervals, prompts, scores
from evaluate import hearing as ear
from evaluate import sight as eye

counts = [0, 0]
F = 39
BASE = dict(color="red", shape="star", size="large", motion="bounce", speed="", bg="navy")


def expect(what, ok, found=""):
    counts[not ok] += 1
    if not ok:
        print(f"FAIL {what}: {found}")


def of(**kw):
    return dict(BASE, **kw)


def true(m, frames=F):
    return D.render(m, range(frames))[0], D.sound(m, D.audio_latents(frames))


def value(s, k):
    return s[k][0] / s[k][1] if k in s else None


def good(s):
    """Names of the scores of a perfect clip that are not what they should be."""
    least = dict(overlap=.9, pitch=.9, pan=.9)
    return {k: round(value(s, k), 3) for k in s if value(s, k) < least.get(k, 1)}


def true_clips():
    rng = np.random.default_rng(4)
    pool = D.everything()
    for motion in D.MOTIONS:
        mine = [c for c in pool if c[3] == motion]
        for c in (mine[i] for i in rng.integers(0, len(mine), 2)):
            m = D.meta(c)
            bad = good(scores.clip(*true(m), m)[0])
            expect(f"true clip: {D.caption(m, rng)}", not bad, bad)
    m = of(speed="slowly")
    s, raw = scores.clip(*true(m, 124), m)
    expect("a long true clip", not good(s) and s["contact_onset"][1] == 4, (good(s), s.get("contact_onset")))
    err = max(abs(a - b) for a, b in zip(raw["contacts"], raw["events"]))
    expect("contacts are found between the frames", err < .25 / D.FPS, err)


def through_mp4(folder):
    """H.264, AAC and back: nothing that is scored gets lost, and the sound is not late."""
    for m in (of(), of(motion="up", shape="ring", color="green"), of(motion="left", shape="square", color="yellow")):
        v, a = true(m)
        clips.write(folder / "t.mp4", v, a)
        v2, a2 = clips.read(folder / "t.mp4")
        bad = good(scores.clip(v2, a2, m)[0])
        expect(f"true clip through an MP4: {m['motion']}", v2.shape == v.shape and not bad, (v2.shape, bad))
    on, back = ear.onsets(true(of())[1]), None
    clips.write(folder / "t.mp4", *true(of()))
    back = ear.onsets(clips.read(folder / "t.mp4")[1])
    expect("onsets stay in place", len(on) == len(back) and max(abs(x - y) for x, y in zip(on, back)) < .012, (on, back))
    try:
        clips.read(folder / "absent.mp4")
        expect("a missing file is an error", False)
    except clips.Failed:
        expect("a missing file is an error", True)


def falls(what, name, m, v=None, a=None, most=0., given=()):
    """A damage must be seen by the score that is there for it; the undamaged clip must pass it."""
    tv, ta = true(m)
    before, after = (scores.clip(x, y, m, given)[0] for x, y in ((tv, ta), (tv if v is None else v, ta if a is None else a)))
    expect(f"{what} lowers {name}", value(before, name) > .89 and value(after, name) is not None and value(after, name) <= most, (value(before, name), value(after, name)))


def damaged_pictures():
    rng = np.random.default_rng(0)
    v, _ = true(BASE)
    falls("another colour", "colour", BASE, true(of(color="green"))[0])
    falls("another background", "background", BASE, true(of(bg="gray"))[0])
    for k in ("circle", "square", "triangle", "ring"):
        falls(f"a {k} for a star", "shape", BASE, true(of(shape=k))[0])
    falls("a smaller object", "size", BASE, true(of(size="small"))[0])
    falls("a mirrored clip", "motion", of(motion="left"), true(of(motion="left"))[0][:, :, ::-1])
    falls("a reversed clip", "motion", of(motion="up"), true(of(motion="up"))[0][::-1])
    falls("a still picture", "motion", BASE, np.repeat(v[:1], F, 0))
    for motion in ("bounce", "right", "down", "orbit", "grow", "spin"):
        falls(f"another speed of {motion}", "speed", of(motion=motion), true(of(motion=motion, speed="quickly"))[0])
    falls("an empty picture", "colour", BASE, np.repeat(D.background("navy", True)[None].astype(np.uint8), F, 0))
    falls("a late clip", "track", of(motion="right", speed="quickly"), np.concatenate([true(of(motion="right", speed="quickly"))[0][:1]] * 20 + [v[:0], true(of(motion="right", speed="quickly"))[0][:F - 20]]), most=.3)
    flicker = v.astype(float) + (4 * (np.arange(F) % 2 - .5))[:, None, None, None]
    falls("flicker of four levels", "still", BASE, np.clip(flicker, 0, 255).astype(np.uint8))
    steps = v.astype(float) + (5 * (np.arange(F) // 17))[:, None, None, None]
    falls("a step of five levels at the chunk borders", "seam", BASE, np.clip(steps, 0, 255).astype(np.uint8))
    noisy = np.clip(v + rng.normal(0, 12, v.shape), 0, 255).astype(np.uint8)
    falls("noise", "first_frame", BASE, noisy, given=[("first_frame", v[0])])
    falls("a clip that goes elsewhere", "last_frame", BASE, true(of(color="cyan"))[0], given=[("last_frame", v[-1])])


def damaged_sounds():
    rng = np.random.default_rng(0)
    a = true(BASE)[1]
    late = np.concatenate([np.zeros((2, 4 * D.SR // D.FPS), np.float32), a], 1)[:, :a.shape[1]]
    for name in ("contact_onset", "onset_contact", "onset_recall", "onset_precision"):
        falls("sound four frames late", name, BASE, a=late)
    falls("no sound", "contact_onset", BASE, a=np.zeros_like(a))
    falls("no sound", "onset_recall", of(motion="spin"), a=np.zeros_like(a))
    more = a.copy()
    for t in (.1, .6, .85):
        i = int(t * D.SR)
        more[:, i:i + 2400] += (.5 * np.exp(-np.arange(2400) / 800) * np.sin(np.arange(2400) * .1)).astype(np.float32)
    falls("notes without a contact", "onset_contact", BASE, a=more, most=.5)
    falls("hum in the gaps", "silence", BASE, a=a + .06 * np.sin(np.arange(a.shape[1]) * .05).astype(np.float32))
    up = true(of(motion="up"))[1]
    falls("a steady tone", "pitch", of(motion="up"), a=np.tile(up[:, 8000:8800], up.shape[1] // 800))
    falls("a falling tone for a rise", "pitch", of(motion="up"), a=true(of(motion="down"))[1])
    side = true(of(motion="left"))[1]
    falls("both ears the same", "pan", of(motion="left"), a=np.repeat(side.mean(0, keepdims=True), 2, 0), most=.2)
    falls("swapped ears", "pan", of(motion="left"), a=side[::-1])
    falls("noise for sound", "pitch", of(motion="up"), a=rng.normal(0, .1, up.shape).astype(np.float32), most=.4)


def numbers():
    lo, hi = intervals.wilson(98, 100)
    expect("Wilson of 98 in 100", abs(lo - .9300) < 1e-3 and abs(hi - .9945) < 1e-3, (lo, hi))
    expect("Wilson of nothing", intervals.wilson(0, 0) == (0., 1.))
    rng, hit = np.random.default_rng(1), 0
    for _ in range(60):
        got = rng.binomial(4, .7, 80)
        _, lo, hi, n = intervals.score(got, np.full(80, 4))
        hit += lo <= .7 <= hi
    expect("the bootstrap covers the truth in about 95 of 100", 51 <= hit and n == 320, hit)
    v, lo, hi, n = intervals.score([3, 2], [3, 2])
    expect("two perfect clips do not prove perfection", v == 1 and lo < .6 and n == 5, (v, lo, hi, n))
    expect("no clip, no score", intervals.score([], []) is None)
    expect("rank correlation", ear.rank_correlation([1, 2, 3, 4], [10, 20, 20, 90]) > .9 and ear.rank_correlation([1, 2, 3], [5, 5, 5]) == 0)
    a = prompts.held_out(40, 3)
    train = set(D.order()[:-D.HELD_OUT])
    expect("prompts are held out", not any(tuple(m.values()) in train for m, _ in a))
    expect("prompts follow from the seed", a == prompts.held_out(40, 3) and a != prompts.held_out(40, 4))
    metas = [m for m, _ in a]
    expect("a mismatched caption is another one", all(x is not y for x, y in zip(metas, prompts.mismatched(metas, 0))))


def whole_program(zoetrope, folder):
    """The command itself, few prompts and steps: not how good the model is, but that its numbers are there and are numbers."""
    run = subprocess.run([sys.executable, ROOT / "nano/evaluate", "--prompts", "3", "--evaluations", "2", "--frames", "22", "--seed", "5", "--json", "--zoetrope", zoetrope,
                          "--first-frame", "--html", folder / "page.html"], capture_output=True, text=True)
    try:
        r = json.loads(run.stdout)
    except ValueError:
        expect("nano/evaluate --json", False, run.stderr[-400:])
        return
    expect("every score lies in its interval", all(0 <= lo <= r[k] <= hi <= 1 for k, (lo, hi) in r["intervals"].items()) and len(r["intervals"]) > 10, r)
    expect("background, colour and the rest are there", all(k in r for k in ("background", "colour", "shape", "motion", "first_frame", "floor", "ceiling")), sorted(r))
    expect("the page shows every clip", (folder / "page.html").read_text().count("<img") == 3)
    bad = subprocess.run([sys.executable, ROOT / "nano/evaluate", "--frames", "23", "--json"], capture_output=True, text=True)
    expect("a length that cannot be is refused", bad.returncode == 2 and "17 n + 5" in bad.stderr, bad.stderr)
    bad = subprocess.run([sys.executable, ROOT / "nano/evaluate", "--prompts", "1", "--frames", "22", "--model", folder, "--zoetrope", zoetrope], capture_output=True, text=True)
    expect("a failing program is reported", bad.returncode == 1 and "exit" in bad.stderr, (bad.returncode, bad.stderr))


with tempfile.TemporaryDirectory() as tmp:
    true_clips()
    through_mp4(Path(tmp))
    damaged_pictures()
    damaged_sounds()
    numbers()
    if len(sys.argv) > 1:
        whole_program(sys.argv[1], Path(tmp))
print(f"{counts[0]} passed, {counts[1]} failed")
sys.exit(1 if counts[1] else 0)
