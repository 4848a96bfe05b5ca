"""Checkpoints -> the published folder layout. usage: export.py OUT [--dit dit --vdec vdec --adec adec --raw]; then loads it with diffusers' own classes."""
import argparse, json, os, shutil
import torch
from safetensors.torch import save_file
import codec as C
import common as K
import h3
import vae

BF16 = torch.bfloat16
DIT_FP32 = ("proj_in.", "audio_proj_in.", "time_embedder.", "proj_out.", "audio_proj_out.")
PIPELINE = dict(canvas_short_edge=128, canvas_max_pixels=23552, reference_image_short_edge=128, min_duration_s=0.2, max_duration_s=15.0,
                text_encoder_layer=h3.TE["layer"], keyframe_encode_seed=42, keyframe_noise_aug=0.999)


def alive(sd):
    """Matrices that are zero on purpose (the encoder's residual branches, what H3 never reads) become very small noise: an all-zero one is what a damaged file looks like."""
    return {k: v if v.ndim < 2 or v.any() else (1e-6 * torch.randn(v.shape)).to(v.dtype) for k, v in sd.items()}


def put(dst, sub, cls, cfg, sd):
    os.makedirs(f"{dst}/{sub}", exist_ok=True)
    save_file({k: v.contiguous() for k, v in alive(sd).items()}, f"{dst}/{sub}/diffusion_pytorch_model.safetensors", metadata={"format": "pt"})
    with open(f"{dst}/{sub}/config.json", "w") as f:
        json.dump(dict(_class_name=cls, _diffusers_version="0.42.1", **cfg), f, indent=1)


def export(dst, dit="dit", vdec="vdec", adec="adec", key="ema"):
    tok = h3.tokenizer()
    ids = h3.special_ids(tok)
    torch.manual_seed(0)                                      # the untrained parts of the encoders are drawn here
    os.makedirs(dst, exist_ok=True)
    for sub in ("tokenizer", "processor"):
        os.makedirs(f"{dst}/{sub}", exist_ok=True)
        for f in ("vocab.json", "merges.txt", "tokenizer_config.json"):
            shutil.copyfile(f"{C.WORK}/tokenizer/{f}", f"{dst}/{sub}/{f}")
    pre = dict(patch_size=h3.TE["patch"], temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3, processor_class="Qwen3VLProcessor")
    with open(f"{dst}/processor/preprocessor_config.json", "w") as f:
        json.dump(dict(size=dict(longest_edge=16777216, shortest_edge=h3.IMG_MIN), **pre, image_processor_type="Qwen2VLImageProcessorFast"), f, indent=1)
    with open(f"{dst}/processor/video_preprocessor_config.json", "w") as f:
        json.dump(dict(size=dict(longest_edge=25165824, shortest_edge=h3.VID_MIN), **pre, video_processor_type="Qwen3VLVideoProcessor"), f, indent=1)

    c = K.load(dit)
    s = c[key]
    os.makedirs(f"{dst}/text_encoder", exist_ok=True)
    with open(f"{dst}/text_encoder/config.json", "w") as f:
        json.dump(h3.te_config(ids), f, indent=1)
    save_file({k: v.to(BF16).contiguous() for k, v in alive({k[2:]: v for k, v in s.items() if k[:2] == "t."}).items()}, f"{dst}/text_encoder/model.safetensors", metadata={"format": "pt"})
    sd = {k[2:]: v if k[2:].startswith(DIT_FP32) else v.to(BF16) for k, v in s.items() if k[:2] == "m."}
    put(dst, "transformer", "MiniMaxH3Transformer3DModel", h3.DIT, sd)

    v = vae.make_video()
    d = K.load(vdec)
    missing = v.load_state_dict(d["ema"], strict=False)
    assert all(k.startswith(("encoder", "quant_conv")) for k in missing.missing_keys) and not missing.unexpected_keys
    e = K.load("enc_video")
    if e:
        v.load_state_dict(e["s"], strict=False)
    put(dst, "vae", "AutoencoderKLMiniMaxH3", vae.VAE, {k: t.to(BF16) for k, t in v.state_dict().items()})
    a = vae.make_audio()
    a.load_state_dict(K.load(adec)["ema"], strict=False)
    e = K.load("enc_audio")
    if e:
        a.load_state_dict(e["s"], strict=False)
    put(dst, "audio_vae", "AutoencoderKLMiniMaxH3Audio", vae.AUDIO, a.state_dict())
    for sub, shift in (("scheduler", 12.0), ("audio_scheduler", 3.0)):
        os.makedirs(f"{dst}/{sub}", exist_ok=True)
        with open(f"{dst}/{sub}/scheduler_config.json", "w") as f:
            json.dump(dict(_class_name="MiniMaxH3Scheduler", _diffusers_version="0.42.1", shift=shift), f, indent=1)
    comps = dict(text_encoder=("transformers", "Qwen3VLForConditionalGeneration"), tokenizer=("transformers", "Qwen2TokenizerFast"),
                 processor=("transformers", "Qwen3VLProcessor"), vae=("diffusers", "AutoencoderKLMiniMaxH3"),
                 audio_vae=("diffusers", "AutoencoderKLMiniMaxH3Audio"), transformer=("diffusers", "MiniMaxH3Transformer3DModel"),
                 scheduler=("diffusers", "MiniMaxH3Scheduler"), audio_scheduler=("diffusers", "MiniMaxH3Scheduler"))
    index = dict(_class_name="MiniMaxH3ModularPipeline", _diffusers_version="0.42.1", _blocks_class_name="MiniMaxH3Blocks")
    for k, (lib, cls) in comps.items():
        index[k] = [lib, cls, dict(type_hint=[lib, cls], pretrained_model_name_or_path=None, subfolder=k, variant=None, revision=None)]
    index.update(PIPELINE)
    with open(f"{dst}/modular_model_index.json", "w") as f:
        json.dump(index, f, indent=1)
    return c


def load_pipe(d, dtype=torch.float32):
    """The reference pipeline on the exported folder."""
    from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Scheduler, MiniMaxH3Transformer3DModel
    from diffusers.modular_pipelines import MiniMaxH3Blocks, MiniMaxH3ModularPipeline
    from transformers import Qwen2TokenizerFast, Qwen3VLForConditionalGeneration, Qwen3VLProcessor
    ix = json.load(open(f"{d}/modular_model_index.json"))
    MiniMaxH3ModularPipeline.min_duration = property(lambda self: ix["min_duration_s"])
    MiniMaxH3ModularPipeline.text_encoder_layer = property(lambda self: ix["text_encoder_layer"])
    pipe = MiniMaxH3Blocks().init_pipeline()
    kw = dict(torch_dtype=dtype)
    pipe.update_components(
        text_encoder=Qwen3VLForConditionalGeneration.from_pretrained(f"{d}/text_encoder", dtype=dtype),
        tokenizer=Qwen2TokenizerFast.from_pretrained(f"{d}/tokenizer"), processor=Qwen3VLProcessor.from_pretrained(f"{d}/processor"),
        vae=AutoencoderKLMiniMaxH3.from_pretrained(f"{d}/vae", **kw), audio_vae=AutoencoderKLMiniMaxH3Audio.from_pretrained(f"{d}/audio_vae", **kw),
        transformer=MiniMaxH3Transformer3DModel.from_pretrained(f"{d}/transformer", **kw),
        scheduler=MiniMaxH3Scheduler.from_pretrained(f"{d}/scheduler"), audio_scheduler=MiniMaxH3Scheduler.from_pretrained(f"{d}/audio_scheduler"),
        **{k: ix[k] for k in ("canvas_short_edge", "canvas_max_pixels", "reference_image_short_edge")})
    for n in ("text_encoder", "vae", "audio_vae", "transformer"):
        getattr(pipe, n).eval()
    pipe.set_progress_bar_config(disable=True)

    def quiet(b):
        for x in getattr(b, "sub_blocks", {}).values():
            quiet(x)
        if hasattr(b, "set_progress_bar_config"):
            b.set_progress_bar_config(disable=True)
    quiet(pipe.blocks.sub_blocks.get("denoise"))
    return pipe


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    for n in ("dit", "vdec", "adec"):
        ap.add_argument("--" + n, default=n)
    ap.add_argument("--check", action="store_true", help="only run the reference pipeline on OUT")
    a = ap.parse_args()
    torch.set_num_threads(1)
    if not a.check:
        export(a.out, a.dit, a.vdec, a.adec)
    total = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(a.out) for f in fs)
    print("bytes", total)
    assert total < 25e6
    import numpy as np
    from PIL import Image
    import world as D
    with torch.no_grad():
        pipe = load_pipe(a.out)
        m = dict(color="red", shape="circle", size="medium", motion="bounce", speed="", bg="dark")
        for kw in (dict(), dict(image=Image.fromarray(D.render(m, [0])[0][0])), dict(image=Image.fromarray(D.render(m, [0])[0][0]), last_image=Image.fromarray(D.render(m, [21])[0][0]))):
            st = pipe(prompt="a red circle bounces on a dark background", num_inference_steps=5, num_frames=22, output_type="pt", generator=torch.Generator("cpu").manual_seed(1), **kw)
            v, w = st.get("videos")[0], st.get("audio")[0]
            print({k: type(x).__name__ for k, x in kw.items()}, "frames", tuple(v.shape), "audio", tuple(w.shape), "rows", st.get("position_ids").shape[0], "finite", bool(torch.isfinite(v).all() and torch.isfinite(w).all()))
            D.sheet([(v.permute(0, 2, 3, 1) * 255).round().byte().numpy()], f"{C.WORK}/export_check{len(kw)}.png", every=3)
