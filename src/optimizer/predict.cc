#include "optimizer/predict.h"

#include <algorithm>

namespace zt {

namespace {

constexpr double kTera = 1e12;

struct Share {
  double ways = 1;         // ranks that share the stage's arithmetic
  double send = 0;         // bytes one rank sends in one run
  double messages = 0;     // exchanges of one run, each a latency
};

StagePrediction stage(const std::string& name, const StageWork& w, const Rates& r, const Hardware& h, int64_t runs, const Share& share, double streamed) {
  StagePrediction p;
  p.stage = name, p.runs = runs;
  const double n = static_cast<double>(runs);
  p.flop = n * w.total();
  p.compute_seconds = n * (w.gemm / r.gemm + w.attention / r.attention + w.adaln / r.gemm + w.conv / r.conv + w.filter / r.filter) / kTera / share.ways;
  const double passes = n * w.elements * r.activation_bytes / share.ways / h.element_rate();
  p.memory_seconds = n * (w.parameters + w.adaln_parameters) * r.weight_bytes / h.memory_bytes_s + passes;
  p.stream_seconds = streamed > 0 && h.host_bytes_s > 0 ? n * streamed / h.host_bytes_s : 0;
  p.launch_seconds = n * w.layers / (name == "video decode" ? share.ways : 1.0) * h.launch_s;
  p.link_bytes = n * share.send;
  if (share.ways > 1) p.link_seconds = p.link_bytes / h.link_bytes_s + n * share.messages * h.link_latency_s;
  // Element-wise passes do not run at the same time as the products around them: bytes add to arithmetic, weights hide behind it.
  const double busy = std::max(p.compute_seconds + passes, p.memory_seconds);
  p.seconds = std::max(busy, p.stream_seconds) + p.link_seconds + p.launch_seconds;
  const std::pair<double, const char*> parts[] = {{p.compute_seconds, "compute"}, {p.memory_seconds, "memory"}, {p.stream_seconds, "stream"},
                                                  {p.link_seconds, "link"}, {p.launch_seconds, "launch"}};
  p.bound = std::max_element(std::begin(parts), std::end(parts), [](auto& a, auto& b) { return a.first < b.first; })->second;
  return p;
}

}  // namespace

PredictOptions options_of(const Plan& plan) {
  PredictOptions o;
  o.text = compute_name(plan.text_encoder), o.denoiser = compute_name(plan.denoiser);
  o.video = compute_name(plan.video_decoder), o.audio = compute_name(plan.audio_codec);
  return o;
}

Prediction predict(const ModelDims& m, const ClipShape& c, const Hardware& h, const PredictOptions& o) {
  if (o.ranks < 1 || o.ranks > 8) fail(ErrorKind::request, "--ranks is {}; wanted 1 to 8", o.ranks);
  if (o.ranks > 1 && h.link_bytes_s <= 0) fail(ErrorKind::request, "--ranks {}: {} has no link between ranks in its profile (link_gb_s)", o.ranks, h.name);
  const double ranks = o.ranks, others = (ranks - 1) / ranks;
  const Rates &rt = h.rate("text", o.text), &rd = h.rate("denoise", o.denoiser), &rv = h.rate("video decode", o.video), &ra = h.rate("audio decode", o.audio);
  Prediction p;
  const double dit = used_parameters(h3::dit_tensor_specs(m.dit)) * rd.weight_bytes;
  const double text = used_parameters(qwen3_vl::tensor_specs(m.text, m.text_layers)) * rt.weight_bytes;
  const double video = used_parameters(h3::video_vae_specs(m.video)) * rv.weight_bytes, audio = used_parameters(h3::audio_vae_specs(m.audio)) * ra.weight_bytes;
  p.weight_bytes = dit + text + video + audio;
  const double rows = static_cast<double>(c.rows()) / ranks, hidden = static_cast<double>(m.dit.hidden_size), inner = static_cast<double>(m.dit.inner_dim());
  const double ffn = static_cast<double>(m.dit.ffn_dim);
  p.activation_bytes = rows * (4 * hidden + rd.activation_bytes * (hidden + std::max(4 * inner, 3 * ffn)));   // residual in float32
  p.fits = h.memory_bytes == 0 || p.weight_bytes + p.activation_bytes <= h.memory_bytes;
  // What does not fit beside the denoiser's activations streams in at each evaluation; the text encoder's turn is once.
  const double room = h.memory_bytes > 0 ? std::max(0.0, h.memory_bytes * 0.9 - p.activation_bytes) : 1e30;
  const double dit_streamed = std::max(0.0, dit - room), text_streamed = p.fits ? 0 : text;

  const StageWork wt = text_work(m, c), wd = denoise_work(m, c);
  const double text_row = static_cast<double>(c.text_rows * m.text.text.hidden_size) * rt.activation_bytes;
  p.stages.push_back(stage("text", wt, rt, h, 1, {ranks, 2 * wt.layers * 2 * text_row * others, 2 * wt.layers}, text_streamed));
  const double all_to_all = rows * 4 * inner * rd.activation_bytes * others * wd.layers;   // q, k, v out and o back, every block
  p.stages.push_back(stage("denoise", wd, rd, h, c.evaluations, {ranks, all_to_all, 2 * wd.layers}, dit_streamed));
  const double pixels = static_cast<double>(c.width * c.height * c.frames);
  p.stages.push_back(stage("video decode", video_decode_work(m, c), rv, h, 1, {ranks, pixels * 3 / ranks, 1}, 0));
  p.stages.push_back(stage("audio decode", audio_decode_work(m, c), ra, h, 1, {std::min(ranks, 2.0), static_cast<double>(c.audio_latents) * 800 * 4, 1}, 0));
  for (const StagePrediction& s : p.stages) p.generation_seconds += s.seconds;
  StagePrediction encode;
  encode.stage = "encode", encode.bound = "compute";
  encode.seconds = encode.compute_seconds = h.encode_pixels_s > 0 ? pixels / h.encode_pixels_s : 0;
  p.stages.push_back(encode);
  p.total_seconds = p.generation_seconds + encode.seconds;
  return p;
}

}  // namespace zt
