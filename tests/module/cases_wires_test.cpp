// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Types chosen one by one: what computes, travels, is summed and kept.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <set>

#include "../share.hpp"
#include "grid.hpp"
#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_wires_test)

using namespace harness;
using zero::bf16;
using zero::DataType;
using zero::fp16;
using zero::Precision;
using zero::Stage;
using zero::stage_value;

constexpr DataType fp = DataType::fp32, bf = DataType::bf16, half = DataType::fp16;
template <Precision types>
using With = zero::WithPrecision<types>;
using NarrowSums = With<Precision{.compute = bf, .accumulate = bf}>;

/// All that a module of T can have.
template <class T>
std::vector<Precision> precisions() {
  std::vector<Precision> all;
  for (const DataType gather : {fp, bf, half}) {
    for (const DataType reduce : {fp, bf, half}) {
      for (const DataType moments : {fp, bf}) {
        for (const bool master : {true, false}) {
          Precision types = zero::precision_of<T>;
          types.gather = gather;
          types.reduce = reduce;
          types.moments = moments;
          types.master = master;
          if (is_valid(types)) all.push_back(types);
        }
      }
    }
  }
  return all;
}
std::string text(const Precision& p) {
  return std::string("compute ") + name_of(p.compute) + ", gather " + name_of(p.gather) +
         ", reduce " + name_of(p.reduce) + ", accumulate " + name_of(p.accumulate) + ", moments " +
         name_of(p.moments) + (p.master ? "" : ", no master");
}
/// Calls f.operator()<T>(types) for the share that is tried; returns how many there are.
template <class F>
std::size_t for_each_precision(F f) {
  std::size_t count = 0;
  const auto all = [&]<class T>() {
    for (const Precision& types : precisions<T>()) {
      if (count++ % share != 0) continue;
      BOOST_TEST_CONTEXT(text(types)) { f.template operator()<T>(types); }
    }
  };
  all.template operator()<float>();
  all.template operator()<bf16>();
  all.template operator()<fp16>();
  all.template operator()<NarrowSums>();
  return count;
}

constexpr zero::GradsOptions late{.slots = 1, .every_micro_step = false};
/// With gradients that are reduced once a step.
const std::vector<NamedStage> late_stages{
    {"stage 2, late", stage_value<Stage<zero::ShardOptimizer<>, zero::ShardGrads<late>>>},
    {"stage 3, late", stage_value<Stage<zero::ShardOptimizer<>, zero::ShardGrads<late>,
                                        zero::ShardParams<zero::ParamsOptions{}>>>},
    {"hybrid, late",
     stage_value<Stage<zero::Replicate, zero::ShardOptimizer<>, zero::ShardGrads<late>,
                       zero::ShardParams<zero::ParamsOptions{}>>>,
     2}};
/// Four ranks as one, two and four replicas; each micro-step reduced, or all at once.
std::vector<NamedStage> meshes_of_four() {
  std::vector<NamedStage> all = stages(4);
  all.insert(all.end(), late_stages.begin(), late_stages.end());
  all.push_back({"hybrid of one replica", stage_value<zero::Hybrid>, 1});
  all.push_back({"hybrid of four replicas", stage_value<zero::Hybrid>, 4});
  all.push_back({"state over all ranks", stage_value<zero::Hpz>, 2});
  all.push_back({"state over all ranks, weights whole",
                 stage_value<Stage<zero::ReplicateParams, zero::ShardOptimizer<>>>, 2});
  all.push_back({"stage 0 in two replicas", stage_value<zero::HybridOf<zero::Ddp>>, 2});
  return all;
}

BOOST_AUTO_TEST_CASE(all_types_train_the_same_bits_in_all_stages_and_meshes_if_sums_are_exact) {
  std::size_t ran = 0;
  const std::size_t count = for_each_precision([&]<class T>(const Precision& types) {
    grid::Case c{.shapes = grid::models[4],
                 .world = 4,
                 .steps = 3,
                 .micro_steps = {3, 1},
                 .exact = true,
                 .max_norm = 50};
    c.options.poison = true;
    const grid::Outcome expected = grid::train<T>(stages(4)[0].value, c, types);
    BOOST_TEST(!expected.empty());
    for (const NamedStage& stage : meshes_of_four()) {
      c.replicas = stage.replicas;
      BOOST_TEST((grid::train<T>(stage.value, c, types) == expected), stage.name);
      ++ran;
    }
  });
  BOOST_TEST_MESSAGE(count << " choices of types, " << ran << " with their stages");
  BOOST_TEST(count == 48U);
  BOOST_TEST(ran == (48U + share - 1) / share * 14);
}

BOOST_AUTO_TEST_CASE(all_types_train_the_same_bits_in_stages_and_stream_modes_if_sums_are_not) {
  std::size_t ran = 0;
  for_each_precision([&]<class T>(const Precision& types) {
    grid::Case c{.shapes = grid::models[2], .world = 3, .steps = 3};
    c.options.poison = true;
    const grid::Outcome expected = grid::train<T>(stages(3)[0].value, c, types);
    BOOST_TEST(!expected.empty());
    for (const NamedStage& stage : stages(3)) {
      // The modes in turn: a stage has each with a third of the types.
      const Mode& mode = modes()[3 + ran++ % 3];
      c.options.streams = mode.streams;
      c.options.user_code = mode.user_code;
      BOOST_TEST((grid::train<T>(stage.value, c, types) == expected), stage.name);
    }
  });
}

const zero::Sgd sgd{.learning_rate = 1};

template <class T>
std::vector<Outcome> train(const Setup& setup, const NamedStage& stage, const Precision& types,
                           const Model& model, const zero::Sgd& optimizer, const Plan& plan) {
  return on_ranks<T>(
      stage, setup, model, optimizer,
      [&](auto& module) { return harness::train(module, setup.options.user_code, plan); }, types);
}

BOOST_AUTO_TEST_CASE(bytes_held_and_sent_are_as_predicted_for_all_types) {
  const Model model = model_of({"first", 1, sizes({5, 70}).frozen({0})},
                               {"unit", 3, sizes({9, 64})}, {"last", 1, sizes({3}), {"first"}});
  std::size_t staged = 0;
  for_each_precision([&]<class T>(const Precision& types) {
    for (const std::size_t ranks : {1, 3, 4}) {
      for (const NamedStage& stage : stages(ranks)) {
        const auto all = on_ranks<T>(
            stage, Setup{}.on(ranks), model, sgd,
            [&](auto& module) {
              const zero::BytesHeld held = module.bytes_held();
              bool fits = held == module.predicted_bytes_held();
              for (const std::size_t micro_steps : {1, 3}) {
                const zero::Traffic before = module.sent();
                (void)harness::train(module, zero::UserCode::on_caller,
                                     {.micro_steps = micro_steps}, false);
                module.mesh().world.barrier();  // who reads counts for its peer
                const zero::Traffic now = module.sent();
                module.mesh().world.barrier();  // reading the weights sends as well
                const zero::BytesSent sent = module.predicted_bytes_sent(micro_steps);
                fits = fits && now.all_gather - before.all_gather == sent.all_gather &&
                       now.reduce_scatter - before.reduce_scatter == sent.reduce_scatter &&
                       now.all_reduce - before.all_reduce == sent.all_reduce;
              }
              return std::pair(fits ? 1 : 0, held.staging);
            },
            types);
        for (const auto& [fits, bytes] : all) {
          BOOST_TEST(fits == 1, stage.name << " on " << ranks << " ranks");
          staged += bytes != 0;
        }
        // What travels as it is held needs no room of its own.
        if (types.gather == types.compute && types.reduce == types.accumulate) {
          BOOST_TEST(all[0].second == 0U);
        }
      }
    }
  });
  BOOST_TEST(staged > 0U);
}

// B15
BOOST_AUTO_TEST_CASE(averages_of_fp16_neither_overflow_nor_vanish_on_the_wire) {
  const Model model = model_of({"unit", 2, sizes({3, 20})});
  for (const float value : {16384.0F, 0x1p-24F}) {  // the sum of 8 is too large; an 8th too small
    for (const NamedStage& stage : stages(8)) {
      const Plan plan{.micro_steps = 2,
                      .gradient = [&](const Place& p) { return p.micro_step == 0 ? value : 0; }};
      for (const Outcome& rank :
           train<float>(Setup{}.on(8), stage, {.reduce = half}, model, sgd, plan)) {
        BOOST_TEST(rank.applied());
        BOOST_TEST(all_are(rank.weights, -value), stage.name);
      }
    }
  }
}

// B15
BOOST_AUTO_TEST_CASE(a_gradient_beyond_the_wire_is_a_skip_on_all_ranks) {
  const Model model = model_of({"unit", 2, sizes({3, 20})});
  const Plan plan{.steps = 2, .gradient = [](const Place& p) {
                    const bool beyond = p.step == 0 && p.rank == 2 && p.element == 1;
                    return beyond && p.unit == 1 ? 1e6F : 1.0F;
                  }};
  for (const NamedStage& stage : stages(4)) {
    for (const Outcome& rank :
         train<bf16>(Setup{}.on(4), stage, {.compute = bf, .reduce = half}, model, sgd, plan)) {
      BOOST_TEST((rank.steps[0].skipped() && rank.steps[1].applied), stage.name);
      BOOST_TEST(all_are(rank.weights, -1));
    }
  }
}

// B64
BOOST_AUTO_TEST_CASE(sums_are_fp32_unless_bf16_is_asked_for) {
  const Model model = model_of({"unit", 2, sizes({3, 2})});
  const Plan plan{.micro_steps = 3, .gradient = [](const Place& p) {
                    return p.micro_step == 0 ? 256.0F : p.micro_step == 1 ? 1.0F : -256.0F;
                  }};
  for (const NamedStage& stage : meshes_of_four()) {
    for (const DataType reduce : {fp, bf, half}) {
      BOOST_TEST_CONTEXT(stage.name << ", " << name_of(reduce)) {
        for (const Outcome& rank : train<bf16>(
                 Setup{}.on(4), stage, {.compute = bf, .reduce = reduce}, model, sgd, plan)) {
          BOOST_TEST(all_are(rank.weights, -1));
        }
        const Precision narrow{.compute = bf, .reduce = reduce, .accumulate = bf};
        for (const Outcome& rank :
             train<NarrowSums>(Setup{}.on(4), stage, narrow, model, sgd, plan)) {
          BOOST_TEST(all_are(rank.weights, 0));  // 256 + 1 is 256
        }
      }
    }
  }
}

// B64
BOOST_AUTO_TEST_CASE(a_thousand_ones_are_a_thousand_over_a_narrow_wire) {
  Setup setup;
  setup.options.max_micro_steps = 1000;
  const Model model = model_of({"unit", 1, sizes({3, 2})});
  const Plan plan{.micro_steps = 1000};
  for (const NamedStage& stage : {stages(2)[0], stages(2)[2], stages(2)[3], late_stages[1]}) {
    for (const Outcome& rank :
         train<bf16>(setup.on(2), stage, {.compute = bf, .reduce = bf}, model, sgd, plan)) {
      BOOST_TEST(all_are(rank.weights, -1000), stage.name);
    }
  }
}

// B62
BOOST_AUTO_TEST_CASE(every_element_of_every_shape_moves_whatever_the_types) {
  const Model model = model_of({"unit", 2, shapes({{2, 3}, {1, 9}, {9, 1}})});
  for_each_precision([&]<class T>(const Precision& types) {
    for (const NamedStage& stage : stages(2)) {
      for (const Outcome& rank : train<T>(Setup{}.on(2), stage, types, model, sgd, {.steps = 2})) {
        BOOST_TEST(rank.weights.size() == 48U);
        BOOST_TEST(all_are(rank.weights, -2), stage.name);
      }
    }
  });
}

// B26 (c)
BOOST_AUTO_TEST_CASE(squares_beyond_the_type_of_the_wire_make_no_infinite_norm) {
  const Model model = model_of({"unit", 1, sizes({65536})});
  const Plan plan{.gradient = [](const Place&) { return 16.0F; }};
  for (const NamedStage& stage : stages(2)) {
    for (const Outcome& rank :
         train<fp16>(Setup{}.on(2), stage, {.compute = half, .reduce = half}, model, sgd, plan)) {
      BOOST_TEST(rank.steps[0].norm == 4096.0);
      BOOST_TEST(all_are(rank.weights, -16));
    }
  }
}

BOOST_AUTO_TEST_CASE(
    weights_gathered_as_bf16_are_rounded_in_every_stage_and_their_masters_are_not) {
  const Model model = model_of({"unit", 3, sizes({5, 4})});
  const zero::Sgd small{.learning_rate = 0x1p-10F};
  const Plan plan{.steps = 8, .initial = [](const auto&, auto) { return 1.0F; }};
  for (const NamedStage& stage : stages(4)) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage.name << ", " << mode.name) {
        for (const Outcome& rank :
             train<float>(Setup{}.in(mode).on(4), stage, {.gather = bf}, model, small, plan)) {
          BOOST_TEST(all_are(rank.weights, 1 - 8 * 0x1p-10F));
          for (std::size_t k = 0; k < 8; ++k) {
            const bf16 rounded(1 - static_cast<float>(k) * 0x1p-10F);
            BOOST_TEST(all_are(rank.seen[k], static_cast<float>(rounded)));
            BOOST_TEST(all_are(rank.seen_backward[k], static_cast<float>(rounded)));
          }
        }
      }
    }
  }
}

constexpr Precision unmastered{.compute = bf, .moments = bf, .master = false};

// B41 (a), (c)
BOOST_AUTO_TEST_CASE(stochastic_rounding_gives_the_same_bits_on_all_replicas_and_numbers_of_ranks) {
  const Model model = model_of({"first", 1, sizes({300, 7})}, {"unit", 3, sizes({33, 64})},
                               {"last", 1, sizes({5})});
  const Plan plan{.steps = 20,
                  .gradient =
                      [](const Place& p) {  // the same on all ranks: sums over 1, 2 and 4 are exact
                        return std::sin(static_cast<float>(p.element * 7 + p.unit + p.step));
                      },
                  .initial = [](const auto&, std::size_t i) { return 1 + float(i % 5) * 0.25F; }};
  std::vector<std::uint32_t> expected;
  for (const std::size_t ranks : {1, 4}) {
    for (const NamedStage& stage : stages(ranks)) {
      for (const Mode& mode : {modes()[0], modes()[5]}) {
        const auto bits = on_ranks<bf16>(
            stage, Setup{}.in(mode).on(ranks), model, grid::adam,
            [&](auto& module) {
              const Outcome outcome = harness::train(module, mode.user_code, plan);
              std::vector<std::uint32_t> all;
              for (const auto& values :
                   {outcome.weights, state_of(module, 0), state_of(module, 1)}) {
                for (const float x : values) all.push_back(std::bit_cast<std::uint32_t>(x));
              }
              return all;
            },
            unmastered);
        for (const auto& rank : bits) {
          if (expected.empty()) expected = rank;
          BOOST_TEST((rank == expected), stage.name << " on " << ranks << ", " << mode.name);
        }
      }
    }
  }
  BOOST_TEST(expected.size() > 1000U);
}

/// Elements of two tensors after two steps to a point midway between two bf16.
std::vector<std::vector<bool>> ups(std::uint64_t seed) {
  const Model model = model_of({"unit", 1, sizes({4096, 4096})});
  Setup setup = Setup{}.on(4);
  setup.options.rounding_seed = seed;
  const auto ranks =
      on_ranks<bf16>(stages(4)[3], setup, model, sgd,
                     [&](auto& module) {
                       std::vector<std::vector<bool>> patterns;
                       for (std::size_t k = 0; k < 2; ++k) {
                         const std::vector<float> ones(4096, 1);
                         module.write_weights("unit.a", ones);
                         module.write_weights("unit.b", ones);
                         const Plan plan{.gradient = [](const Place&) { return -0x1p-8F; }};
                         const auto weights =
                             harness::train(module, zero::UserCode::on_caller, plan, false).weights;
                         for (std::size_t begin : {std::size_t{0}, std::size_t{4096}}) {
                           std::vector<bool>& pattern = patterns.emplace_back();
                           for (std::size_t i = 0; i < 4096; ++i)
                             pattern.push_back(weights[begin + i] != 1);
                         }
                       }
                       return patterns;
                     },
                     {.compute = bf, .master = false});
  for (const auto& rank : ranks) BOOST_TEST((rank == ranks[0]));
  return ranks[0];
}

// B41 (b)
BOOST_AUTO_TEST_CASE(half_of_what_lies_midway_is_rounded_up_differently_in_each_tensor_and_step) {
  std::set<std::vector<bool>> blocks;
  for (const std::uint64_t seed : {0, 1}) {
    for (const std::vector<bool>& pattern : ups(seed)) {
      const auto up = std::count(pattern.begin(), pattern.end(), true);
      BOOST_TEST(std::fabs(static_cast<double>(up) / 4096 - 0.5) < 0.04);
      for (std::ptrdiff_t b = 0; b < 16; ++b) {
        blocks.emplace(pattern.begin() + 256 * b, pattern.begin() + 256 * (b + 1));
      }
    }
  }
  BOOST_TEST(blocks.size() == 16U * 2 * 2 * 2);  // of each seed, step and tensor
  BOOST_TEST((ups(1) == ups(1)));
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_again_rounded_to_the_type_that_is_the_truth) {
  const Model model = model_of({"unit", 2, sizes({5, 3}).frozen({1})});
  for_each_precision([&]<class T>(const Precision& types) {
    for (const NamedStage& stage : stages(4)) {
      const auto ok = on_ranks<T>(
          stage, Setup{}.on(4), model, sgd,
          [&](auto& module) {
            const auto rounded = [](float x, DataType type) {
              return zero::with_type(
                  type, [x]<class Type>() { return zero::to_float(zero::from_float<Type>(x)); });
            };
            const float exact = 1 + 0x1p-7F + 0x1p-8F + 0x1p-20F;
            std::vector<float> five(5, exact), three(3, exact);
            module.write_weights("unit.1.a", five);
            module.write_weights("unit.1.b", three);
            module.write_state("unit.1.a", 0, five);
            module.read_weights("unit.1.a", five);
            module.read_weights("unit.1.b", three);
            const DataType kept = types.master ? fp : bf;
            bool same =
                all_are(five, rounded(exact, kept)) && all_are(three, rounded(exact, types.gather));
            module.read_state("unit.1.a", 0, five);
            same = same && all_are(five, rounded(exact, types.moments));
            const std::vector<float> seen = evaluate(module, zero::UserCode::on_caller);
            return same && seen[8] == rounded(exact, types.gather) ? 1 : 0;
          },
          types);
      for (const int rank : ok) BOOST_TEST(rank == 1, stage.name);
    }
  });
}

BOOST_AUTO_TEST_CASE(ranks_of_different_types_or_seeds_are_told_so) {
  const Model model = model_of({"unit", 1, sizes({5})});
  const auto error = [&](const Precision& here, const Precision& there, std::uint64_t seed) {
    return error_of([&] {
      on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
        zero::ModuleOptions options;
        options.rounding_seed = comm.rank() * seed;
        zero::Module<Model, zero::Sgd, zero::ThreadCommunicator, bf16> module(
            stages(2)[1].value, model, zero::mesh(comm), sgd, options,
            comm.rank() == 0 ? here : there);
      });
    });
  };
  const Precision usual{.compute = bf};
  BOOST_TEST(error(usual, usual, 0).empty());
  for (const Precision& other : precisions<bf16>()) {
    if (other == usual) continue;
    BOOST_TEST(says(error(usual, other, 0), {"ContractError", "rank 1 has another model"}));
  }
  BOOST_TEST(says(error(usual, usual, 1), {"rank 1 has another model"}));
}

BOOST_AUTO_TEST_CASE(a_module_refuses_types_that_are_not_those_of_its_views) {
  const Model model = model_of({"unit", 1, sizes({5})});
  for (const Precision& wrong : std::vector<Precision>{
           {.compute = fp}, {.compute = bf, .accumulate = bf}, {.compute = bf, .gather = half}}) {
    BOOST_TEST(says(error_of([&] {
                      (void)on_ranks<bf16>(
                          stages(1)[0], Setup{}, model, sgd, [](auto&) { return 0; }, wrong);
                    }),
                    {"ContractError: zero::Module: the given Precision"}));
  }
}

// As a user writes it.
BOOST_AUTO_TEST_CASE(a_precision_stands_where_the_type_of_weights_does) {
  on_threads(2, std::chrono::seconds(10), [](zero::ThreadCommunicator& comm) {
    constexpr Precision types{.compute = bf, .reduce = bf};
    const Model model = model_of({"unit", 1, sizes({64})});
    auto module = zero::shard<zero::Zero3, types>(model, comm, sgd);
    auto same = zero::shard<zero::Zero3, Precision{.compute = bf}>(model, zero::mesh(comm), sgd);
    const std::size_t bytes = zero::bytes_needed<zero::Zero3, types>(model, 2, sgd);
    if (bytes != module.bytes_held().total() || same.bytes_held().total() >= bytes) {
      throw zero::ContractError("other bytes");
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
