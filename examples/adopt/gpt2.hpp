// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A small GPT-2 as people write it by hand: sizes, activations, layers forward and backward, data.
// Both programs of this folder use it, and nothing in it knows of sharding.
#pragma once

#include <cmath>
#include <cstddef>

namespace adopt {

using Size = std::size_t;
inline constexpr Size L = 3, C = 16, V = 32, T = 8, B = 2, NH = 2, HS = C / NH, N = B * T;
inline constexpr int steps = 12;

/// The weights of one layer, wherever they lie. A layer also gets the gain of the norm that follows
/// it, which belongs to the next layer, since residual and norm are one loop.
struct Layer {
  float *qkv, *proj, *norm2, *up, *down;
};

struct LayerActs {
  float in[N * C], norm1[N * C], qkv[N * 3 * C], att[B * NH * T * T], mix[N * C], mid[N * C],
      norm2[N * C], up[N * 4 * C], act[N * 4 * C];
};
struct Acts {
  LayerActs layer[L];
  float out[N * C], normed[N * C], logits[N * V];
  float d_stream[N * C], d_norm[N * C];  // of the stream, and of the norm that follows it
};

inline void matmul(float* out, const float* in, const float* w, Size inputs, Size outputs) {
  for (Size t = 0; t < N; ++t)
    for (Size o = 0; o < outputs; ++o) {
      float sum = 0;
      for (Size i = 0; i < inputs; ++i) sum += in[t * inputs + i] * w[o * inputs + i];
      out[t * outputs + o] = sum;
    }
}
/// dw is added to; d_in is written.
inline void matmul_backward(float* d_in, float* dw, const float* d_out, const float* in,
                            const float* w, Size inputs, Size outputs) {
  for (Size k = 0; k < N * inputs; ++k) d_in[k] = 0;
  for (Size t = 0; t < N; ++t)
    for (Size o = 0; o < outputs; ++o)
      for (Size i = 0; i < inputs; ++i) {
        d_in[t * inputs + i] += d_out[t * outputs + o] * w[o * inputs + i];
        dw[o * inputs + i] += d_out[t * outputs + o] * in[t * inputs + i];
      }
}

/// out = a + b, or a where b is null; normed = rms norm of out, times gain.
inline void residual_norm(float* out, float* normed, const float* a, const float* b,
                          const float* gain) {
  for (Size t = 0; t < N; ++t) {
    float square = 0;
    for (Size i = t * C; i < (t + 1) * C; ++i) {
      out[i] = b == nullptr ? a[i] : a[i] + b[i];
      square += out[i] * out[i];
    }
    const float scale = 1 / std::sqrt(square / float(C) + 1e-5F);
    for (Size i = 0; i < C; ++i) normed[t * C + i] = out[t * C + i] * scale * gain[i];
  }
}
/// d_x and d_gain are added to.
inline void norm_backward(float* d_x, float* d_gain, const float* d_out, const float* x,
                          const float* gain) {
  for (Size t = 0; t < N; ++t, d_x += C, d_out += C, x += C) {
    float square = 0, dot = 0;
    for (Size i = 0; i < C; ++i) square += x[i] * x[i], dot += d_out[i] * gain[i] * x[i];
    const float scale = 1 / std::sqrt(square / float(C) + 1e-5F);
    for (Size i = 0; i < C; ++i) {
      d_gain[i] += d_out[i] * x[i] * scale;
      d_x[i] += scale * (d_out[i] * gain[i] - x[i] * scale * scale * dot / float(C));
    }
  }
}

inline void attention(LayerActs& a) {
  for (Size b = 0; b < B; ++b)
    for (Size h = 0; h < NH; ++h)
      for (Size t = 0; t < T; ++t) {
        const float* q = a.qkv + (b * T + t) * 3 * C + h * HS;
        float *p = a.att + ((b * NH + h) * T + t) * T, *out = a.mix + (b * T + t) * C + h * HS;
        float most = -1e30F, sum = 0;
        for (Size s = 0; s <= t; ++s) {
          const float* k = a.qkv + (b * T + s) * 3 * C + C + h * HS;
          p[s] = 0;
          for (Size i = 0; i < HS; ++i) p[s] += q[i] * k[i] / std::sqrt(float(HS));
          if (p[s] > most) most = p[s];
        }
        for (Size s = 0; s <= t; ++s) sum += p[s] = std::exp(p[s] - most);
        for (Size i = 0; i < HS; ++i) out[i] = 0;
        for (Size s = 0; s <= t; ++s) {
          const float* v = a.qkv + (b * T + s) * 3 * C + 2 * C + h * HS;
          p[s] /= sum;
          for (Size i = 0; i < HS; ++i) out[i] += p[s] * v[i];
        }
      }
}
inline void attention_backward(float* d_qkv, const float* d_mix, const LayerActs& a) {
  for (Size k = 0; k < N * 3 * C; ++k) d_qkv[k] = 0;
  for (Size b = 0; b < B; ++b)
    for (Size h = 0; h < NH; ++h)
      for (Size t = 0; t < T; ++t) {
        const Size row = (b * T + t) * 3 * C + h * HS;
        const float *p = a.att + ((b * NH + h) * T + t) * T, *d = d_mix + (b * T + t) * C + h * HS;
        float dp[T], dot = 0;
        for (Size s = 0; s <= t; ++s) {
          const Size v = (b * T + s) * 3 * C + 2 * C + h * HS;
          dp[s] = 0;
          for (Size i = 0; i < HS; ++i) {
            dp[s] += d[i] * a.qkv[v + i];
            d_qkv[v + i] += p[s] * d[i];
          }
          dot += p[s] * dp[s];
        }
        for (Size s = 0; s <= t; ++s) {
          const Size k = (b * T + s) * 3 * C + C + h * HS;
          const float ds = p[s] * (dp[s] - dot) / std::sqrt(float(HS));
          for (Size i = 0; i < HS; ++i) {
            d_qkv[row + i] += ds * a.qkv[k + i];
            d_qkv[k + i] += ds * a.qkv[row + i];
          }
        }
      }
}

/// From in and norm1 of the layer to `out` and `normed`, which are in and norm1 of the next.
inline void layer_forward(const Layer& w, const float* next_gain, LayerActs& a, float* out,
                          float* normed) {
  float part[N * C];
  matmul(a.qkv, a.norm1, w.qkv, C, 3 * C);
  attention(a);
  matmul(part, a.mix, w.proj, C, C);
  residual_norm(a.mid, a.norm2, a.in, part, w.norm2);
  matmul(a.up, a.norm2, w.up, C, 4 * C);
  for (Size k = 0; k < N * 4 * C; ++k) a.act[k] = a.up[k] > 0 ? a.up[k] * a.up[k] : 0;
  matmul(part, a.act, w.down, 4 * C, C);
  residual_norm(out, normed, a.mid, part, next_gain);
}
/// d_stream and d_norm are gradients of out and normed, and become those of in and norm1.
inline void layer_backward(const Layer& w, const Layer& g, const float* next_gain, float* d_gain,
                           const LayerActs& a, const float* out, Acts& all) {
  float wide[N * 4 * C], part[N * C];
  norm_backward(all.d_stream, d_gain, all.d_norm, out, next_gain);
  matmul_backward(wide, g.down, all.d_stream, a.act, w.down, 4 * C, C);
  for (Size k = 0; k < N * 4 * C; ++k) wide[k] *= a.up[k] > 0 ? 2 * a.up[k] : 0;
  matmul_backward(part, g.up, wide, a.norm2, w.up, C, 4 * C);
  norm_backward(all.d_stream, g.norm2, part, a.mid, w.norm2);
  matmul_backward(part, g.proj, all.d_stream, a.mix, w.proj, C, C);
  attention_backward(wide, part, a);
  matmul_backward(all.d_norm, g.qkv, wide, a.norm1, w.qkv, C, 3 * C);
}

inline void embed(const float* wte, const float* wpe, const int* tokens, float* out) {
  for (Size t = 0; t < N; ++t)
    for (Size i = 0; i < C; ++i) out[t * C + i] = wte[Size(tokens[t]) * C + i] + wpe[t % T * C + i];
}
inline void embed_backward(float* d_wte, float* d_wpe, const int* tokens, const float* d) {
  for (Size t = 0; t < N; ++t)
    for (Size i = 0; i < C; ++i) {
      d_wte[Size(tokens[t]) * C + i] += d[t * C + i];
      d_wpe[t % T * C + i] += d[t * C + i];
    }
}

/// The mean loss; logits become its gradient.
inline float cross_entropy(float* logits, const int* targets) {
  float loss = 0;
  for (Size t = 0; t < N; ++t, logits += V) {
    float most = logits[0], sum = 0;
    for (Size v = 1; v < V; ++v) most = logits[v] > most ? logits[v] : most;
    for (Size v = 0; v < V; ++v) sum += std::exp(logits[v] - most);
    const Size right = Size(targets[t]);
    loss += std::log(sum) + most - logits[right];
    for (Size v = 0; v < V; ++v) logits[v] = std::exp(logits[v] - most) / sum / float(N);
    logits[right] -= 1 / float(N);
  }
  return loss / float(N);
}

/// tokens [N + 1]: a pattern that can be learned, another piece of it for each rank and step.
inline void next_batch(int* tokens, Size rank, Size step) {
  for (Size t = 0; t <= N; ++t) tokens[t] = int((t * 5 + rank * 11 + step * 3) % V);
}
/// The k-th number of the tensor that begins with number `seed`.
inline float initial(Size seed, Size k) {
  unsigned bits = unsigned(seed * 7919 + k) * 2654435761U;
  bits = (bits ^ (bits >> 15)) * 2246822519U;
  return (float((bits ^ (bits >> 13)) % 2001) / 1000 - 1) * 0.2F;
}

/// What the elements of a step share, and the update of one element.
struct AdamStep {
  float rate, root_scale;  // with the corrections for the first steps in them
};
inline AdamStep adam_step(long t) {
  return {float(0.01 / (1 - std::pow(0.9, double(t)))),
          float(1 / std::sqrt(1 - std::pow(0.95, double(t))))};
}
inline void adam(AdamStep s, float g, float& w, float& m, float& v) {
  m = 0.9F * m + 0.1F * g;
  v = 0.95F * v + 0.05F * g * g;
  w -= s.rate * m / (std::sqrt(v) * s.root_scale + 1e-8F) + 0.001F * w;
}

}  // namespace adopt
