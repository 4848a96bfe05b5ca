"""One clip against one caption: points out of how many, by name. Everything is in 0 to 1 when divided."""
import numpy as np
import world as D
from evaluate import hearing as ear
from evaluate import sight as eye

FRAME = 1 / D.FPS
LATE = .06                                                    # contacts this near the end have no time to sound
WHAT = dict(
    background="its colour and light", colour="of the object", shape="best of five at the object's own place and area", size="nearest of three",
    motion="one of nine, from the first 39 frames", speed="nearest of three", track="frames whose centroid is within 0.1 heights of the true one",
    overlap="intersection over union with the true mask", contact_onset="contacts seen in the picture with an onset within a frame",
    onset_contact="onsets with a contact seen in the picture within a frame", onset_recall="true contacts and ticks with an onset within a frame",
    onset_precision="onsets with a true contact or tick within a frame", pitch="rank correlation of pitch with height (or smallness)",
    pan="rank correlation of the stereo place with x", silence="bounces and spins whose gaps are quiet", still="background changes by less than 1.5 levels a frame",
    seam="borders of the 17-frame chunks change the background no more than the inside", first_frame="given picture comes back within 3 dB of the codec",
    last_frame="given picture comes back within 3 dB of the codec")


def near(a, b, tolerance=FRAME):
    """How many of a have one of b within the tolerance."""
    return sum(1 for x in a if len(b) and np.abs(np.asarray(b) - x).min() <= tolerance + 1e-9)


def picture(s, m, out, raw):
    said = dict(background=eye.background(s), colour=eye.colour(s), shape=eye.shape(s, m["motion"] == "spin")[0], size=eye.size(s, m), motion=eye.motion(s), speed=eye.speed(s, m))
    raw["seen"] = said
    for k, v in said.items():
        out[k] = (float(v is not None and v == m["bg" if k == "background" else "color" if k == "colour" else k]), 1)
    both = eye.overlap(s, m)
    if both:
        out["overlap"], out["track"] = (both[0], 1), (both[1], 1)
    inside, border = s.still = s.still or eye.stillness(s)
    raw["flicker_levels"] = inside
    out["still"] = (float(inside < 1.5), 1)
    if border is not None:
        raw["border_levels"] = border
        out["seam"] = (float(border <= 1.5 * inside + .25), 1)


def sound(s, a, m, out, raw):
    end = min(a.shape[1] / D.SR, len(s.area) / D.FPS) - LATE
    if m["motion"] in ("bounce", "spin"):
        on = [t for t in ear.onsets(a) if t < end]
        true = [t for t in D.events(m, end)]
        raw["onsets"], raw["events"] = on, true
        if true:
            out["onset_recall"] = (near(true, on), len(true))
        if on:
            out["onset_precision"] = (near(on, true), len(on))
        quiet = ear.silent(a, m)
        if quiet is not None:
            out["silence"] = (float(quiet), 1)
    if m["motion"] == "bounce":
        seen = [t for t in eye.contacts(s) if t < end]
        raw["contacts"] = seen
        if seen or true:
            out["contact_onset"] = (near(seen, on), len(seen)) if seen else (0, len(true))
        if on:
            out["onset_contact"] = (near(on, seen), len(on))
    t = (np.arange(a.shape[1] // ear.FRAME) + .5) / 40
    f = np.minimum((t * D.FPS).astype(int), len(s.area) - 1)
    loud = ear.loudness(a)
    ok = s.whole[f] & (loud > .2 * loud.max()) & (loud > .003)
    if m["motion"] in ("up", "down", "orbit", "grow", "shrink") and len(set(D.notes(m, len(t)))) > 3:   # fewer notes have no ranks to speak of
        high = -np.interp(t, np.arange(len(s.y)) / D.FPS, s.y) if m["motion"] in ("up", "down", "orbit") else -np.sqrt(s.area[f])
        out["pitch"] = (max(0., ear.rank_correlation(ear.pitch(a)[ok], high[ok])), 1)
    if m["motion"] in ("left", "right", "orbit"):
        x = np.interp(t, np.arange(len(s.x)) / D.FPS, s.x)
        out["pan"] = (max(0., ear.rank_correlation(ear.pan(a)[ok], x[ok])), 1)


def clip(v, a, m, given=(), codec_db=None):
    """v uint8 [F, H, W, 3] or its Sight, a float32 [2, N], m what the caption says, given [("first_frame" | "last_frame", picture)]
    -> ({score: (points, out of)}, {raw measurements})."""
    out, raw, s = {}, {}, v if isinstance(v, eye.Sight) else eye.Sight(v)
    picture(s, m, out, raw)
    sound(s, a, m, out, raw)
    for name, im in given:
        db = eye.psnr(s.v[0 if name == "first_frame" else -1], im)
        raw[name + "_db"] = db
        out[name] = (float(db >= (codec_db or 30.) - 3), 1)
    return out, raw
