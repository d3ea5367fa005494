// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A byte-level GPT: its three unit kinds, and the forward and backward pass of each, over any Math
// of operands.hpp. Includes layers.hpp and zero/.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>
#include <zero/layout/fields.hpp>
#include <zero/layout/tensor.hpp>
#include <zero/module/model.hpp>

#include "layers.hpp"
#include "random.hpp"

namespace gpt {

inline constexpr Size byte_values = 256;

/// Sizes of the model. `heads` divides `width`.
struct Config {
  Size layers = 6;
  Size width = 128;
  Size heads = 4;
  Size context = 64;  // longest sequence, in bytes

  constexpr Size inner() const { return 4 * width; }
};

// The unit kinds. Weights have no biases: they change the loss little and would double the tensors.

template <class T>
struct Embedding {
  zero::Tensor<T> byte, position;

  static constexpr auto tensors(const Config& c) {
    return zero::tensors(
        zero::tensor("byte.weight", &Embedding::byte, {byte_values, c.width}, zero::no_decay),
        zero::tensor("position.weight", &Embedding::position, {c.context, c.width},
                     zero::no_decay));
  }
};

template <class T>
struct Block {
  zero::Tensor<T> attention_norm, qkv, attention_out, mlp_norm, up, down;

  static constexpr auto tensors(const Config& c) {
    return zero::tensors(
        zero::tensor("attention.norm.weight", &Block::attention_norm, {c.width}, zero::no_decay),
        zero::tensor("attention.qkv.weight", &Block::qkv, {3 * c.width, c.width}),
        zero::tensor("attention.out.weight", &Block::attention_out, {c.width, c.width}),
        zero::tensor("mlp.norm.weight", &Block::mlp_norm, {c.width}, zero::no_decay),
        zero::tensor("mlp.up.weight", &Block::up, {c.inner(), c.width}),
        zero::tensor("mlp.down.weight", &Block::down, {c.width, c.inner()}));
  }
};

template <class T>
struct Head {
  zero::Tensor<T> norm, logits;

  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("norm.weight", &Head::norm, {c.width}, zero::no_decay),
                         zero::tensor("logits.weight", &Head::logits, {byte_values, c.width}));
  }
};

/// The model's units in the order in which they run.
inline auto make_model(const Config& c) {
  return zero::model(zero::unit<Embedding>("embed", c),
                     zero::units<Block>("block", static_cast<std::size_t>(c.layers), c),
                     zero::unit<Head>("head", c));
}

/// A start value: a pure function of the tensor's name, the element and the seed, alike on all
/// ranks. Gains are 1, the rest uniform around 0. The logits begin near 0, so that the first loss
/// is about ln 256; the ends of residual branches begin small, so that a deep model begins as a
/// shallow one. Source:  Radford et al., Language models are unsupervised multitask learners, 2019,
/// section 2.3.
inline float initial_value(std::string_view name, std::size_t element, std::uint64_t seed,
                           const Config& config) {
  if (name.ends_with("norm.weight")) return 1.0f;
  float deviation = 0.75f / std::sqrt(static_cast<float>(config.width));
  if (name.ends_with("byte.weight") || name.ends_with("position.weight")) deviation = 0.3f;
  if (name.ends_with("logits.weight")) deviation = 0.02f;
  if (name.ends_with("attention.out.weight") || name.ends_with("mlp.down.weight"))
    deviation /= std::sqrt(2.0f * static_cast<float>(config.layers));
  std::uint64_t bits = seed;
  for (const char letter : name) bits = mix(bits, static_cast<std::uint64_t>(letter));
  const float uniform = static_cast<float>(mix(bits, element) >> 40) * 0x1p-23f - 1.0f;  // [-1, 1)
  return uniform * deviation * 1.7320508f;  // a uniform number in [-1, 1) deviates by 1 / sqrt(3)
}

/// What one block's forward leaves for its backward.
template <class Real>
struct BlockActivations {
  Real *in, *middle;            // [tokens, width]: the residual stream before attention and MLP
  Real *attention_in, *mlp_in;  // [tokens, width]: normalised
  Real *attention_mean, *attention_deviation, *mlp_mean, *mlp_deviation;  // [tokens]
  Real* qkv;                                                              // [tokens, 3, width]
  Real* chances;    // [sequences, heads, length, length]
  Real* attended;   // [tokens, width]
  Real *up, *gelu;  // [tokens, inner]
};

/// All that the passes of one micro-batch write, allocated once, in `Storage`: memory of a Math.
template <class Real, class Storage = std::vector<Real>>
class Activations {
 public:
  /// Memory for `sequence_count` sequences of config.context bytes.
  Activations(const Config& config, Size sequence_count)
      : sequences(sequence_count),
        blocks(static_cast<std::size_t>(config.layers)),
        storage_(lay_out(config, nullptr)) {
    lay_out(config, storage_.data());
  }
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  Size sequences;
  std::vector<BlockActivations<Real>> blocks;
  Real *out, *normal;      // [tokens, width]: the residual stream after the last block; normalised
  Real *mean, *deviation;  // [tokens]
  Real* logits;            // [tokens, byte_values]; the loss turns them into their gradients
  Real* losses;            // [tokens]
  Real* d_stream;          // [tokens, width]: the gradient of the residual stream on its way down
  Real *d_narrow, *d_wide, *d_scores;  // scratch [tokens, width], [tokens, inner], [heads, length,
                                       // length]

  /// Where unit `block` writes the residual stream: the input of the next.
  Real* after(std::size_t block) { return block + 1 < blocks.size() ? blocks[block + 1].in : out; }

 private:
  Storage storage_;

  std::size_t lay_out(const Config& c, Real* base) {
    Size used = 0;
    const auto take = [&](Size count) {
      Real* begin = base == nullptr ? nullptr : base + used;
      used += (count + 15) / 16 * 16;  // 64 bytes of float
      return begin;
    };
    const Size tokens = sequences * c.context, narrow = tokens * c.width, wide = tokens * c.inner();
    for (BlockActivations<Real>& b : blocks) {
      for (Real** p : {&b.in, &b.middle, &b.attention_in, &b.mlp_in, &b.attended})
        *p = take(narrow);
      for (Real** p : {&b.attention_mean, &b.attention_deviation, &b.mlp_mean, &b.mlp_deviation})
        *p = take(tokens);
      b.qkv = take(3 * narrow);
      b.chances = take(tokens * c.heads * c.context);
      for (Real** p : {&b.up, &b.gelu}) *p = take(wide);
    }
    for (Real** p : {&out, &normal, &d_stream, &d_narrow}) *p = take(narrow);
    for (Real** p : {&mean, &deviation, &losses}) *p = take(tokens);
    logits = take(tokens * byte_values);
    d_wide = take(wide);
    d_scores = take(c.heads * c.context * c.context);
    return static_cast<std::size_t>(used);
  }
};

/// bytes [tokens] -> the first residual stream.
template <class Math, class Real, class Storage>
void embedding_forward(Math& math, const Config& c, const Embedding<Real>& w,
                       const std::uint8_t* bytes, Activations<Real, Storage>& a) {
  math.embedding_forward(a.blocks.front().in, w.byte.data(), w.position.data(), bytes,
                         {a.sequences * c.context, c.context, c.width});
}

template <class Math, class Real, class Storage>
void embedding_backward(Math& math, const Config& c, const Embedding<Real>& g,
                        const std::uint8_t* bytes, const Activations<Real, Storage>& a) {
  math.embedding_backward(g.byte.data(), g.position.data(), a.d_stream, bytes,
                          {a.sequences * c.context, c.context, c.width});
}

/// x -> m = x + attention(norm(x)) -> m + mlp(norm(m)), from activations `block` to after(block).
template <class Math, class Real, class Storage>
void block_forward(Math& math, const Config& c, const Block<Real>& w, std::size_t block,
                   Activations<Real, Storage>& a) {
  const BlockActivations<Real>& b = a.blocks[block];
  const Size tokens = a.sequences * c.context, width = c.width, inner = c.inner();
  const AttentionShape shape{a.sequences, c.context, c.heads, c.width / c.heads};
  math.layer_norm_forward(b.attention_in, b.attention_mean, b.attention_deviation, b.in,
                          w.attention_norm.data(), tokens, width);
  linear_forward(math, b.qkv, b.attention_in, w.qkv.data(), tokens, width, 3 * width);
  attention_forward(math, b.attended, b.chances, b.qkv, shape);
  math.copy(b.middle, b.in, tokens * width);
  linear_forward(math, b.middle, b.attended, w.attention_out.data(), tokens, width, width, true);

  math.layer_norm_forward(b.mlp_in, b.mlp_mean, b.mlp_deviation, b.middle, w.mlp_norm.data(),
                          tokens, width);
  linear_forward(math, b.up, b.mlp_in, w.up.data(), tokens, width, inner);
  math.gelu_forward(b.gelu, b.up, tokens * inner);
  Real* out = a.after(block);
  math.copy(out, b.middle, tokens * width);
  linear_forward(math, out, b.gelu, w.down.data(), tokens, inner, width, true);
}

/// d_stream is the gradient of the block's output and becomes that of its input.
template <class Math, class Real, class Storage>
void block_backward(Math& math, const Config& c, const Block<Real>& w, const Block<Real>& g,
                    std::size_t block, Activations<Real, Storage>& a) {
  const BlockActivations<Real>& b = a.blocks[block];
  const Size tokens = a.sequences * c.context, width = c.width, inner = c.inner();
  const AttentionShape shape{a.sequences, c.context, c.heads, c.width / c.heads};
  linear_backward(math, a.d_wide, g.down.data(), a.d_stream, b.gelu, w.down.data(), tokens, inner,
                  width);
  math.gelu_backward(a.d_wide, b.up, tokens * inner);
  linear_backward(math, a.d_narrow, g.up.data(), a.d_wide, b.mlp_in, w.up.data(), tokens, width,
                  inner);
  math.layer_norm_backward(a.d_stream, g.mlp_norm.data(), a.d_narrow, b.middle, w.mlp_norm.data(),
                           b.mlp_mean, b.mlp_deviation, tokens, width);

  linear_backward(math, a.d_narrow, g.attention_out.data(), a.d_stream, b.attended,
                  w.attention_out.data(), tokens, width, width);
  attention_backward(math, a.d_wide, a.d_scores, a.d_narrow, b.qkv, b.chances, shape);
  linear_backward(math, a.d_narrow, g.qkv.data(), a.d_wide, b.attention_in, w.qkv.data(), tokens,
                  width, 3 * width);
  math.layer_norm_backward(a.d_stream, g.attention_norm.data(), a.d_narrow, b.in,
                           w.attention_norm.data(), b.attention_mean, b.attention_deviation, tokens,
                           width);
}

template <class Math, class Real, class Storage>
void head_forward(Math& math, const Config& c, const Head<Real>& w, Activations<Real, Storage>& a) {
  const Size tokens = a.sequences * c.context;
  math.layer_norm_forward(a.normal, a.mean, a.deviation, a.out, w.norm.data(), tokens, c.width);
  linear_forward(math, a.logits, a.normal, w.logits.data(), tokens, c.width, byte_values);
}

/// *sum += the mean loss in nats per byte, where math keeps numbers; the logits become gradients of
/// loss * weight, for backward.
template <class Math, class Real, class Storage>
void add_loss(Math& math, const Config& c, const std::uint8_t* targets, Real weight,
              Activations<Real, Storage>& a, double* sum) {
  math.softmax_cross_entropy(sum, a.losses, a.logits, targets, weight, a.sequences * c.context,
                             byte_values);
}

/// Begins the way down: reads the gradients that add_loss() left in the logits.
template <class Math, class Real, class Storage>
void head_backward(Math& math, const Config& c, const Head<Real>& w, const Head<Real>& g,
                   Activations<Real, Storage>& a) {
  const Size tokens = a.sequences * c.context;
  linear_backward(math, a.d_narrow, g.logits.data(), a.logits, a.normal, w.logits.data(), tokens,
                  c.width, byte_values);
  math.clear(a.d_stream, tokens * c.width);
  math.layer_norm_backward(a.d_stream, g.norm.data(), a.d_narrow, a.out, w.norm.data(), a.mean,
                           a.deviation, tokens, c.width);
}

}  // namespace gpt
