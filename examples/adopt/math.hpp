// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The operations of gpt2.hpp on the host, one loop nest each.
#pragma once

#include <cmath>

#include "gpt2.hpp"

namespace adopt {

/// Where operations run: here, at once.
struct Cpu {};

inline void matmul(float* out, const float* in, const float* w, Size inputs, Size outputs, Cpu) {
  for (Size t = 0; t < N; ++t)
    for (Size o = 0; o < outputs; ++o) {
      float sum = 0;
      for (Size i = 0; i < inputs; ++i) sum += in[t * inputs + i] * w[o * inputs + i];
      out[t * outputs + o] = sum;
    }
}
/// dw is added to; d_in is written.
inline void matmul_backward(float* d_in, float* dw, const float* d_out, const float* in,
                            const float* w, Size inputs, Size outputs, Cpu) {
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
                          const float* gain, Cpu) {
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
                          const float* gain, Cpu) {
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

/// out = max(in, 0)^2; and d, the gradient of out, becomes that of in.
inline void squared_relu(float* out, const float* in, Cpu) {
  for (Size k = 0; k < N * 4 * C; ++k) out[k] = in[k] > 0 ? in[k] * in[k] : 0;
}
inline void squared_relu_backward(float* d, const float* in, Cpu) {
  for (Size k = 0; k < N * 4 * C; ++k) d[k] *= in[k] > 0 ? 2 * in[k] : 0;
}
inline void attention(LayerActs& a, Cpu) {
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
inline void attention_backward(float* d_qkv, const float* d_mix, const LayerActs& a, float*, Cpu) {
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

inline void embed(const float* wte, const float* wpe, const int* tokens, float* out, Cpu) {
  for (Size t = 0; t < N; ++t)
    for (Size i = 0; i < C; ++i) out[t * C + i] = wte[Size(tokens[t]) * C + i] + wpe[t % T * C + i];
}
inline void unembed(float* d_wte, float* d_wpe, const int* tokens, const float* d, Cpu) {
  for (Size t = 0; t < N; ++t)
    for (Size i = 0; i < C; ++i) {
      d_wte[Size(tokens[t]) * C + i] += d[t * C + i];
      d_wpe[t % T * C + i] += d[t * C + i];
    }
}

/// The mean loss of the logits, which become its gradient. `losses` is of no use to a loop.
inline float cross_entropy(float* logits, const int* targets, float*, Cpu) {
  float loss = 0;
  for (Size t = 0; t < N; ++t) loss += token_loss(logits + t * V, targets[t]);
  return loss / float(N);
}
inline void load_tokens(int* tokens, Size rank, Size step, Cpu) { next_batch(tokens, rank, step); }
inline void clear(float* memory, Size count, Cpu) {
  for (Size i = 0; i < count; ++i) memory[i] = 0;
}

}  // namespace adopt
