// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The operations of a transformer, forward and backward, over plain pointers. Includes cblas and
// std only.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

// Every matrix is row-major. `tokens` counts rows of a matrix: all positions of all sequences of a
// micro-batch. Backward functions ADD to gradients of weights and overwrite those of activations,
// unless their comment says otherwise. Sums are made in an order that depends on sizes only, so
// that equal inputs give equal bits, whatever the thread. `Real` is float; the tests also use
// double.

namespace gpt {

using Size = std::int64_t;

/// The ranks are the threads: a library that started more for each product would only disturb them.
inline void use_one_thread_for_math() { openblas_set_num_threads(1); }

enum class Transpose : bool { no, yes };

/// c [m, n] = alpha * op(a) [m, k] * op(b) [k, n] + beta * c; lda, ldb, ldc are row strides in
/// memory.
inline void matmul(Transpose a_t, Transpose b_t, Size m, Size n, Size k, float alpha,
                   const float* a, Size lda, const float* b, Size ldb, float beta, float* c,
                   Size ldc) {
  cblas_sgemm(CblasRowMajor, a_t == Transpose::yes ? CblasTrans : CblasNoTrans,
              b_t == Transpose::yes ? CblasTrans : CblasNoTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, a, static_cast<blasint>(lda),
              b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

inline void matmul(Transpose a_t, Transpose b_t, Size m, Size n, Size k, double alpha,
                   const double* a, Size lda, const double* b, Size ldb, double beta, double* c,
                   Size ldc) {
  cblas_dgemm(CblasRowMajor, a_t == Transpose::yes ? CblasTrans : CblasNoTrans,
              b_t == Transpose::yes ? CblasTrans : CblasNoTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, a, static_cast<blasint>(lda),
              b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

/// out [tokens, outputs] = in [tokens, inputs] * weight [outputs, inputs]^T, added to out if `add`.
template <class Real>
void linear_forward(Real* out, const Real* in, const Real* weight, Size tokens, Size inputs,
                    Size outputs, bool add = false) {
  matmul(Transpose::no, Transpose::yes, tokens, outputs, inputs, Real(1), in, inputs, weight,
         inputs, Real(add), out, outputs);
}

/// d_in [tokens, inputs] = d_out [tokens, outputs] * weight; d_weight += d_out^T * in.
template <class Real>
void linear_backward(Real* d_in, Real* d_weight, const Real* d_out, const Real* in,
                     const Real* weight, Size tokens, Size inputs, Size outputs) {
  matmul(Transpose::no, Transpose::no, tokens, inputs, outputs, Real(1), d_out, outputs, weight,
         inputs, Real(0), d_in, inputs);
  matmul(Transpose::yes, Transpose::no, outputs, inputs, tokens, Real(1), d_out, outputs, in,
         inputs, Real(1), d_weight, inputs);
}

/// The sum of term(0) ... term(n - 1) in sixteen interleaved partial sums, which fill vector
/// registers.
template <class Real, class Term>
Real sum_of(Size n, Term term) {
  constexpr Size lanes = 16;
  Real partial[lanes] = {};
  Size i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Size lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  for (Size lane = 0; lane < n - i; ++lane) partial[lane] += term(i + lane);
  for (Size width = lanes / 2; width > 0; width /= 2)
    for (Size lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  return partial[0];
}

/// e^x with an error of 2 units in the last place; without branches, so loops over it vectorise.
/// x is clamped to [-87, 88], where the result is a normal number.
inline float exponential(float x) {
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + to_integer;  // its low bits hold n = round(x / ln 2)
  const float n = shifted - to_integer;
  const float r =
      (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts: |r| <= ln(2) / 2
  float p = 1.9875691500e-4f;                       // Cephes expf: e^r = 1 + r + r^2 p(r)
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}
inline double exponential(double x) { return std::exp(x); }

/// out = (in - mean) * inverse_deviation * gain for each token; keeps both figures for backward.
///
/// Shape:   in, out [tokens, width]; gain [width]; mean, inverse_deviation [tokens].
template <class Real>
void layer_norm_forward(Real* out, Real* mean, Real* inverse_deviation, const Real* in,
                        const Real* gain, Size tokens, Size width) {
  for (Size t = 0; t < tokens; ++t, in += width, out += width) {
    const Real m = sum_of<Real>(width, [=](Size i) { return in[i]; }) / Real(width);
    const Real variance =
        sum_of<Real>(width, [=](Size i) { return (in[i] - m) * (in[i] - m); }) / Real(width);
    const Real scale = Real(1) / std::sqrt(variance + Real(1e-5));
    for (Size i = 0; i < width; ++i) out[i] = (in[i] - m) * scale * gain[i];
    mean[t] = m;
    inverse_deviation[t] = scale;
  }
}

/// d_in += the gradient through the norm (it joins the residual path); d_gain += its own.
template <class Real>
void layer_norm_backward(Real* d_in, Real* d_gain, const Real* d_out, const Real* in,
                         const Real* gain, const Real* mean, const Real* inverse_deviation,
                         Size tokens, Size width) {
  for (Size t = 0; t < tokens; ++t, in += width, d_in += width, d_out += width) {
    const Real m = mean[t], scale = inverse_deviation[t];
    const Real average =
        sum_of<Real>(width, [=](Size i) { return d_out[i] * gain[i]; }) / Real(width);
    const Real slope =
        sum_of<Real>(width, [=](Size i) { return d_out[i] * gain[i] * ((in[i] - m) * scale); }) /
        Real(width);
    for (Size i = 0; i < width; ++i) {
      const Real normal = (in[i] - m) * scale;
      d_in[i] += scale * (d_out[i] * gain[i] - average - normal * slope);
      d_gain[i] += d_out[i] * normal;
    }
  }
}

/// The argument of the sigmoid in gelu(x) = x * sigmoid(gelu_argument(x)), the tanh form of GELU.
/// Source:  Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, section 2.
template <class Real>
Real gelu_argument(Real x) {
  return Real(1.5957691216057308) * (x + Real(0.044715) * x * x * x);
}

/// out[i] = gelu(in[i]).
template <class Real>
void gelu_forward(Real* out, const Real* in, Size n) {
  for (Size i = 0; i < n; ++i) out[i] = in[i] / (Real(1) + exponential(-gelu_argument(in[i])));
}

/// d[i] is the gradient of gelu(in[i]) and becomes that of in[i].
template <class Real>
void gelu_backward(Real* d, const Real* in, Size n) {
  for (Size i = 0; i < n; ++i) {
    const Real x = in[i];
    const Real sigmoid = Real(1) / (Real(1) + exponential(-gelu_argument(x)));
    const Real inner = Real(1.5957691216057308) * (Real(1) + Real(3 * 0.044715) * x * x);
    d[i] *= sigmoid + x * sigmoid * (Real(1) - sigmoid) * inner;
  }
}

/// row[0 .. n) = softmax(row[0 .. n)); returns the log of the sum of e^row, of which it is the
/// gradient.
template <class Real>
Real softmax(Real* row, Size n) {
  Real largest = row[0];
  for (Size i = 1; i < n; ++i) largest = std::max(largest, row[i]);
  for (Size i = 0; i < n; ++i) row[i] = exponential(row[i] - largest);
  const Real sum = sum_of<Real>(n, [=](Size i) { return row[i]; });
  const Real inverse = Real(1) / sum;
  for (Size i = 0; i < n; ++i) row[i] *= inverse;
  return largest + std::log(sum);
}

/// Sizes of the attention of one micro-batch.
struct AttentionShape {
  Size sequences, length, heads, head_width;
};

/// out = softmax(q k^T / sqrt(head_width)) v, each position over itself and those before it.
///
/// Shape:   qkv [sequences, length, 3, heads, head_width]; out [sequences, length, heads,
/// head_width];
///          chances [sequences, heads, length, length], kept for backward, 0 above the diagonal.
template <class Real>
void attention_forward(Real* out, Real* chances, const Real* qkv, const AttentionShape& s) {
  const Size width = s.heads * s.head_width;
  const Real scale = Real(1) / std::sqrt(Real(s.head_width));
  for (Size sequence = 0; sequence < s.sequences; ++sequence)
    for (Size head = 0; head < s.heads; ++head, chances += s.length * s.length) {
      const Real* q = qkv + sequence * s.length * 3 * width + head * s.head_width;
      Real* o = out + sequence * s.length * width + head * s.head_width;
      matmul(Transpose::no, Transpose::yes, s.length, s.length, s.head_width, scale, q, 3 * width,
             q + width, 3 * width, Real(0), chances, s.length);
      for (Size t = 0; t < s.length; ++t) {
        Real* row = chances + t * s.length;
        softmax(row, t + 1);
        std::fill(row + t + 1, row + s.length, Real(0));
      }
      matmul(Transpose::no, Transpose::no, s.length, s.head_width, s.length, Real(1), chances,
             s.length, q + 2 * width, 3 * width, Real(0), o, width);
    }
}

/// d_qkv from d_out; `d_scores` [length, length] is scratch.
template <class Real>
void attention_backward(Real* d_qkv, Real* d_scores, const Real* d_out, const Real* qkv,
                        const Real* chances, const AttentionShape& s) {
  const Size width = s.heads * s.head_width;
  const Real scale = Real(1) / std::sqrt(Real(s.head_width));
  for (Size sequence = 0; sequence < s.sequences; ++sequence)
    for (Size head = 0; head < s.heads; ++head, chances += s.length * s.length) {
      const Size offset = sequence * s.length * 3 * width + head * s.head_width;
      const Real *q = qkv + offset, *k = q + width, *v = k + width;
      Real *d_q = d_qkv + offset, *d_k = d_q + width, *d_v = d_k + width;
      const Real* d_o = d_out + sequence * s.length * width + head * s.head_width;
      matmul(Transpose::no, Transpose::yes, s.length, s.length, s.head_width, Real(1), d_o, width,
             v, 3 * width, Real(0), d_scores, s.length);
      matmul(Transpose::yes, Transpose::no, s.length, s.head_width, s.length, Real(1), chances,
             s.length, d_o, width, Real(0), d_v, 3 * width);
      for (Size t = 0; t < s.length; ++t) {  // through the softmax, in place
        const Real* p = chances + t * s.length;
        Real* d = d_scores + t * s.length;
        const Real dot = sum_of<Real>(t + 1, [=](Size i) { return p[i] * d[i]; });
        for (Size i = 0; i <= t; ++i) d[i] = p[i] * (d[i] - dot);
        std::fill(d + t + 1, d + s.length, Real(0));
      }
      matmul(Transpose::no, Transpose::no, s.length, s.head_width, s.length, scale, d_scores,
             s.length, k, 3 * width, Real(0), d_q, 3 * width);
      matmul(Transpose::yes, Transpose::no, s.length, s.head_width, s.length, scale, d_scores,
             s.length, q, 3 * width, Real(0), d_k, 3 * width);
    }
}

/// Sum over tokens of -log softmax(logits)[target], in nats; logits become their gradients times
/// `scale`.
///
/// Shape:   logits [tokens, classes]; targets [tokens].
template <class Real>
double softmax_cross_entropy(Real* logits, const std::uint8_t* targets, Real scale, Size tokens,
                             Size classes) {
  double loss = 0;
  for (Size t = 0; t < tokens; ++t, logits += classes) {
    const Real chosen = logits[targets[t]];
    loss += static_cast<double>(softmax(logits, classes) - chosen);
    for (Size i = 0; i < classes; ++i) logits[i] *= scale;
    logits[targets[t]] -= scale;
  }
  return loss;
}

}  // namespace gpt
