"""What the model's codecs alone lose: true clips as latents, decoded, scored. Writes bounds.json beside this file.

usage: python nano/evaluate/bounds.py MODEL [PROMPTS] [FRAMES,...]     needs torch, diffusers and safetensors (nano/requirements.txt)
The latents are the fixed linear ones that the transformer is trained on (nano/codec.py: basis.safetensors), the decoders are MODEL's vae
(nano/vae.py's forward, bfloat16) and audio_vae (diffusers' class, float32). No MP4 lies between, which costs nothing that is scored (tests/nano.py)."""
import json, sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
import torch
import codec as C
import vae
import world as D
from evaluate import intervals, prompts, scores, sight


def db(true, error):
    return float(10 * np.log10(np.mean(true) / max(np.mean(error), 1e-12)))


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio
    model, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 27
    video = AutoencoderKLMiniMaxH3.from_pretrained(f"{model}/vae", torch_dtype=torch.float32).eval()
    sound = AutoencoderKLMiniMaxH3Audio.from_pretrained(f"{model}/audio_vae", torch_dtype=torch.float32).eval()
    out = dict(prompts=n, ceiling={}, codec_db=None)
    for frames in map(int, (sys.argv[3] if len(sys.argv) > 3 else "39,124").split(",")):
        results, whole, near, snr = [], [], [], []
        for m, _ in prompts.held_out(n, 0):
            v, al = D.render(m, range(frames))
            a = D.sound(m, D.audio_latents(frames))
            got = vae.decode_clip(video, C.clip_latents(m, C.groups(frames)).permute(3, 0, 1, 2)[None])
            back = sound.decode(C.encode_audio(a).transpose(1, 2)).sample[:, 0].numpy()[:, :a.shape[1]]
            e = ((got.astype(np.float32) - v) ** 2).mean(-1)
            on = al > .01
            whole.append(sight.psnr(got, v))
            near.append(float(10 * np.log10(255. ** 2 / e[on].mean())))
            snr.append(db(a ** 2, (a - back) ** 2))
            results.append(scores.clip(got, back, m)[0])
        top = {}
        for k in scores.WHAT:
            has = [r[k] for r in results if k in r]
            if has:
                top[k] = round(intervals.score(*zip(*has))[0], 4)
        out["ceiling"][str(frames)] = top
        out["codec_db"] = round(float(np.mean(whole)), 2)
        out[f"measured_{frames}"] = dict(whole_db=out["codec_db"], object_db=round(float(np.mean(near)), 2), sound_snr_db=round(float(np.mean(snr)), 2))
        print(frames, out[f"measured_{frames}"], top, flush=True)
    Path(__file__).with_name("bounds.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
