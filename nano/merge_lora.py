"""Merges an adapter in diffusers' spelling into a model folder. usage: merge_lora.py MODEL LORA.safetensors OUT [--strength S]   (numpy)

OUT is MODEL without its loras, the adapter in its transformer in the types that MODEL keeps, and the shifts that the adapter states in its schedulers. How many
evaluations it wants is printed: a model folder has no place for that, so it is asked for with --evaluations."""
import argparse, json, shutil, sys
import numpy as np

FILE = "transformer/diffusion_pytorch_model.safetensors"
TYPES = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}
SHIFTS = (("video_shift", "scheduler"), ("audio_shift", "audio_scheduler"))


class File:
    """A safetensors file in memory; at(name) is a view of its numbers, bfloat16 as uint16."""
    def __init__(self, path):
        self.path, self.raw = path, np.fromfile(path, np.uint8)
        self.start = 8 + int(self.raw[:8].view("<u8")[0])
        self.head = json.loads(self.raw[8:self.start].tobytes())
        self.said = self.head.pop("__metadata__", {})

    def at(self, name):
        t = self.head[name]
        if t["dtype"] not in TYPES:
            sys.exit(f"merge_lora: {self.path}: {name} is {t['dtype']}, wanted {', '.join(TYPES)}")
        a, b = t["data_offsets"]
        return self.raw[self.start + a:self.start + b].view(TYPES[t["dtype"]]).reshape(t["shape"])


def widen(x):
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x.astype(np.float32)


def narrow(x, dtype):
    """To the nearest, ties to even."""
    if dtype != np.uint16:
        return x.astype(dtype)
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype(np.uint16)


def merge(model, lora, strength):
    """Adds strength alpha / r B A to the model's matrices in float32; what fits nothing is an error."""
    left, alpha = set(lora.head), json.loads(lora.said.get("lora_adapter_metadata", "{}")).get("transformer.lora_alpha")
    for k in [k for k in lora.head if k.endswith(".lora_A.weight")]:
        n = k[:-len(".lora_A.weight")]
        w, b = n.removeprefix("transformer.") + ".weight", n + ".lora_B.weight"
        if w not in model.head or b not in left or model.head[w]["shape"] != [lora.head[b]["shape"][0], lora.head[k]["shape"][-1]]:
            sys.exit(f"merge_lora: {n}: no lora_B, or no layer of these sizes in the model")
        x = model.at(w)
        down, up = lora.at(k), lora.at(b)
        x[:] = narrow(widen(x) + np.float32(strength * (alpha / len(down) if alpha else 1)) * (widen(up) @ widen(down)), x.dtype)
        left -= {k, b}
    if left:
        sys.exit(f"merge_lora: {min(left)}: not lora_A or lora_B of a layer")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for n in ("model", "lora", "out"):
        ap.add_argument(n)
    ap.add_argument("--strength", type=float, default=1.)
    a = ap.parse_args()
    model, lora = File(f"{a.model}/{FILE}"), File(a.lora)
    said = lora.said
    merge(model, lora, a.strength)
    shutil.copytree(a.model, a.out, ignore=shutil.ignore_patterns("loras"))
    model.raw.tofile(f"{a.out}/{FILE}")
    for key, sub in SHIFTS:
        if key in said:
            p = f"{a.out}/{sub}/scheduler_config.json"
            with open(p) as f:
                c = dict(json.load(f), shift=float(said[key]))
            with open(p, "w") as f:
                json.dump(c, f, indent=1)
    print(a.out, *(f"{k} {said[k]}" for k in ("evaluations", "video_shift", "audio_shift") if k in said))


if __name__ == "__main__":
    main()
