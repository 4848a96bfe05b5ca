"""Checkpoints for the trainers from an exported folder. usage: resume.py ../models/h3-nano (optimizer states start afresh)"""
import os, shutil, sys
from safetensors.torch import load_file
import codec as C
import common as K

if __name__ == "__main__":
    d = sys.argv[1]
    os.makedirs(C.WORK, exist_ok=True)
    shutil.copytree(f"{d}/tokenizer", f"{C.WORK}/tokenizer", dirs_exist_ok=True)
    f = lambda sub, n="diffusion_pytorch_model": {k: v.float() for k, v in load_file(f"{d}/{sub}/{n}.safetensors").items()}
    both = lambda s: dict(s=s, ema={k: v.clone() for k, v in s.items()}, step=0, seen=0, spent=0.)
    K.save("dit", both({**{"m." + k: v for k, v in f("transformer").items()}, **{"t." + k: v for k, v in f("text_encoder", "model").items()}}))
    K.save("vdec", both({k: v for k, v in f("vae").items() if k.startswith(("decoder", "post_quant"))}))
    K.save("adec", both({k: v for k, v in f("audio_vae").items() if k.startswith(("decoder", "dec_in"))}))
