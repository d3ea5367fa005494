// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Linear layers and attention, forward and backward, over any Math. Includes operands.hpp.
#pragma once

#include <cmath>

#include "operands.hpp"

namespace gpt {

/// out [tokens, outputs] = in [tokens, inputs] * weight [outputs, inputs]^T, added to out if `add`.
template <class Math, class Real>
void linear_forward(Math& math, Real* out, const Real* in, const Real* weight, Size tokens,
                    Size inputs, Size outputs, bool add = false) {
  math.matmul({tokens, outputs, inputs}, Real(1), {in, inputs}, {weight, inputs, Transpose::yes},
              Real(add), {out, outputs});
}

/// d_in [tokens, inputs] = d_out [tokens, outputs] * weight; d_weight += d_out^T * in.
template <class Math, class Real>
void linear_backward(Math& math, Real* d_in, Real* d_weight, const Real* d_out, const Real* in,
                     const Real* weight, Size tokens, Size inputs, Size outputs) {
  math.matmul({tokens, inputs, outputs}, Real(1), {d_out, outputs}, {weight, inputs}, Real(0),
              {d_in, inputs});
  math.matmul({outputs, inputs, tokens}, Real(1), {d_out, outputs, Transpose::yes}, {in, inputs},
              Real(1), {d_weight, inputs});
}

/// Sizes of the attention of one micro-batch.
struct AttentionShape {
  Size sequences, length, heads, head_width;

  Size width() const { return heads * head_width; }
  template <class Real>
  Real scale() const {
    return Real(1) / std::sqrt(Real(head_width));
  }
};

/// out = softmax(q k^T / sqrt(head_width)) v, each position over itself and those before it.
///
/// Shape:   qkv [sequences, length, 3, heads, head_width]; out [sequences, length, heads,
/// head_width];
///          chances [sequences, heads, length, length], kept for backward, 0 above the diagonal.
template <class Math, class Real>
void attention_forward(Math& math, Real* out, Real* chances, const Real* qkv,
                       const AttentionShape& s) {
  const Size width = s.width(), row = 3 * width, head = s.head_width, square = s.length * s.length;
  for (Size sequence = 0; sequence < s.sequences; ++sequence) {
    const Real *q = qkv + sequence * s.length * row, *k = q + width, *v = k + width;
    math.matmul({s.length, s.length, head, s.heads}, s.scale<Real>(), {q, row, Transpose::no, head},
                {k, row, Transpose::yes, head}, Real(0), {chances, s.length, square});
    math.softmax_causal_forward(chances, s.heads, s.length);
    math.matmul({s.length, head, s.length, s.heads}, Real(1),
                {chances, s.length, Transpose::no, square}, {v, row, Transpose::no, head}, Real(0),
                {out, width, head});
    chances += s.heads * square;
    out += s.length * width;
  }
}

/// d_qkv from d_out; `d_scores` [heads, length, length] is scratch.
template <class Math, class Real>
void attention_backward(Math& math, Real* d_qkv, Real* d_scores, const Real* d_out, const Real* qkv,
                        const Real* chances, const AttentionShape& s) {
  const Size width = s.width(), row = 3 * width, head = s.head_width, square = s.length * s.length;
  const Products all_scores{s.length, s.length, head, s.heads};
  const Products all_parts{s.length, head, s.length, s.heads};
  for (Size sequence = 0; sequence < s.sequences; ++sequence) {
    const Size offset = sequence * s.length * row;
    const Real *q = qkv + offset, *k = q + width, *v = k + width;
    Real *d_q = d_qkv + offset, *d_k = d_q + width, *d_v = d_k + width;
    const Factor<Real> d_o{d_out, width, Transpose::no, head};
    math.matmul(all_scores, Real(1), d_o, {v, row, Transpose::yes, head}, Real(0),
                {d_scores, s.length, square});
    math.matmul(all_parts, Real(1), {chances, s.length, Transpose::yes, square}, d_o, Real(0),
                {d_v, row, head});
    math.softmax_causal_backward(d_scores, chances, s.heads, s.length);
    math.matmul(all_parts, s.scale<Real>(), {d_scores, s.length, Transpose::no, square},
                {k, row, Transpose::no, head}, Real(0), {d_q, row, head});
    math.matmul(all_parts, s.scale<Real>(), {d_scores, s.length, Transpose::yes, square},
                {q, row, Transpose::no, head}, Real(0), {d_k, row, head});
    chances += s.heads * square;
    d_out += s.length * width;
  }
}

}  // namespace gpt
