// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ModelDescription: a transformer as a planner sees it: units and their sizes. May include
// schedule/.
#pragma once
#include <cstddef>
#include <string_view>
#include <zero/schedule/model_shape.hpp>

namespace zero::plan {

/// The dimensions of a transformer decoder.
struct Transformer {
  std::size_t layers = 1, width = 1, heads = 1;  // of the blocks
  std::size_t key_value_heads = 0;               // 0: as many as heads
  std::size_t inner = 0;                         // width within the feed-forward part; 0: 4 * width
  std::size_t vocabulary = 1;                    // of the embedding and the head
  std::size_t context = 1;                       // length of a sequence
  bool learned_positions = true;                 // one vector for each place of the context
  bool gated = false;    // the feed-forward part has three matrices (SwiGLU), not two
  bool tied = true;      // the head reads the table of the embedding
  bool biases = true;    // of matrices and norms; false: RMSNorm
  bool dropout = false;  // keeps masks for the backward

  /// Of keys and of values.
  constexpr std::size_t key_value_width() const {
    return (key_value_heads == 0 ? heads : key_value_heads) * width / heads;
  }
  /// Of the two layers behind the attention.
  constexpr std::size_t inner_width() const { return inner == 0 ? 4 * width : inner; }
  /// Elements of the matrices of a block: each multiplies every token once.
  constexpr std::size_t block_matrices() const {
    return 2 * width * (width + key_value_width()) + (gated ? 3 : 2) * width * inner_width();
  }
  /// Elements of a block: matrices, two norms and, if it has them, biases.
  constexpr std::size_t block_elements() const {
    const std::size_t vectors = 2 * width + 2 * key_value_width() +       // q, k, v, out
                                (gated ? 2 : 1) * inner_width() + width;  // in, out
    return block_matrices() + 2 * width + (biases ? 2 * width + vectors : 0);
  }
  /// Of the table, and of learned positions.
  constexpr std::size_t embedding_elements() const {
    return (vocabulary + (learned_positions ? context : 0)) * width;
  }
  /// The last norm, and the head's matrix unless it is the embedding's table.
  constexpr std::size_t head_elements() const {
    return (biases ? 2 : 1) * width + (tied ? 0 : vocabulary * width);
  }
};

/// Units of a model and how many elements the group of each has: embedding, blocks, head. Groups
/// are numbered as in transformer(layers, tied).
struct ModelDescription {
  std::string_view name;                           // as it is asked for
  Transformer dims{};                              // what follows gives from it
  std::size_t embedding = 0, block = 0, head = 0;  // elements of each unit

  /// Counts the elements of a transformer.
  constexpr ModelDescription(std::string_view model_name, const Transformer& t)
      : name(model_name),
        dims(t),
        embedding(t.embedding_elements()),
        block(t.block_elements()),
        head(t.head_elements()) {}
  /// A model of exactly so many parameters, all in its blocks but for what does not divide: for
  /// tables that give no more than a number.
  constexpr ModelDescription(std::string_view model_name, const Transformer& t,
                             std::size_t parameters)
      : name(model_name), dims(t), embedding(parameters % t.layers), block(parameters / t.layers) {}

  /// Units of a schedule.
  constexpr std::size_t groups() const { return dims.layers + 2; }
  /// Elements of group g, without padding.
  constexpr std::size_t elements(std::size_t g) const {
    return g == 0 ? embedding : g <= dims.layers ? block : head;
  }
  /// Elements of all units.
  constexpr std::size_t parameters() const { return embedding + dims.layers * block + head; }
  /// As schedules see it.
  constexpr ModelShape shape() const { return transformer(dims.layers, dims.tied); }

  /// The same model on sequences of another length; learned positions grow with it.
  constexpr ModelDescription with_context(std::size_t context) const {
    ModelDescription other = *this;
    if (dims.learned_positions && embedding >= dims.context * dims.width) {
      other.embedding += context * dims.width;
      other.embedding -= dims.context * dims.width;
    }
    other.dims.context = context;
    return other;
  }

  /// Operations of the attention of one block on one token, forward: scores and their sums, counted
  /// without regard to causality.
  constexpr double attention_flops() const {
    return 4.0 * static_cast<double>(dims.context) * static_cast<double>(dims.width);
  }
  /// Operations of unit u on one token, forward, as the hardware runs them: looking up is free.
  constexpr double forward_flops(std::size_t u) const {
    if (u == 0) return 0;
    if (u <= dims.layers) return 2.0 * static_cast<double>(block) + attention_flops();
    return 2.0 * static_cast<double>(dims.vocabulary * dims.width);
  }
  /// Operations of a training step on one token as model flops utilisation counts them: 6 for each
  /// parameter, and 12 * layers * width * context for attention.
  ///
  /// Source:  Chowdhery et al., PaLM, 2022, appendix B.
  constexpr double flops_per_token() const {
    return 6.0 * static_cast<double>(parameters()) +
           3.0 * static_cast<double>(dims.layers) * attention_flops();
  }
};

}  // namespace zero::plan
