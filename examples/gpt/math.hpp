// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The Math of the host: plain loops, and a BLAS for the products. Includes cblas and operands.hpp.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "operands.hpp"

namespace gpt {

/// The ranks are the threads: a library that started more for each product would only disturb them.
inline void use_one_thread_for_math() { openblas_set_num_threads(1); }

/// `Real` is float; the tests also use double.
struct HostMath {
  template <class T>
  using Memory = std::vector<T>;

  template <class T>
  static void copy(T* to, const T* from, Size count) {
    std::copy(from, from + count, to);
  }
  template <class T>
  static void upload(T* to, const T* from, Size count) {
    copy(to, from, count);
  }
  template <class T>
  static void download(T* to, const T* from, Size count) {
    copy(to, from, count);
  }
  template <class T>
  static void clear(T* data, Size count) {
    std::fill(data, data + count, T(0));
  }

  template <class Real>
  static void matmul(const Products& p, Real alpha, Factor<std::type_identity_t<Real>> a,
                     Factor<std::type_identity_t<Real>> b, std::type_identity_t<Real> beta,
                     Product<std::type_identity_t<Real>> c) {
    const auto op = [](Transpose t) { return t == Transpose::yes ? CblasTrans : CblasNoTrans; };
    const auto size = [](Size s) { return static_cast<blasint>(s); };
    for (Size i = 0; i < p.count; ++i) {
      if constexpr (std::is_same_v<Real, float>)
        cblas_sgemm(CblasRowMajor, op(a.transpose), op(b.transpose), size(p.m), size(p.n),
                    size(p.k), alpha, a.data, size(a.stride), b.data, size(b.stride), beta, c.data,
                    size(c.stride));
      else
        cblas_dgemm(CblasRowMajor, op(a.transpose), op(b.transpose), size(p.m), size(p.n),
                    size(p.k), alpha, a.data, size(a.stride), b.data, size(b.stride), beta, c.data,
                    size(c.stride));
      a.data += a.next, b.data += b.next, c.data += c.next;
    }
  }

  /// out = byte[bytes] + position for each token.
  ///
  /// Shape:   out [tokens, width]; byte [classes, width]; position [length, width].
  template <class Real>
  static void embedding_forward(Real* out, const Real* byte, const Real* position,
                                const std::uint8_t* bytes, const EmbeddingShape& s) {
    for (Size t = 0; t < s.tokens; ++t, out += s.width) {
      const Real *of_byte = byte + bytes[t] * s.width,
                 *of_place = position + t % s.length * s.width;
      for (Size i = 0; i < s.width; ++i) out[i] = of_byte[i] + of_place[i];
    }
  }
  template <class Real>
  static void embedding_backward(Real* d_byte, Real* d_position, const Real* d_out,
                                 const std::uint8_t* bytes, const EmbeddingShape& s) {
    for (Size t = 0; t < s.tokens; ++t, d_out += s.width) {
      Real *of_byte = d_byte + bytes[t] * s.width, *of_place = d_position + t % s.length * s.width;
      for (Size i = 0; i < s.width; ++i) of_byte[i] += d_out[i];
      for (Size i = 0; i < s.width; ++i) of_place[i] += d_out[i];
    }
  }

  /// out = (in - mean) * inverse_deviation * gain for each token; keeps both figures for backward.
  ///
  /// Shape:   in, out [tokens, width]; gain [width]; mean, inverse_deviation [tokens].
  template <class Real>
  static void layer_norm_forward(Real* out, Real* mean, Real* inverse_deviation, const Real* in,
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
  static void layer_norm_backward(Real* d_in, Real* d_gain, const Real* d_out, const Real* in,
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

  /// out[i] = gelu(in[i]).
  template <class Real>
  static void gelu_forward(Real* out, const Real* in, Size n) {
    for (Size i = 0; i < n; ++i) out[i] = gelu(in[i]);
  }

  /// d[i] is the gradient of gelu(in[i]) and becomes that of in[i].
  template <class Real>
  static void gelu_backward(Real* d, const Real* in, Size n) {
    for (Size i = 0; i < n; ++i) d[i] *= gelu_slope(in[i]);
  }

  /// Row t of each matrix becomes the softmax of its elements 0 to t, and 0 after them.
  ///
  /// Shape:   scores [matrices, length, length].
  template <class Real>
  static void softmax_causal_forward(Real* scores, Size matrices, Size length) {
    for (Size row = 0; row < matrices * length; ++row, scores += length) {
      const Size seen = row % length + 1;
      softmax(scores, seen);
      std::fill(scores + seen, scores + length, Real(0));
    }
  }
  /// d is the gradient of the chances, and becomes that of the scores.
  template <class Real>
  static void softmax_causal_backward(Real* d, const Real* chances, Size matrices, Size length) {
    for (Size row = 0; row < matrices * length; ++row, d += length, chances += length) {
      const Size seen = row % length + 1;
      const Real dot = sum_of<Real>(seen, [=](Size i) { return chances[i] * d[i]; });
      for (Size i = 0; i < seen; ++i) d[i] = chances[i] * (d[i] - dot);
      std::fill(d + seen, d + length, Real(0));
    }
  }

  /// *sum += the mean over tokens of -log softmax(logits)[target], in nats; logits become the
  /// gradients of this mean times `weight`. losses [tokens] is scratch.
  ///
  /// Shape:   logits [tokens, classes]; targets [tokens].
  template <class Real>
  static void softmax_cross_entropy(double* sum, Real* losses, Real* logits,
                                    const std::uint8_t* targets, Real weight, Size tokens,
                                    Size classes) {
    const Real scale = weight / Real(tokens);
    double loss = 0;
    for (Size t = 0; t < tokens; ++t, logits += classes) {
      const Real chosen = logits[targets[t]];
      losses[t] = softmax(logits, classes) - chosen;
      loss += static_cast<double>(losses[t]);
      for (Size i = 0; i < classes; ++i) logits[i] *= scale;
      logits[targets[t]] -= scale;
    }
    *sum += loss / static_cast<double>(tokens);
  }
};

}  // namespace gpt
