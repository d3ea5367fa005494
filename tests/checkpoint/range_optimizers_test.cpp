// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Checkpoints of an optimizer whose states are tensors of their own.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>
#include <vector>
#include <zero/checkpoint.hpp>

#include "../module/harness.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(range_optimizers_test)

using files::MemoryFiles;
using harness::Plan;
using harness::Setup;

inline harness::Model make_model() {
  return harness::model_of(
      {"embed", 1, harness::shapes({{20, 16}, {5}})},
      {"block", 2, harness::shapes({{12, 30}, {300}, {2, 2}, {9, 9}}).frozen({3})},
      {"head", 1, harness::shapes({{0}, {290}})});
}
inline Plan make_plan(std::size_t steps) {
  Plan plan;
  plan.steps = steps;
  plan.initial = [](const zero::TensorInfo& tensor, std::size_t i) {
    return static_cast<float>((tensor.place * 3 + i) % 11) / 16;
  };
  plan.gradient = [](const harness::Place& p) {
    return static_cast<float>(static_cast<int>((p.element * 7 + p.tensor + p.unit) % 17) - 8) / 4;
  };
  return plan;
}
template <class O, class F>
auto in_stage(std::size_t stage, std::size_t ranks, const O& optimizer, F f) {
  const harness::NamedStage named = harness::stages(ranks)[stage];
  return harness::on_ranks<float>(named, Setup{}.on(ranks, named.replicas), make_model(), optimizer,
                                  f, zero::Precision{});
}

/// All weights, then a state of a vector and one of a matrix: the last 290 + 20 or 320 numbers.
template <class Module>
std::vector<float> numbers_of(Module& module) {
  std::vector<float> numbers = harness::weights_of(module);
  for (const char* name : {"head.b", "embed.a"}) {
    const zero::TensorInfo& tensor = module.parameters().find(name);
    std::vector<float> state(module.parameters().state_numbers(tensor, 0));
    module.read_state(name, 0, state);
    numbers.insert(numbers.end(), state.begin(), state.end());
  }
  return numbers;
}
/// Saves one step of an optimizer on two ranks; returns its numbers.
template <class O>
std::vector<float> save_one_step(MemoryFiles& disk, const O& optimizer) {
  return in_stage(3, 2, optimizer, [&](auto& module) {
    harness::train(module, zero::UserCode::on_caller, make_plan(1));
    zero::save(module, "runs", {.files = &disk});
    return numbers_of(module);
  })[0];
}
/// What `optimizer` has of it after it was loaded.
template <class O>
std::vector<float> load_one_step(MemoryFiles& disk, const O& optimizer, bool weights_only) {
  return in_stage(3, 3, optimizer, [&](auto& module) {
    zero::load(module, "runs", {.weights_only = weights_only, .files = &disk});
    return numbers_of(module);
  })[0];
}

BOOST_AUTO_TEST_CASE(rows_and_columns_are_found_again_on_other_ranks) {
  const zero::Adafactor factored{.learning_rate = 0.1F};
  MemoryFiles disk;
  const std::vector<float> saved = save_one_step(disk, factored);
  BOOST_TEST(harness::same_bits(load_one_step(disk, factored, false), saved));
}

BOOST_AUTO_TEST_CASE(weights_alone_go_from_one_optimizer_to_another) {
  const zero::Adafactor factored{};
  const zero::AdamW adamw{};
  MemoryFiles disk, other;
  std::vector<float> saved = save_one_step(disk, factored);
  std::vector<float> loaded = load_one_step(disk, adamw, true);
  saved.resize(saved.size() - 290 - 20);
  loaded.resize(saved.size());
  BOOST_TEST(harness::same_bits(loaded, saved));
  saved = save_one_step(other, adamw);
  loaded = load_one_step(other, factored, true);
  saved.resize(saved.size() - 290 - 320);
  loaded.resize(saved.size());
  BOOST_TEST(harness::same_bits(loaded, saved));
  const std::string error = harness::error_of([&] { load_one_step(disk, adamw, false); });
  BOOST_TEST(harness::says(error, {"block.0.a (state.0)", "block.0.a/state.0"}), error);
}

BOOST_AUTO_TEST_SUITE_END()
