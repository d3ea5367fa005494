// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Optimizers that update blocks or whole tensors: each stage and mesh gives the bits of one loop
// over whole tensors, and holds the bytes that are predicted.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>
#include <zero/schedule/hash.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(range_optimizers_test)

using namespace harness;

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
  bool keeps_state = false;
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

template <class O, class Module>
Trained train_sharded(Module& module, zero::UserCode where) {
  Trained made;
  train(module, where, make_plan());
  for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
    made.numbers.emplace_back(tensor.shape.elements());
    module.read_weights(tensor.name, made.numbers.back());
    if (tensor.frozen || tensor.shape.elements() == 0) continue;
    for (std::size_t k = 0; k < O::states; ++k) {
      made.numbers.emplace_back(module.parameters().state_numbers(tensor, k));
      module.read_state(tensor.name, k, made.numbers.back());
    }
  }
  made.held = module.bytes_held();
  made.predicted = module.predicted_bytes_held();
  return made;
}

/// Trains in each stage on 1, 2, 3 and 4 ranks, also in a hybrid mesh; returns how many ways.
template <class O>
std::size_t compare_everywhere(const zero::Groups<O>& optimizers) {
  const Model model = make_model();
  const Trained plain = train_plainly(optimizers, zero::ParameterTable(model, 1));
  std::size_t ways = 0;
  for (const std::size_t ranks : {1, 2, 3, 4}) {
    for (const NamedStage& stage : stages(ranks)) {
      const Mode& mode = modes()[ways++ % modes().size()];
      BOOST_TEST_CONTEXT(stage.name << " on " << ranks << " ranks, " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(ranks, stage.replicas);
        const auto all = on_ranks<float>(
            stage, setup, model, optimizers,
            [&](auto& module) { return train_sharded<O>(module, mode.user_code); },
            zero::Precision{});
        for (const Trained& rank : all) {
          BOOST_TEST(rank.numbers == plain.numbers);
          BOOST_TEST((rank.held == rank.predicted));
        }
      }
    }
  }
  return ways;
}

/// Weights that travel in bf16 have masters, which move with the same bits; freezing and thawing
/// one unit keeps the state of the others.
template <class O>
void check_masters_and_frozen_units(const zero::Groups<O>& optimizers) {
  const Model model = make_model();
  const zero::Precision types{.gather = zero::DataType::bf16};
  const Trained plain = train_plainly(optimizers, zero::ParameterTable(model, 1));
  const auto read = [](auto& module, std::size_t k) {
    const zero::TensorInfo& tensor = module.parameters().find("block.1.a");
    std::vector<float> numbers(module.parameters().state_numbers(tensor, k));
    module.read_state(tensor.name, k, numbers);
    return numbers;
  };
  const auto all = on_ranks<float>(
      stages(3)[3], Setup{}.on(3), model, optimizers,
      [&](auto& module) {
        Trained made = train_sharded<O>(module, zero::UserCode::on_caller);
        const std::vector<float> before[] = {read(module, 0), read(module, 1)};
        module.set_frozen("block.0.*", true);
        module.set_frozen("block.0.*", false);
        made.keeps_state = before[0] == read(module, 0) && before[1] == read(module, 1);
        return made;
      },
      types);
  for (const Trained& rank : all) {
    BOOST_TEST(rank.numbers == plain.numbers);
    BOOST_TEST((rank.held == rank.predicted));
    BOOST_TEST(rank.keeps_state);
  }
  const std::string error = error_of([&] {
    on_ranks<float>(stages(2)[3], Setup{}.on(2), model, optimizers,
                    [&](auto& module) { return train_sharded<O>(module, {}); },
                    {.moments = zero::DataType::bf16});
  });
  BOOST_TEST(says(error, {"Precision::moments is bf16", "leave it at fp32"}), error);
}

/// Optimizer bytes of a stage-3 module on each of so many ranks.
template <class O>
std::size_t optimizer_bytes(const zero::Groups<O>& optimizers, const Model& model,
                            std::size_t ranks) {
  const auto held = on_ranks<float>(
      stages(1)[3], Setup{}.on(ranks), model, optimizers,
      [&](auto& module) {
        const std::size_t needed = zero::bytes_needed<zero::Zero3>(
            model, ranks, optimizers, {.poison = true, .time_limit = std::chrono::seconds(10)});
        return std::pair(module.bytes_held(), needed);
      },
      zero::Precision{});
  for (const auto& [rank, needed] : held) {
    BOOST_TEST((rank == held[0].first));
    BOOST_TEST(rank.total() == needed);
  }
  return held[0].first.optimizer;
}

BOOST_AUTO_TEST_CASE(moments_of_8_bits_have_the_bits_of_one_rank_in_every_stage) {
  const zero::Groups<zero::AdamW8bit> optimizers(
      zero::AdamW8bit{.learning_rate = 0.01F, .weight_decay = 0.1F});
  BOOST_TEST(compare_everywhere(optimizers) == 20U);
  check_masters_and_frozen_units(optimizers);
  // A scale of 4 bytes for each 256: two groups of 5 and of 2 blocks, shared by two ranks.
  const Model model = model_of({"a", 1, sizes({1000, 10})}, {"b", 1, sizes({257})});
  BOOST_TEST(optimizer_bytes(optimizers, model, 1) == 2U * 1344 + 2U * 576);
  BOOST_TEST(optimizer_bytes(optimizers, model, 2) == 2U * 832 + 2U * 320);
}

BOOST_AUTO_TEST_CASE(muon_updates_whole_matrices_on_their_owners_in_every_stage) {
  const auto optimizers =
      zero::groups(zero::Muon{.weight_decay = 0.1F, .adamw = {.learning_rate = 0.01F}},
                   {{"embed.*", zero::Muon{.matrices = false}}});
  BOOST_TEST(compare_everywhere(optimizers) == 20U);
  check_masters_and_frozen_units(optimizers);
  // a: a matrix, with m alone, and a vector with m and v; b: a matrix.
  const Model model = model_of({"a", 1, shapes({{20, 16}, {64}})}, {"b", 1, shapes({{4, 8}})});
  const zero::Groups<zero::Muon> plain(zero::Muon{});
  BOOST_TEST(optimizer_bytes(plain, model, 1) == 4U * (320 + 64 + 64 + 32));
  // On two ranks the first holds the matrix of a, the second its vector; b lies on the first.
  BOOST_TEST(optimizer_bytes(plain, model, 2) == 4U * (320 + 64 + 32));
}

BOOST_AUTO_TEST_CASE(adafactor_keeps_rows_and_columns_on_their_owners_in_every_stage) {
  const zero::Groups<zero::Adafactor> optimizers(
      zero::Adafactor{.learning_rate = 0.1F, .weight_decay = 0.1F});
  BOOST_TEST(compare_everywhere(optimizers) == 20U);
  check_masters_and_frozen_units(optimizers);
  const Model model = model_of({"a", 1, shapes({{20, 16}, {64}})}, {"b", 1, shapes({{4, 8}})});
  // Rows and the vector, columns: each rounded up to 16 numbers.
  BOOST_TEST(optimizer_bytes(optimizers, model, 1) == 4U * (96 + 16 + 16 + 16));
  BOOST_TEST(optimizer_bytes(optimizers, model, 2) == 4U * (64 + 16 + 16 + 16));
}

BOOST_AUTO_TEST_SUITE_END()
