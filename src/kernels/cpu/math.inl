// Functions of float lanes. Coefficients: minimax in relative error (Lawson's iteration), fitted for this file.

// e^x, relative error below 1.5e-7 in (-87, 88.7); 0 and infinity beyond what float holds; NaN stays NaN.
inline vf vexp(vf x) {
  x = vmin(vset(89.0f), vmax(vset(-104.0f), x));
  const vf n = vround(vmul(x, vset(1.44269504f)));
  vf r = vfnma(n, vset(0.693145752f), x);          // ln 2 in two parts, the first of 15 bits: n times it is exact
  r = vfnma(n, vset(1.42860677e-6f), r);
  vf p = vset(1.3836741954666783e-3f);
  p = vfma(p, r, vset(8.374898363439066e-3f));
  p = vfma(p, r, vset(4.1668231802828914e-2f));
  p = vfma(p, r, vset(0.16666419190341888f));
  p = vfma(p, r, vset(0.499999920323123f));
  p = vfma(p, r, vset(1.0f));
  p = vfma(p, r, vset(1.0f));
  return vscale2(p, n);
}

// sin(x)^2, relative error about 3e-7 for |x| up to 1e4: x modulo pi with pi in three floats, then an odd polynomial on [-pi/2, pi/2].
inline vf vsin2(vf x) {
  const vf n = vround(vmul(x, vset(0.318309886f)));
  vf r = vfnma(n, vset(0x1.921fb6p+1f), x);
  r = vfnma(n, vset(-0x1.777a5cp-24f), r);
  r = vfnma(n, vset(-0x1.ee59dap-49f), r);
  const vf u = vmul(r, r);
  vf p = vset(2.60182638e-6f);
  p = vfma(p, u, vset(-1.98073846e-4f));
  p = vfma(p, u, vset(8.33302467e-3f));
  p = vfma(p, u, vset(-0.166666567f));
  const vf s = vfma(vmul(p, u), r, r);
  return vmul(s, s);
}

inline vf vsilu(vf x) { return vdiv(x, vadd(vset(1.0f), vexp(vsub(vzero(), x)))); }

// 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline vf vgelu_tanh(vf x) {
  const vf u = vmul(x, vfma(vmul(x, x), vset(0.044715f * 0.797884561f), vset(0.797884561f)));
  return vdiv(x, vadd(vset(1.0f), vexp(vmul(u, vset(-2.0f)))));
}

// x Phi(x), with erfc(z) = t exp(-z^2 + P(t)), t = 1 / (1 + z / 2), relative error of P below 5e-8 for z up to 10.
inline vf vgelu_erf(vf x) {
  const vf z = vmul(vabs(x), vset(0.707106781f));
  const vf t = vdiv(vset(1.0f), vfma(z, vset(0.5f), vset(1.0f)));
  vf p = vset(0.14507792876910144f);
  p = vfma(p, t, vset(-0.681871300299999f));
  p = vfma(p, t, vset(1.1598646914713597f));
  p = vfma(p, t, vset(-0.7014864950274892f));
  p = vfma(p, t, vset(-0.07490613461756679f));
  p = vfma(p, t, vset(-0.0022390377635337286f));
  p = vfma(p, t, vset(0.03605214341237066f));
  p = vfma(p, t, vset(0.38627604396457266f));
  p = vfma(p, t, vset(0.9986830974852992f));
  p = vfma(p, t, vset(-1.2654508901936796f));
  const vf tail = vmul(vmul(vset(0.5f), t), vexp(vfnma(z, z, p)));   // Phi(-|x|)
  return vmul(x, vnegative(x, tail, vsub(vset(1.0f), tail)));
}

inline vf vactivate(vf x, int activation) {
  switch (activation) {
    case 1: return vsilu(x);
    case 2: return vgelu_tanh(x);
    case 3: return vgelu_erf(x);
    default: return x;
  }
}
