// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains a model with a zero::RangeOptimizer on one rank, in one loop over whole tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>
#include <zero/schedule/hash.hpp>

#include "harness.hpp"

namespace ranges {

using harness::Model, harness::model_of, harness::Place, harness::Plan, harness::shapes;

/// Matrices, high and wide, of one column and with three dimensions; vectors, one of them empty.
inline Model make_model() {
  return model_of({"embed", 1, shapes({{20, 16}, {5}})},
                  {"block", 2, shapes({{12, 30}, {300}, {7, 1}, {2, 3, 50}}).no_decay({1})},
                  {"head", 1, shapes({{0}, {9, 9}, {33}}).frozen({2})});
}
inline Plan make_plan() {
  Plan plan;
  plan.steps = 4;
  plan.finish.max_norm = 1000;
  plan.initial = [](const zero::TensorInfo& tensor, std::size_t i) {
    return static_cast<float>(static_cast<int>((tensor.unit * 5 + tensor.place * 3 + i) % 11) - 5) /
           16;
  };
  // Small whole numbers, alike on all ranks, so that averages are exact.
  plan.gradient = [](const Place& p) {
    const std::size_t mixed = (p.step + 3) * (p.element * p.element + 7 * p.tensor + p.unit + 1);
    return static_cast<float>(static_cast<int>(mixed % 17) - 8) / 4;
  };
  return plan;
}

/// What is compared: weights, and each state of each tensor.
struct Trained {
  std::vector<std::vector<float>> numbers{};
  zero::BytesHeld held{}, predicted{};
  std::size_t needed = 0;
  bool keeps_state = false;
  std::map<std::string, std::map<std::uint64_t, float>> elements{};  // of each part, by number
};

/// One rank, one loop over whole tensors.
template <class O>
Trained train_plainly(const zero::Groups<O>& optimizers, const zero::ParameterTable& table) {
  const Plan plan = make_plan();
  Trained made;
  for (const zero::TensorInfo& tensor : table.tensors()) {
    const std::size_t n = tensor.shape.elements();
    const O& optimizer = optimizers.of(tensor.name);
    std::vector<float>& weights = made.numbers.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) weights[i] = plan.initial(tensor, i);
    if (tensor.frozen || n == 0) continue;
    constexpr bool in_blocks = O::block != zero::whole_tensor;
    const std::size_t blocks = in_blocks ? (n + O::block - 1) / O::block : 1;
    const zero::Shape range = in_blocks ? zero::Shape{O::block} : tensor.shape;
    std::vector<std::vector<float>> kept;
    std::vector<zero::Array> states;
    for (std::size_t k = 0; k < O::states; ++k) {
      kept.emplace_back(blocks * optimizer.state_numbers(k, range));
    }
    for (auto& state : kept) states.emplace_back(state.data(), state.size());
    std::vector<float> gradient(n), scratch(optimizer.scratch_numbers(range));
    for (std::size_t step = 0; step < plan.steps; ++step) {
      const std::size_t in_unit = static_cast<std::size_t>(&tensor - table.tensors().data()) -
                                  table.units()[tensor.unit].first_tensor;
      for (std::size_t i = 0; i < n; ++i) {
        gradient[i] = plan.gradient({0, step, 0, tensor.unit, in_unit, i});
      }
      const zero::RandomBits random = zero::RandomBits{}
                                          .with(zero::ModuleOptions{}.rounding_seed)
                                          .with(zero::Hasher().mix(tensor.name).value())
                                          .with(step + 1);
      const auto at = static_cast<std::int64_t>(step);
      O::update(optimizer.coefficients(at + 1, at, tensor.decay), 1, 1, tensor.shape,
                {.gradient = zero::Array(gradient.data(), n),
                 .master = zero::Array(weights.data(), n),
                 .compute = {},
                 .states = states.data(),
                 .random = random},
                scratch.data());
    }
    for (std::size_t k = 0; k < O::states; ++k) {
      if constexpr (in_blocks) {
        std::vector<float> numbers(n);
        O::unpack_state(k, kept[k].data(), numbers.data(), n);
        made.numbers.push_back(numbers);
      } else {
        made.numbers.push_back(kept[k]);
      }
    }
  }
  return made;
}

}  // namespace ranges
