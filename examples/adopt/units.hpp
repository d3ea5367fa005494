// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The tensors of gpt2.hpp by what is needed together, and its update, as zero takes them: what a
// program adds outside of its loop, on the host and on GPUs.
#pragma once

#include <string>
#include <zero/base/host_device.hpp>
#include <zero/layout/fields.hpp>
#include <zero/module/model.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/proof.hpp>
#include <zero/policy/stages.hpp>

#include "gpt2.hpp"

namespace adopt {

struct Sizes {};
template <class F>
struct Embedding {  // and all norms that a layer reads of the next: whole from first to last layer
  zero::Tensor<F> wpe, norm1, normf;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(zero::tensor("wpe", &Embedding::wpe, {T, C}),
                         zero::tensor("norm1", &Embedding::norm1, {L, C}),
                         zero::tensor("normf", &Embedding::normf, {C}));
  }
};
template <class F>
struct Block {  // one slice of each stacked tensor
  zero::Tensor<F> qkv, proj, norm2, up, down;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(
        zero::tensor("qkv", &Block::qkv, {3 * C, C}), zero::tensor("proj", &Block::proj, {C, C}),
        zero::tensor("norm2", &Block::norm2, {C}), zero::tensor("up", &Block::up, {4 * C, C}),
        zero::tensor("down", &Block::down, {C, 4 * C}));
  }
};
template <class F>
struct Head {  // the embedding reads it too
  zero::Tensor<F> wte;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(zero::tensor("wte", &Head::wte, {V, C}));
  }
};
inline auto gpt2() {
  return zero::model(zero::unit<Embedding>("embed", Sizes{}).reads("head"),
                     zero::units<Block>("block", L, Sizes{}).reads("embed"),
                     zero::unit<Head>("head", Sizes{}));
}

// Within the scope of a unit, what the loop had as pointers; the others are null.
inline Params pointers(const Embedding<float>& e, const Head<float>& h) {
  return {
      .wte = h.wte.data(), .wpe = e.wpe.data(), .norm1 = e.norm1.data(), .normf = e.normf.data()};
}
inline Params pointers(const Block<float>& b, const Embedding<float>& e) {
  return {.norm1 = e.norm1.data(),
          .normf = e.normf.data(),
          .qkv = b.qkv.data(),
          .proj = b.proj.data(),
          .norm2 = b.norm2.data(),
          .up = b.up.data(),
          .down = b.down.data()};
}
inline Params pointers(const Head<float>& h) { return {.wte = h.wte.data()}; }
/// A layer's tensors are no longer stacked.
inline Layer layer_of(const Params& p, Size) { return {p.qkv, p.proj, p.norm2, p.up, p.down}; }

/// Stages are types, proved when this is compiled; a program that chooses one when it runs keeps
/// them as values.
static_assert(zero::proven<zero::Zero1> && zero::proven<zero::Zero2> && zero::proven<zero::Zero3>);
inline constexpr const zero::StageValue* stages[] = {
    &zero::stage_value<zero::Ddp>, &zero::stage_value<zero::Zero1>, &zero::stage_value<zero::Zero2>,
    &zero::stage_value<zero::Zero3>};

/// The numbers of initialize(), in which layers are stacked.
inline float initial_of(const zero::TensorInfo& tensor, Size element) {
  const char* names[] = {"wte", "wpe", "norm1", "normf", "qkv", "proj", "norm2", "up", "down"};
  const std::string name = tensor.name.substr(tensor.name.rfind('.') + 1);
  Size k = 0;
  while (name != names[k]) ++k;
  const Size layer = tensor.name.starts_with("block.") ? Size(tensor.name[6] - '0') : 0;
  return initial(k, layer * tensor.shape.elements() + element);
}

/// The update of this program, called for each element that the rank owns.
struct Adam {
  static constexpr std::size_t states = 2;
  using Coefficients = AdamStep;
  static Coefficients coefficients(std::int64_t t, std::int64_t, bool) { return adam_step(t); }
  ZERO_HOST_DEVICE static void element(const AdamStep& s, float g, float& w, float& m, float& v) {
    adam(s, g, w, m, v);
  }
};

}  // namespace adopt
