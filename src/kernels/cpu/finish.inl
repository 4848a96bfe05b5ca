// The end of a product: bias, activation, gate, sum.

enum class End { set, stream, add, gate };

template <int kActivation, End kEnd, bool kBias, bool kWhole>
inline void finish_vector(const float* x, const float* bias, const float* gate, float* c, int64_t n) {
  vf v = vload(x);
  if constexpr (kBias) v = vadd(v, kWhole ? vload(bias) : vload_n(bias, n));
  v = vactivate(v, kActivation);
  if constexpr (kEnd == End::add || kEnd == End::gate) {
    const vf old = kWhole ? vload(c) : vload_n(c, n);
    if constexpr (kEnd == End::add) v = vadd(v, old);
    else v = vfma(kWhole ? vload(gate) : vload_n(gate, n), v, old);
  }
  if constexpr (kWhole && kEnd == End::stream) vstream(c, v);
  else if constexpr (kWhole) vstore(c, v);
  else vstore_n(c, n, v);
}

template <int kActivation, End kEnd, bool kBias>
inline void finish_rows(const FinishBlock& p) {
  // Locals: a store to c could change *p for all the compiler knows.
  const int64_t m = p.m, n = p.n, whole = n / kLanes * kLanes, ldacc = p.ldacc, ldc = p.ldc, gate_stride = p.gate_stride;
  const float *x = p.acc, *bias = p.bias, *gates = p.gate;
  const int32_t* gate_row = p.gate_row;
  float* c = p.c;
  for (int64_t i = 0; i < m; ++i, x += ldacc, c += ldc) {
    const float* gate = kEnd == End::gate ? gates + (gate_row ? gate_row[i] : 0) * gate_stride : nullptr;
    for (int64_t j = 0; j < whole; j += kLanes) {
      finish_vector<kActivation, kEnd, kBias, true>(x + j, kBias ? bias + j : nullptr, kEnd == End::gate ? gate + j : nullptr, c + j, kLanes);
    }
    if (whole < n) {
      finish_vector<kActivation, kEnd, kBias, false>(x + whole, kBias ? bias + whole : nullptr,
                                                     kEnd == End::gate ? gate + whole : nullptr, c + whole, n - whole);
    }
  }
}

template <int kActivation>
inline void finish_activated(const FinishBlock& p) {
  if (p.gate) return p.bias ? finish_rows<kActivation, End::gate, true>(p) : finish_rows<kActivation, End::gate, false>(p);
  if (p.add) return p.bias ? finish_rows<kActivation, End::add, true>(p) : finish_rows<kActivation, End::add, false>(p);
  if (p.stream) return p.bias ? finish_rows<kActivation, End::stream, true>(p) : finish_rows<kActivation, End::stream, false>(p);
  return p.bias ? finish_rows<kActivation, End::set, true>(p) : finish_rows<kActivation, End::set, false>(p);
}

// Streamed results need a fence before another thread may look.
inline void finish_unfenced(const FinishBlock& p) {
  switch (p.activation) {
    case 1: return finish_activated<1>(p);
    case 2: return finish_activated<2>(p);
    case 3: return finish_activated<3>(p);
    default: return finish_activated<0>(p);
  }
}

[[maybe_unused]] void finish(const FinishBlock& p) noexcept {
  finish_unfenced(p);
  _mm_sfence();
}
