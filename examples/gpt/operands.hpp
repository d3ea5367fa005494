// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a Math is: the operations of a transformer, forward and backward, wherever they run.
// Includes functions.hpp.
#pragma once

#include "functions.hpp"

// The passes of model.hpp are written once, over a Math: HostMath of math.hpp computes at once, on
// the calling thread; CudaMath of cuda/math.cuh enqueues on a stream. A Math has
//
//   Memory<T>                a block of its memory: Memory<T>(count), data()
//   upload, download         copies of arrays from and to the host; download waits for its result
//   copy, clear              within its memory
//   matmul                   products of matrices
//   embedding_*, layer_norm_*, softmax_causal_*, gelu_*, softmax_cross_entropy
//
// Every matrix is row-major. `tokens` counts rows of a matrix: all positions of all sequences of a
// micro-batch. Backward functions ADD to gradients of weights and overwrite those of activations,
// unless their comment says otherwise. Sums are made in an order that depends on sizes only, so
// that equal inputs give equal bits, whatever the thread.

namespace gpt {

/// `count` products c [m, n] = alpha * a [m, k] * b [k, n] + beta * c.
struct Products {
  Size m, n, k;
  Size count = 1;
};

enum class Transpose : bool { no, yes };

/// The a or b of products. As it lies in memory its rows begin `stride` elements apart, and that of
/// the next product `next` elements further on.
template <class Real>
struct Factor {
  const Real* data;
  Size stride;
  Transpose transpose = Transpose::no;
  Size next = 0;
};

/// The c of products.
template <class Real>
struct Product {
  Real* data;
  Size stride;
  Size next = 0;
};

/// Sizes of the embedding of one micro-batch.
struct EmbeddingShape {
  Size tokens, length, width;  // tokens: a multiple of length
};

}  // namespace gpt
