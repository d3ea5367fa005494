// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Optimizers that update blocks or whole tensors: each stage and mesh gives the bits of one loop
// over whole tensors, and holds the bytes that are predicted.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "ranges.hpp"

BOOST_AUTO_TEST_SUITE(range_optimizers_test)

using namespace harness;
using namespace ranges;

template <class O>
using ModuleOf = zero::Module<Model, O, zero::ThreadCommunicator, float>;
/// Runs body(module) on each rank; compiled once for each optimizer.
template <class O>
std::vector<Trained> run(const NamedStage& stage, const Setup& setup, const zero::Precision& types,
                         const Model& model, const zero::Groups<O>& optimizers,
                         const std::function<Trained(ModuleOf<O>&)>& body) {
  return on_ranks<float>(stage, setup, model, optimizers, body, types);
}

template <class O>
Trained train_sharded(ModuleOf<O>& module, zero::UserCode where, bool initialize = true) {
  Trained made;
  train(module, where, make_plan(), initialize);
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
        const auto all = run<O>(stage, setup, {}, model, optimizers, [&](ModuleOf<O>& module) {
          return train_sharded<O>(module, mode.user_code);
        });
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
  const Trained plain = train_plainly(optimizers, zero::ParameterTable(model, 1));
  const auto read = [](ModuleOf<O>& module, std::size_t k) {
    const zero::TensorInfo& tensor = module.parameters().find("block.1.a");
    std::vector<float> numbers(module.parameters().state_numbers(tensor, k));
    module.read_state(tensor.name, k, numbers);
    return numbers;
  };
  const auto all = run<O>(stages(3)[3], Setup{}.on(3), {.gather = zero::DataType::bf16}, model,
                          optimizers, [&](ModuleOf<O>& module) {
                            Trained made = train_sharded<O>(module, zero::UserCode::on_caller);
                            const std::vector<float> before[] = {read(module, 0), read(module, 1)};
                            module.set_frozen("block.0.*", true);
                            module.set_frozen("block.0.*", false);
                            made.keeps_state =
                                before[0] == read(module, 0) && before[1] == read(module, 1);
                            return made;
                          });
  for (const Trained& rank : all) {
    BOOST_TEST(rank.numbers == plain.numbers);
    BOOST_TEST((rank.held == rank.predicted));
    BOOST_TEST(rank.keeps_state);
  }
  const std::string error = error_of([&] {
    run<O>(stages(2)[3], Setup{}.on(2), {.moments = zero::DataType::bf16}, model, optimizers,
           [](ModuleOf<O>&) { return Trained(); });
  });
  BOOST_TEST(says(error, {"Precision::moments is bf16", "leave it at fp32"}), error);
}

/// What ranks hold by name and element, as a checkpoint sees it, moves to any other mesh; the run
/// goes on there with the same bits.
template <class O>
void check_resuming(const zero::Groups<O>& optimizers) {
  struct Meshes {
    std::size_t from_stage, from, to_stage, to;
  };
  const Model model = make_model();
  const auto key = [](const zero::HeldTensor& tensor, const zero::HeldPart& part) {
    return tensor.name + ':' + part.name;
  };
  for (const Meshes& m : {Meshes{3, 3, 3, 2}, {0, 2, 3, 3}, {5, 4, 1, 3}, {2, 1, 4, 2}}) {
    const NamedStage from = stages(m.from)[m.from_stage], to = stages(m.to)[m.to_stage];
    zero::HeldState counts;
    const auto gone_on = run<O>(
        from, Setup{}.on(m.from, from.replicas), {}, model, optimizers, [&](ModuleOf<O>& module) {
          train(module, zero::UserCode::on_caller, make_plan());
          const zero::HeldState state = module.held_state();
          decltype(Trained::elements) elements;
          for (const zero::HeldTensor& tensor : state.tensors) {
            for (const zero::HeldPart& part : tensor.parts) {
              for (const zero::HeldRange& range : part.ranges) {
                for (std::size_t i = 0; i < range.count; ++i) {
                  elements[key(tensor, part)][range.begin + i] =
                      static_cast<const float*>(range.data)[i];
                }
              }
            }
          }
          if (module.mesh().world.rank() == 0) counts = state;
          Trained made = train_sharded<O>(module, zero::UserCode::on_caller, false);
          made.elements = elements;
          return made;
        });
    decltype(Trained::elements) numbers;
    for (const Trained& rank : gone_on) {
      for (const auto& [name, elements] : rank.elements) {
        numbers[name].insert(elements.begin(), elements.end());
      }
    }
    const auto resumed =
        run<O>(to, Setup{}.on(m.to, to.replicas), {}, model, optimizers, [&](ModuleOf<O>& module) {
          zero::HeldState state = module.held_state();
          for (std::size_t t = 0; t < state.tensors.size(); ++t) {
            state.tensors[t].counter = counts.tensors[t].counter;
            for (zero::HeldPart& part : state.tensors[t].parts) {
              for (const zero::HeldRange& range : part.ranges) {
                for (std::size_t i = 0; i < range.count; ++i) {
                  static_cast<float*>(range.data)[i] =
                      numbers.at(key(state.tensors[t], part)).at(range.begin + i);
                }
              }
            }
          }
          state.step = counts.step;
          module.restore(state);
          return train_sharded<O>(module, zero::UserCode::on_caller, false);
        });
    for (const Trained& rank : resumed) {
      BOOST_TEST(rank.numbers == gone_on[0].numbers, from.name << " to " << to.name);
    }
  }
}

/// Optimizer bytes of a stage-3 module on each of so many ranks.
template <class O>
std::size_t optimizer_bytes(const zero::Groups<O>& optimizers, const Model& model,
                            std::size_t ranks) {
  const Setup setup = Setup{}.on(ranks);
  const auto all = run<O>(stages(1)[3], setup, {}, model, optimizers, [&](ModuleOf<O>& module) {
    Trained made;
    made.held = module.bytes_held();
    made.needed = zero::bytes_needed<zero::Zero3>(model, ranks, optimizers, setup.options);
    return made;
  });
  for (const Trained& rank : all) {
    BOOST_TEST((rank.held == all[0].held));
    BOOST_TEST(rank.held.total() == rank.needed);
  }
  return all[0].held.optimizer;
}

BOOST_AUTO_TEST_CASE(moments_of_8_bits_have_the_bits_of_one_rank_in_every_stage) {
  const zero::Groups<zero::AdamW8bit> optimizers(
      zero::AdamW8bit{.learning_rate = 0.01F, .weight_decay = 0.1F});
  BOOST_TEST(compare_everywhere(optimizers) == 20U);
  check_masters_and_frozen_units(optimizers);
  check_resuming(optimizers);
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
  check_resuming(optimizers);
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
  check_resuming(optimizers);
  const Model model = model_of({"a", 1, shapes({{20, 16}, {64}})}, {"b", 1, shapes({{4, 8}})});
  // Rows and the vector, columns: each rounded up to 16 numbers.
  BOOST_TEST(optimizer_bytes(optimizers, model, 1) == 4U * (96 + 16 + 16 + 16));
  BOOST_TEST(optimizer_bytes(optimizers, model, 2) == 4U * (64 + 16 + 16 + 16));
}

BOOST_AUTO_TEST_SUITE_END()
