#!/usr/bin/env python3
"""A whole MiniMax-H3 of random weights and chosen size, in the published (diffusers) layout.

  make_random.py mid|nano OUTDIR [--golden tests/golden/a] [--only vae,audio_vae,...]

For measurements: the numbers mean nothing, the shapes are those of a small H3. Tokenizer, processor and the shape of the text encoder
come from golden case a (its text encoder is widened to the preset's text_dim). Needs torch, diffusers 0.42.1, transformers, safetensors.
"""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import save_file

PRESETS = {
    "mid": dict(hidden=1024, heads=10, head_dim=128, blocks=16, ffn=2816, text=512, time_hidden=1024, time_dim=512, rope=16,
                vae_heads=8, vae_layers=12, vae_channels=32, audio=(32, 1024, 512)),
    "nano": dict(hidden=256, heads=4, head_dim=64, blocks=8, ffn=768, text=256, time_hidden=256, time_dim=128, rope=8,
                 vae_heads=4, vae_layers=6, vae_channels=32, audio=(16, 512, 256)),
}
# DiT modules that the published checkpoint keeps in float32.
DIT_FLOAT32 = ("proj_in.", "audio_proj_in.", "time_embedder.", "proj_out.", "audio_proj_out.")


@torch.no_grad()
def fill(model, gen):
    """Unit gain through linear layers, norms near one, gates near a third, so that nothing saturates."""
    for name, p in model.named_parameters():
        if "norm" in name and name.endswith("weight") and p.ndim == 1:
            v = 1 + 0.05 * torch.randn(p.shape, generator=gen)
        elif name.endswith(("scale1", "scale2")):
            v = 0.3 + 0.05 * torch.randn(p.shape, generator=gen)
        elif name.endswith((".alpha", ".beta")):
            v = (1.0 if p.ndim == 3 else 0.0) + 0.1 * torch.randn(p.shape, generator=gen)
        elif name.endswith("weight_g"):
            continue
        elif p.ndim >= 2:
            v = torch.randn(p.shape, generator=gen) / p[0].numel() ** 0.5
            if "adaln" in name or "norm_out.linear" in name:
                v *= 0.3
        else:
            v = 0.02 * torch.randn(p.shape, generator=gen)
        p.copy_(v.to(torch.bfloat16).to(p.dtype))
    parameters = dict(model.named_parameters())
    for name, p in parameters.items():
        if name.endswith("weight_g"):   # g = |v|: the folded weight is v
            p.copy_(parameters[name[:-1] + "v"].flatten(1).norm(dim=1).view(p.shape))


def put(out, sub, model, config, cls, dtype_of):
    os.makedirs(f"{out}/{sub}", exist_ok=True)
    state = {k: v.to(dtype_of(k)).contiguous() for k, v in model.state_dict().items()}
    save_file(state, f"{out}/{sub}/diffusion_pytorch_model.safetensors", metadata={"format": "pt"})
    with open(f"{out}/{sub}/config.json", "w") as f:
        json.dump(dict(_class_name=cls, _diffusers_version="0.42.1", **config), f, indent=1)
    print(sub, "%.1f M parameters" % (sum(p.numel() for p in model.parameters()) / 1e6), flush=True)


def config_of(golden, sub):
    with open(f"{golden}/model/{sub}/config.json") as f:
        return {k: v for k, v in json.load(f).items() if not k.startswith("_")}


def dit(out, golden, p, gen):
    from diffusers import MiniMaxH3Transformer3DModel
    for sub, blocks in (("transformer", p["blocks"]), ("transformer_ref", 1)):
        c = config_of(golden, "transformer")
        c.update(num_attention_heads=p["heads"], attention_head_dim=p["head_dim"], hidden_size=p["hidden"], num_layers=blocks,
                 num_refiner_layers=2, ffn_dim=p["ffn"], text_dim=p["text"], freq_dim=256, time_embed_hidden_dim=p["time_hidden"],
                 time_embed_dim=p["time_dim"], rope_freq_dim=p["rope"])
        model = MiniMaxH3Transformer3DModel(**c)
        fill(model, gen)
        put(out, sub, model, c, "MiniMaxH3Transformer3DModel",
            lambda k: torch.float32 if k.startswith(DIT_FLOAT32) else torch.bfloat16)


def vae(out, golden, p, gen):
    from diffusers import AutoencoderKLMiniMaxH3
    c = config_of(golden, "vae")
    c.update(block_out_channels=[p["vae_channels"] * m for m in (1, 2, 2, 4, 4, 8)], layers_per_block=2, norm_num_groups=32,
             decoder_num_layers=p["vae_layers"], decoder_num_attention_heads=p["vae_heads"], decoder_attention_head_dim=64)
    model = AutoencoderKLMiniMaxH3(**c)
    fill(model, gen)
    put(out, "vae", model, c, "AutoencoderKLMiniMaxH3", lambda k: torch.float32)


def audio_vae(out, golden, p, gen):
    from diffusers import AutoencoderKLMiniMaxH3Audio
    c = config_of(golden, "audio_vae")
    encoder, latent, decoder = p["audio"]
    c.update(encoder_dim=encoder, encoder_rates=[2, 4, 4, 5, 5], latent_dim=latent, num_attention_heads=8, decoder_dim=decoder,
             decoder_rates=[5, 5, 2, 2, 2, 2, 2], decoder_kernel_sizes=[9, 9, 4, 4, 4, 4, 4])
    model = AutoencoderKLMiniMaxH3Audio(**c)
    fill(model, gen)
    put(out, "audio_vae", model, c, "AutoencoderKLMiniMaxH3Audio", lambda k: torch.float32)


def text_encoder(out, golden, p, gen):
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
    os.makedirs(f"{out}/text_encoder", exist_ok=True)
    with open(f"{golden}/model/text_encoder/config.json") as f:
        c = json.load(f)
    c["text_config"].update(hidden_size=p["text"], intermediate_size=2 * p["text"])
    c["vision_config"]["out_hidden_size"] = p["text"]
    with open(f"{out}/text_encoder/config.json", "w") as f:
        json.dump(c, f, indent=1)
    model = Qwen3VLForConditionalGeneration(Qwen3VLConfig.from_pretrained(f"{out}/text_encoder"))
    fill(model, gen)
    state = {k: v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()}
    save_file(state, f"{out}/text_encoder/model.safetensors", metadata={"format": "pt"})
    print("text_encoder %.1f M parameters" % (sum(v.numel() for v in state.values()) / 1e6), flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("preset", choices=sorted(PRESETS))
    ap.add_argument("out")
    ap.add_argument("--golden", default=os.path.join(os.path.dirname(__file__), "../../tests/golden/a"))
    ap.add_argument("--only", default="transformer,vae,audio_vae,text_encoder")
    a = ap.parse_args()
    gen = torch.Generator().manual_seed(1234)
    os.makedirs(a.out, exist_ok=True)
    makers = dict(transformer=dit, vae=vae, audio_vae=audio_vae, text_encoder=text_encoder)
    for name in a.only.split(","):
        makers[name](a.out, a.golden, PRESETS[a.preset], gen)
    for sub in ("tokenizer", "processor", "scheduler", "audio_scheduler"):
        shutil.copytree(f"{a.golden}/model/{sub}", f"{a.out}/{sub}", dirs_exist_ok=True)
    shutil.copy(f"{a.golden}/model/modular_model_index.json", a.out)


main()
