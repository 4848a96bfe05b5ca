"""A few-step adapter (LoRA) of the transformer. usage: train_turbo.py --name turbo --seconds S [--base ../models/h3-nano]

On this world a caption fixes the clip, so that a few-step student needs no teacher: where a teacher's many evaluations lead is the clip
itself, and the clip is at hand. Each batch walks the sampler's own grid of so many evaluations (--counts, with their shares) from pure
noise, each over what the student itself made of the one before, as it will when sampling; at every evaluation x0 is held against the
true clip: consistency distillation, anchored at its end. The base (an exported folder or a checkpoint's name) stays as it is, the text path too.
Writes $H3NANO_DIR/NAME.safetensors with the schedule in its metadata (docs/lora.md); --seconds 0 only writes it. Resumes its
checkpoint, also over another base. merge_lora.py merges it. SCRIPT=train_turbo.py ./rundp.sh ...: two processes that average gradients."""
import json, os
import numpy as np
import torch
from torch.nn.utils import parametrize
from safetensors.torch import load_file, save_file
import codec as C
import common as K
import h3
from train_dit import Batcher, LENGTHS

PARTS = ("attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0", "ff.net.0.proj", "ff.net.2")


class Delta(torch.nn.Module):
    """W -> W + B A; alpha is the rank."""
    def __init__(self, w, r):
        super().__init__()
        self.A = torch.nn.Parameter(torch.randn(r, w.shape[1]) / w.shape[1] ** .5)
        self.B = torch.nn.Parameter(torch.zeros(w.shape[0], r))

    def forward(self, w):
        return w + self.B @ self.A


def with_lora(m, r):
    """Puts a delta on every projection of the blocks -> {module's name: Delta}."""
    out = {}
    for n, l in list(m.named_modules()):
        if n.startswith("transformer_blocks.") and n.endswith(PARTS):
            out[n] = Delta(l.weight, r)
            parametrize.register_parametrization(l, "weight", out[n])
    return out


def base(name):
    """State of transformer and text encoder, of a folder or of a checkpoint's average."""
    if not os.path.isdir(name):
        s = K.load(name)["ema"]
        return [{k[2:]: v for k, v in s.items() if k[0] == p} for p in "mt"]
    return [{k: v.float() for k, v in load_file(f"{name}/{f}.safetensors").items()} for f in ("transformer/diffusion_pytorch_model", "text_encoder/model")]


def write(path, lora, rank, schedule):
    """diffusers' spelling, bfloat16; the schedule is the adapter's contract."""
    sd = {f"transformer.{n}.lora_{p}.weight": lora[f"{n}.{p}"].to(torch.bfloat16).contiguous() for n in {k[:-2] for k in lora} for p in "AB"}
    peft = {"transformer." + k: v for k, v in dict(r=rank, lora_alpha=rank, target_modules=list(PARTS)).items()}
    save_file(dict(sorted(sd.items())), path + ".tmp", metadata={"format": "pt", "lora_adapter_metadata": json.dumps(peft), **{k: f"{v:g}" for k, v in schedule.items()}})
    os.replace(path + ".tmp", path)


def walk(m, T, b, n, sv, sa, cw, av):
    """n evaluations as the sampler does them, each over what the one before made; backward at each. av: the running losses by task and evaluation, by which
    they are divided: the tasks' differ by a hundredfold (what a vague caption leaves open stays lost), and none shall drown another."""
    grid = torch.linspace(1, 0, n + 1)
    Sv, Sa = h3.shift(grid, sv), h3.shift(grid, sa)
    x, a, B = torch.randn_like(b["x0"]), torch.randn_like(b["a0"]), len(b["x0"])
    for i in range(n):
        vv, va = h3.dit_forward(m, b["lay"], x, a, T, (1 - Sv[i]).expand(B), (1 - Sa[i]).expand(B), b["cond"], sound=b.get("sound"))
        x0, a0 = x + Sv[i] * vv, a + Sa[i] * va
        lv = (((x0 - b["x0"]).pow(2) * cw).mean(-1, keepdim=True) * b["w"]).sum() / b["w"].sum()
        la, loss = (a0 - b["a0"]).pow(2).mean(), 0.
        for k, l in (("v", lv), ("a", la)):
            k = f"{k}{b['F'] if b['task'] == 't2va' else b['task']}.{i + 1}"
            av[k] = l.item() if k not in av else .9 * av[k] + .1 * l.item()
            loss = loss + l / av[k]
        loss.backward()
        rv, ra = Sv[i + 1] / Sv[i], Sa[i + 1] / Sa[i]
        x, a = rv * x + (1 - rv) * x0.detach(), ra * a + (1 - ra) * a0.detach()


def main():
    a = K.args(base="dit", rank=14, lr=1.5e-3, scale=.75, fl=.06, cont=.12, mix="0.35,0.3,0.2,0.15", counts="1:0.5,2:0.5",
               video_shift=12., audio_shift=3., evaluations=2, ema=.98)
    ranks = K.Ranks()
    tok = h3.tokenizer()
    te, m = h3.make_te(h3.special_ids(tok)), h3.make_dit()
    for x, s in zip((m, te), base(a.base)):
        x.load_state_dict(s)
        x.requires_grad_(False)
    torch.manual_seed(a.seed)
    deltas = with_lora(m, a.rank)
    named = {f"{n}.{k}": p for n, d in deltas.items() for k, p in d.named_parameters()}
    opt = torch.optim.AdamW(named.values(), lr=a.lr, betas=(.9, .98), weight_decay=0)
    step, seen, spent, av, ema = 0, 0, 0., {}, {k: p.detach().clone() for k, p in named.items()}
    c = K.load(a.name)
    if c:
        with torch.no_grad():
            for k, p in named.items():
                p.copy_(c["s"][k])
        step, seen, spent, ema, av = (c[k] for k in ("step", "seen", "spent", "ema", "av"))
        opt.load_state_dict(c["opt"])
    schedule = dict(evaluations=a.evaluations, video_shift=a.video_shift, audio_shift=a.audio_shift)
    cw = torch.as_tensor(C.PC["vs"] / C.PC["vs"].mean()).repeat_interleave(4)   # components count as much as they show
    counts, share = zip(*((int(n), float(p)) for n, p in (x.split(":") for x in a.counts.split(","))))
    share, mix = K.shares(share), K.shares(a.mix.split(","))
    clock, step0 = K.Clock(a.seconds, a.decay), step

    def ckpt():
        K.save(a.name, dict(s={k: p.detach() for k, p in named.items()}, ema=ema, opt=opt.state_dict(), av=av, step=step, seen=seen, spent=spent + clock.cpu() * ranks.world))
        write(f"{C.WORK}/{a.name}.safetensors", ema, a.rank, schedule)
    turn = a.seed * 1000003 + step * 17
    torch.manual_seed(turn + ranks.rank)
    get = Batcher(turn + ranks.rank, h3.Presenter(tok), a.scale, turn) if a.seconds > 0 else None
    ranks.join()
    while not ranks.agree(clock.tick() > a.seconds):
        f = clock.factor(step - step0, 30)
        for g in opt.param_groups:
            g["lr"] = a.lr * f
        n = int(get.turn.choice(counts, p=share))
        b = get(mix, a.fl, a.cont)
        with torch.no_grad():
            T = h3.encode_text(te, b["ids"], b["pixels"], b["grid"])
        walk(m, T, b, n, a.video_shift, a.audio_shift, cw, av)
        ranks.average(list(named.values()))
        torch.nn.utils.clip_grad_norm_(named.values(), 5.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        seen += len(b["x0"]) * ranks.world
        K.ema_update(ema, named, step, a.ema)
        if ranks.first and clock.due():
            K.log(a.name, step=step, seen=seen, wall=round(clock.tick()), cpu=round(spent + clock.cpu() * ranks.world), lr=round(f, 3),
                  **{x: round(av.get(x, 0), 5) for t in (*LENGTHS, "fl2va", "cont") for i in range(max(counts)) for x in (f"v{t}.{i + 1}", f"a{t}.{i + 1}")})
            ckpt()
    if ranks.first:
        ckpt()
        print("final", step, seen)


if __name__ == "__main__":
    main()
