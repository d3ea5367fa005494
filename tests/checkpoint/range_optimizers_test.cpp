// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Checkpoints of optimizers whose state is no number an element: saved on one mesh, the run goes on
// with the same bits on any other.
#include <boost/test/unit_test.hpp>
#include <cmath>
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
  return harness::on_ranks<float>(named, Setup{}.on(ranks, named.replicas), make_model(), optimizer, f, zero::Precision{});
}

/// Stage and ranks that save, then those that load: also hybrid and hpZ.
struct Meshes {
  std::size_t from_stage, from, to_stage, to;
};
inline constexpr Meshes all_meshes[] = {
    {3, 3, 3, 3}, {3, 3, 0, 1}, {0, 2, 3, 2}, {5, 4, 1, 3}, {2, 1, 4, 2}};

template <class O>
void resumes_anywhere(const O& optimizer) {
  for (const Meshes& m : all_meshes) {
    BOOST_TEST_CONTEXT(m.from_stage << " on " << m.from << " to " << m.to_stage << " on " << m.to) {
      MemoryFiles disk;
      const auto gone_on = in_stage(m.from_stage, m.from, optimizer, [&](auto& module) {
        harness::train(module, zero::UserCode::on_caller, make_plan(2));
        zero::save(module, "runs", {.chunk_bytes = 64, .files = &disk});
        return harness::train(module, zero::UserCode::on_caller, make_plan(2), false).weights;
      });
      const auto resumed = in_stage(m.to_stage, m.to, optimizer, [&](auto& module) {
        zero::load(module, "runs", {.files = &disk});
        return harness::train(module, zero::UserCode::on_caller, make_plan(2), false).weights;
      });
      for (const auto& rank : resumed) BOOST_TEST(harness::same_bits(rank, gone_on[0]));
    }
  }
}

BOOST_AUTO_TEST_CASE(moments_of_8_bits_go_on_where_they_were) {
  resumes_anywhere(zero::AdamW8bit{.learning_rate = 0.01F});
}
BOOST_AUTO_TEST_CASE(rows_and_columns_go_to_their_next_owner) {
  resumes_anywhere(zero::Adafactor{.learning_rate = 0.1F});
}

/// Saves one step of an optimizer on two ranks; returns the weights and the state of "head.b".
template <class O>
std::vector<float> save_one_step(MemoryFiles& disk, const O& optimizer) {
  return in_stage(3, 2, optimizer, [&](auto& module) {
    harness::train(module, zero::UserCode::on_caller, make_plan(1));
    zero::save(module, "runs", {.files = &disk});
    std::vector<float> numbers = harness::weights_of(module), state(290);
    module.read_state("head.b", 0, state);
    numbers.insert(numbers.end(), state.begin(), state.end());
    return numbers;
  })[0];
}
/// What `optimizer` has of it after it was loaded.
template <class O>
std::vector<float> load_one_step(MemoryFiles& disk, const O& optimizer, bool weights_only) {
  return in_stage(3, 3, optimizer, [&](auto& module) {
    zero::load(module, "runs", {.weights_only = weights_only, .files = &disk});
    std::vector<float> numbers = harness::weights_of(module), state(290);
    module.read_state("head.b", 0, state);
    numbers.insert(numbers.end(), state.begin(), state.end());
    return numbers;
  })[0];
}

BOOST_AUTO_TEST_CASE(moments_of_8_bits_and_those_of_adamw_load_each_other) {
  const zero::AdamW adamw{.learning_rate = 0.01F};
  const zero::AdamW8bit coded{.learning_rate = 0.01F};
  MemoryFiles disk, other;
  const std::vector<float> exact = save_one_step(disk, adamw);
  const std::vector<float> rounded = load_one_step(disk, coded, false);
  BOOST_TEST(exact.size() == rounded.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const bool is_state = i + 290 >= exact.size();
    const float allowed = is_state ? std::abs(exact[i]) / 16 : 0;
    BOOST_TEST(std::abs(rounded[i] - exact[i]) <= allowed, i);
  }
  const std::vector<float> saved = save_one_step(other, coded);
  BOOST_TEST(harness::same_bits(load_one_step(other, adamw, false), saved));
}

BOOST_AUTO_TEST_CASE(weights_alone_go_from_one_optimizer_to_another) {
  const zero::Adafactor factored{};
  const zero::AdamW adamw{};
  MemoryFiles disk, other;
  std::vector<float> saved = save_one_step(disk, factored);
  std::vector<float> loaded = load_one_step(disk, adamw, true);
  saved.resize(saved.size() - 290);
  loaded.resize(saved.size());
  BOOST_TEST(harness::same_bits(loaded, saved));
  saved = save_one_step(other, adamw);
  loaded = load_one_step(other, factored, true);
  saved.resize(saved.size() - 290);
  loaded.resize(saved.size());
  BOOST_TEST(harness::same_bits(loaded, saved));
  const std::string error = harness::error_of([&] { load_one_step(disk, adamw, false); });
  BOOST_TEST(harness::says(error, {"block.0.a (state.0)", "block.0.a/state.0"}), error);
}

BOOST_AUTO_TEST_SUITE_END()
