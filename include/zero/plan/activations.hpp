// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bytes of activations that a transformer keeps for its backward: an estimate. May include plan/.
#pragma once
#include <zero/plan/model_description.hpp>

namespace zero::plan {

enum class Attention {
  plain,  // keeps the scores of all pairs of places
  flash   // keeps a number for each place and head
};
enum class Recompute {
  none,
  selective,  // the scores of attention
  full        // each block from its input
};

/// Bytes that one rank keeps for the backward of `sequences` sequences, by unit.
struct Activations {
  double embedding = 0, block = 0, head = 0;  // kept from forward to backward
  double working = 0;      // beside them, while one block is recomputed or its gradients flow
  std::size_t layers = 0;  // how many blocks
  /// Bytes that a unit keeps.
  constexpr double of_unit(std::size_t u) const {
    return u == 0 ? embedding : u <= layers ? block : head;
  }
  /// Bytes of all that is kept at the turn.
  constexpr double peak() const {
    return embedding + static_cast<double>(layers) * block + head + working;
  }
};

/// What autograd keeps with 16-bit activations: the inputs of the norms, of the matrices, of the
/// activation function, and of attention; with dropout, masks of one byte.
///
/// An estimate: frameworks keep more (copies, casts, fragments of their allocator) or less (fused
/// kernels). For a plain GPT it is s b h (34 + 5 a s / h) bytes a block, and the last unit's is
/// 4 s b h + 4 s b v.
///
/// Source:  Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models,
///          2022, sections 4.1, 4.3 and 5; Dao et al., FlashAttention, 2022, section 3.1 (the
///          log-sum-exp of a row in place of its scores).
constexpr Activations activations(const Transformer& t, std::size_t sequences, Attention attention,
                                  Recompute recompute) {
  const auto tokens = static_cast<double>(sequences) * static_cast<double>(t.context);
  const auto h = static_cast<double>(t.width), kv = static_cast<double>(t.key_value_width());
  const auto f = static_cast<double>(t.inner_width()), v = static_cast<double>(t.vocabulary);
  const double pairs = static_cast<double>(t.heads) * static_cast<double>(t.context);  // of a token
  const double mask = t.dropout ? 1 : 0;
  const double norms = 2 * 2 * h;
  // Input of q, k, v; q; k and v; the input of the last matrix, and the mask after it.
  const double around = 2 * h + 2 * h + 2 * 2 * kv + 2 * h + mask * h;
  // Softmax, dropout's output and mask; or one fp32 number for each head and place.
  const double scores = attention == Attention::flash ? 4 * static_cast<double>(t.heads)
                                                      : (2 + (t.dropout ? 2 + 1 : 0)) * pairs;
  // Input; gate, up, their product and its factor, or the activation's input and output; mask.
  const double feed_forward = 2 * h + (t.gated ? 4 * 2 * f : 2 * 2 * f) + mask * h;
  const double kept_scores = recompute == Recompute::none ? scores : 0;
  const double whole = norms + around + feed_forward + scores;

  Activations bytes;
  bytes.layers = t.layers;
  bytes.embedding = mask * h * tokens;
  bytes.block = tokens * (recompute == Recompute::full ? 2 * h : whole - scores + kept_scores);
  bytes.head = tokens * (4 * h + 4 * v);
  bytes.working = recompute == Recompute::full        ? tokens * whole
                  : recompute == Recompute::selective ? tokens * scores
                                                      : 0;
  return bytes;
}

/// Operations that recomputation adds to the backward of one block, for one token.
constexpr double recomputed_flops(const ModelDescription& model, Attention attention,
                                  Recompute recompute) {
  if (recompute == Recompute::full) return model.forward_flops(1);
  // Flash attention computes its scores again in any case; usual counts leave that out.
  return recompute == Recompute::selective && attention == Attention::plain
             ? model.attention_flops()
             : 0;
}

}  // namespace zero::plan
