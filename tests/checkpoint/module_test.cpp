// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/checkpoint.hpp>

#include "../module/harness.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(module_test)

using files::MemoryFiles;
using harness::Outcome;
using harness::Plan;
using harness::Setup;

/// Odd sizes, an empty tensor, frozen ones, a tied one.
inline harness::Model odd_model() {
  return harness::model_of({"embed", 1, harness::sizes({6, 1, 3}).no_decay({1})},
                           {"block", 2, harness::sizes({1, 7, 5, 44}).frozen({1})},
                           {"head", 1, harness::sizes({57, 0}), {"embed"}});
}
inline Plan plan_of(std::size_t steps) {
  Plan plan;
  plan.steps = steps;
  plan.micro_steps = 2;
  plan.finish.max_norm = 20;
  plan.initial = [](const zero::TensorInfo& tensor, std::size_t i) {
    return static_cast<float>(tensor.unit * 16 + tensor.place * 4 + i % 4) / 8;
  };
  // Whole numbers, so that sums do not depend on their order; the blocks rest in some steps.
  plan.gradient = [](const harness::Place& at) {
    return static_cast<float>((at.step * 5 + at.micro_step * 3 + at.unit + at.tensor + at.element) %
                              7) -
           3;
  };
  plan.runs = [](const harness::Place& at) { return at.unit != 1 || at.step % 3 != 1; };
  return plan;
}

/// All that a checkpoint must bring back, on every rank: weights, both states, counters,
/// step, loss scale.
struct Kept {
  std::vector<float> weights, first, second;
  std::vector<std::int64_t> counts{};
  zero::LossScaleState scale{};
};
template <class Module>
Kept kept_of(Module& module) {
  Kept kept{harness::weights_of(module), harness::state_of(module, 0),
            harness::state_of(module, 1)};
  for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
    kept.counts.push_back(module.counter(tensor.name));
  }
  kept.counts.push_back(module.step());
  kept.scale = module.loss_scale();
  return kept;
}
inline bool same_bits(const Kept& a, const Kept& b) {
  return harness::same_bits(a.weights, b.weights) && harness::same_bits(a.first, b.first) &&
         harness::same_bits(a.second, b.second) && a.counts == b.counts && a.scale == b.scale;
}
inline constexpr zero::LossScale loss_scale{.initial = 8, .growth_interval = 4};
inline zero::AdamW adam() {
  return {.learning_rate = [](std::int64_t step) { return 0.125F / static_cast<float>(1 + step); }};
}
/// Runs f(module) on each rank in a stage that is named by its number; 4 is hybrid, 5 is hpZ.
template <class T = float, class F>
auto in_stage(std::size_t stage, std::size_t ranks, F f) {
  Setup setup = Setup{}.on(ranks, stage >= 4 ? 2 : 1);
  setup.options.loss_scale = loss_scale;
  const harness::NamedStage named[] = {
      harness::named<zero::Ddp>("0"),       harness::named<zero::Zero1>("1"),
      harness::named<zero::Zero2>("2"),     harness::named<zero::Zero3>("3"),
      harness::named<zero::Hybrid>("4", 2), harness::named<zero::Hpz>("5", 2)};
  return harness::on_ranks<T>(named[stage], setup, odd_model(), adam(), f);
}
template <class T>
using Trained = zero::Module<harness::Model, zero::AdamW, zero::ThreadCommunicator, T>;
template <class T>
using Body = std::function<Kept(Trained<T>&)>;

/// Trains 3 steps and saves; returns what was saved.
template <class T>
Kept train_and_save(MemoryFiles& disk, std::size_t stage, std::size_t ranks) {
  return in_stage<T>(stage, ranks, Body<T>([&](Trained<T>& module) {
                       harness::train(module, zero::UserCode::on_caller, plan_of(3));
                       zero::save(module, "runs", {.chunk_bytes = 64, .files = &disk});
                       return kept_of(module);
                     }))[0];
}
template <class T>
std::vector<Kept> load_on(MemoryFiles& disk, std::size_t stage, std::size_t ranks,
                          zero::LoadOptions options = {}) {
  options.files = &disk;
  return in_stage<T>(stage, ranks, Body<T>([&](Trained<T>& module) {
                       zero::load(module, "runs", options);
                       return kept_of(module);
                     }));
}

// B43, B48, B91
BOOST_AUTO_TEST_CASE(any_mesh_loads_what_any_other_saved) {
  for (const std::size_t n : {1, 2, 3, 4, 5, 6, 7, 8}) {
    MemoryFiles disk;
    const Kept saved = train_and_save<float>(disk, 3, n);
    for (const std::size_t m : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const Kept& kept : load_on<float>(disk, 3, m)) {
        BOOST_TEST(same_bits(kept, saved), n << " to " << m);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(any_stage_loads_what_any_other_saved) {
  for (const std::size_t from : {0, 1, 2, 3, 4, 5}) {
    MemoryFiles disk;
    const Kept saved = train_and_save<float>(disk, from, 4);
    for (const std::size_t to : {0, 1, 2, 3, 4, 5}) {
      for (const std::size_t ranks : {2, 6}) {
        for (const Kept& kept : load_on<float>(disk, to, ranks)) {
          BOOST_TEST(same_bits(kept, saved), "stage " << from << " to " << to);
        }
      }
    }
  }
}

// B111
BOOST_AUTO_TEST_CASE(a_resumed_run_is_the_same_run) {
  for (const std::size_t stage : {0, 1, 2, 3, 4, 5}) {
    const auto run = [&](std::size_t ranks, auto before) {
      return in_stage<float>(stage, ranks, Body<float>([&](Trained<float>& module) {
                               before(module);
                               return kept_of(module);
                             }));
    };
    const auto train = [](Trained<float>& module, std::size_t begin, std::size_t end) {
      Plan plan = plan_of(end - begin);
      const auto gradient = plan.gradient;
      const auto runs = plan.runs;
      const auto later = [begin](harness::Place at) {
        at.step += begin;
        return at;
      };
      plan.gradient = [=](const harness::Place& at) { return gradient(later(at)); };
      plan.runs = [=](const harness::Place& at) { return runs(later(at)); };
      harness::train(module, zero::UserCode::on_caller, plan, begin == 0);
    };
    const std::vector<Kept> one_go = run(4, [&](auto& module) { train(module, 0, 10); });
    MemoryFiles disk;
    run(4, [&](auto& module) {
      train(module, 0, 5);
      zero::save(module, "runs", {.files = &disk});
    });
    for (const std::size_t ranks : {4, 2}) {
      const std::vector<Kept> resumed = run(ranks, [&](auto& module) {
        const zero::LoadReport report = zero::load(module, "runs", {.files = &disk});
        train(module, static_cast<std::size_t>(report.step), 10);
      });
      // The average over other numbers of ranks is the same, as all ranks have the same gradients.
      for (const Kept& kept : resumed) {
        BOOST_TEST(same_bits(kept, one_go[0]), "stage " << stage << " on " << ranks);
      }
    }
  }
}

template <class T>
std::vector<std::vector<float>> seen_after_load(std::size_t stage,
                                                const zero::LoadOptions& options) {
  return in_stage<T>(stage, 2, std::function<std::vector<float>(Trained<T>&)>([&](auto& module) {
                       zero::load(module, "runs", options);
                       return harness::evaluate(module, zero::UserCode::on_caller);
                     }));
}

BOOST_AUTO_TEST_CASE(masters_and_what_computes_are_loaded_together) {
  for (const std::size_t from : {1, 5}) {
    MemoryFiles disk;
    const Kept saved = train_and_save<zero::bf16>(disk, from, 2);
    for (const std::size_t to : {0, 1, 3, 5}) {
      for (const Kept& kept : load_on<zero::bf16>(disk, to, 4)) BOOST_TEST(same_bits(kept, saved));
      // Masters load into a module without; frozen weights are narrow in the file and widen.
      for (const Kept& kept : load_on<float>(disk, to, 2)) BOOST_TEST(same_bits(kept, saved));
      // What forward sees is rounded from the masters that were loaded, also without the rest.
      const auto wide = seen_after_load<float>(to, {.files = &disk});
      for (const bool weights_only : {false, true}) {
        const auto narrow =
            seen_after_load<zero::bf16>(to, {.weights_only = weights_only, .files = &disk});
        BOOST_REQUIRE(narrow[1].size() == wide[0].size());
        BOOST_TEST(wide[0].size() > 100);
        for (std::size_t i = 0; i < narrow[1].size(); ++i) {
          BOOST_TEST(narrow[1][i] == static_cast<float>(zero::bf16(wide[0][i])));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_alone_leave_state_and_counts) {
  MemoryFiles disk;
  const Kept saved = train_and_save<float>(disk, 3, 2);
  for (const Kept& kept : load_on<float>(disk, 3, 3, {.weights_only = true})) {
    BOOST_TEST(harness::same_bits(kept.weights, saved.weights));
    BOOST_TEST(harness::all_are(kept.first, 0));
    BOOST_TEST(harness::all_are(kept.second, 0));
    BOOST_TEST(kept.counts == std::vector<std::int64_t>(kept.counts.size(), 0));
    BOOST_TEST((kept.scale == loss_scale.begin() && kept.scale != saved.scale));
  }
}

// What was frozen when it was saved brings no state: the updates of that which is here still count.
BOOST_AUTO_TEST_CASE(a_counter_goes_with_the_state_that_it_counts) {
  MemoryFiles disk;
  using Counts = std::array<std::int64_t, 3>;
  const auto counts = [](auto& module) {
    return Counts{module.counter("embed.a"), module.counter("head.a"), module.counter("block.0.b")};
  };
  const auto saved = in_stage(3, 2, [&](Trained<float>& module) {
    module.set_frozen("embed.a", true);
    harness::train(module, zero::UserCode::on_caller, plan_of(5));
    zero::save(module, "runs", {.files = &disk});
    return counts(module);
  });
  BOOST_TEST((saved[0] == Counts{0, 5, 0}));
  const auto loaded = in_stage(1, 3, [&](Trained<float>& module) {
    harness::train(module, zero::UserCode::on_caller, plan_of(2));
    (void)zero::load(module, "runs", {.relaxed = true, .files = &disk});
    return counts(module);
  });
  for (const Counts& rank : loaded) BOOST_TEST((rank == Counts{2, 5, 0}));
}

BOOST_AUTO_TEST_CASE(a_loss_scale_below_the_floor_is_refused_before_anything_changes) {
  MemoryFiles disk;
  train_and_save<float>(disk, 3, 2);
  Setup setup = Setup{}.on(2);
  setup.options.loss_scale = {.initial = 64, .floor = 32};
  using Seen = std::pair<std::string, std::array<Kept, 2>>;
  for (const auto& [error, kept] : harness::on_ranks(
           harness::named<zero::Zero3>("3"), setup, odd_model(), adam(),
           [&](Trained<float>& module) {
             harness::train(module, zero::UserCode::on_caller, plan_of(1));
             Seen seen{{}, {kept_of(module)}};
             seen.first =
                 harness::error_of([&] { (void)zero::load(module, "runs", {.files = &disk}); });
             seen.second[1] = kept_of(module);
             return seen;
           })) {
    BOOST_TEST(
        harness::says(error, {"zero::load", "'loss_scale' is 8", "but here it is at least 32"}),
        error);
    BOOST_TEST(same_bits(kept[0], kept[1]));
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_load_in_different_ways_get_an_error_and_nothing_changes) {
  MemoryFiles disk;
  train_and_save<float>(disk, 3, 2);
  using Seen = std::pair<std::string, std::vector<float>>;
  for (const auto& [error, weights] : in_stage(3, 2, [&](Trained<float>& module) {
         const bool first = module.mesh().world.rank() == 0;
         Seen seen;
         seen.first = harness::error_of(
             [&] { (void)zero::load(module, "runs", {.weights_only = first, .files = &disk}); });
         seen.second = harness::weights_of(module);
         return seen;
       })) {
    BOOST_TEST(harness::says(error, {"zero::load", "different options"}), error);
    BOOST_TEST(harness::all_are(weights, 0));
  }
}

// Whole weights compute in fp32, shards are of the type that is gathered: the file says which bits
// count, so that each loads the other, and wider ones are refused by both.
BOOST_AUTO_TEST_CASE(frozen_weights_that_are_gathered_narrower_go_from_stage_to_stage) {
  const auto in_type = [](zero::DataType gather, const harness::NamedStage& stage, auto f) {
    return harness::on_ranks(stage, Setup{}.on(2), odd_model(), adam(), f,
                             zero::Precision{.gather = gather});
  };
  const harness::NamedStage whole = harness::named<zero::Zero1>("1"),
                            shards = harness::named<zero::Zero3>("3");
  using zero::DataType;
  for (const auto& [from, to] : {std::pair{whole, shards}, std::pair{shards, whole}}) {
    for (const DataType type : {DataType::bf16, DataType::fp32}) {
      MemoryFiles disk;
      const auto saved = in_type(type, from, [&](auto& module) {
        harness::train(module, zero::UserCode::on_caller, plan_of(2));
        zero::save(module, "runs", {.files = &disk});
        return harness::weights_of(module);
      });
      using Seen = std::pair<std::string, std::vector<float>>;
      for (const auto& [error, weights] : in_type(DataType::bf16, to, [&](auto& module) {
             Seen seen;
             seen.first =
                 harness::error_of([&] { (void)zero::load(module, "runs", {.files = &disk}); });
             seen.second = harness::weights_of(module);
             return seen;
           })) {
        if (type == DataType::bf16) {
          BOOST_TEST(error.empty(), error);
          BOOST_TEST(harness::same_bits(weights, saved[0]));
        } else {
          BOOST_TEST(harness::says(error, {"is fp32 in the checkpoint and bf16 here"}), error);
          BOOST_TEST(harness::all_are(weights, 0));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_narrower_type_is_refused_unless_asked_for) {
  MemoryFiles disk;
  const Kept saved = train_and_save<float>(disk, 1, 2);  // frozen weights are wide in the file
  std::vector<float> rounded = saved.weights;
  const std::string error = harness::error_of([&] { load_on<zero::bf16>(disk, 3, 2); });
  BOOST_TEST(harness::says(error, {"'block.0.b'", "fp32", "bf16", ".narrowing"}), error);
  const std::vector<Kept> kept = load_on<zero::bf16>(disk, 3, 2, {.narrowing = true});
  BOOST_TEST(harness::same_bits(kept[0].first, saved.first));
  std::size_t at = 0;
  const zero::ParameterTable table(odd_model(), 1);
  for (const zero::TensorInfo& tensor : table.tensors()) {
    for (std::size_t i = 0; i < tensor.shape.elements(); ++i, ++at) {
      if (tensor.frozen) rounded[at] = static_cast<float>(zero::bf16(rounded[at]));
    }
  }
  BOOST_TEST(harness::same_bits(kept[0].weights, rounded));
}

// B106
BOOST_AUTO_TEST_CASE(state_is_matched_by_name) {
  MemoryFiles disk;
  const auto load_in_order = [&](const char* first, const char* second, bool save) {
    const auto model =
        harness::model_of({first, 1, harness::sizes({9})}, {second, 1, harness::sizes({9})});
    return harness::on_ranks<zero::Zero3>(
        Setup{}.on(2), model, adam(), std::function<bool(Trained<float>&)>([&](auto& module) {
          const std::vector<float> ones(9, 1), twos(9, 2);
          if (save) {
            for (const char* name : {"p", "q"}) {
              const std::string tensor = std::string(name) + ".a";
              const auto& value = *name == 'p' ? ones : twos;
              module.write_weights(tensor, value);
              for (const std::size_t k : {0, 1}) module.write_state(tensor, k, value);
              module.set_counter(tensor, *name == 'p' ? 1 : 2);
            }
            zero::save(module, "runs", {.files = &disk});
          } else {
            zero::load(module, "runs", {.files = &disk});
          }
          std::vector<float> p(9), q(9), v(9);
          module.read_weights("p.a", p);
          module.read_state("q.a", 0, q);
          module.read_state("p.a", 1, v);
          return p == ones && q == twos && v == ones && module.counter("p.a") == 1 &&
                 module.counter("q.a") == 2;
        }));
  };
  for (const bool good : load_in_order("p", "q", true)) BOOST_TEST(good);
  for (const bool good : load_in_order("q", "p", false)) BOOST_TEST(good);
}

// B107
BOOST_AUTO_TEST_CASE(names_that_differ_are_listed_before_anything_changes) {
  MemoryFiles disk;
  const auto with = [&](const char* second, auto body) {
    const auto model =
        harness::model_of({"same", 1, harness::sizes({9})}, {second, 1, harness::sizes({4})});
    return harness::on_ranks<zero::Zero2>(Setup{}.on(2), model, adam(),
                                          std::function<std::string(Trained<float>&)>(body));
  };
  with("old", [&](auto& module) {
    module.initialize([](const zero::TensorInfo&, std::size_t i) { return static_cast<float>(i); });
    return zero::save(module, "runs", {.files = &disk});
  });
  const auto errors = with("new", [&](auto& module) {
    std::string error = harness::error_of([&] { zero::load(module, "runs", {.files = &disk}); });
    return harness::all_are(harness::weights_of(module), 0) ? error : "weights changed";
  });
  for (const std::string& error : errors) {
    BOOST_TEST(harness::says(error, {"missing in the checkpoint: 'new.a'",
                                     "only in the checkpoint: 'old.a'"}),
               error);
  }
  const auto all_of = [](const std::string& unit) {
    return std::vector<std::string>{unit + ".a", unit + ".b", unit + ".c", unit + ".d"};
  };
  const auto relaxed = with("new", [&](auto& module) {
    const zero::LoadReport report = zero::load(module, "runs", {.relaxed = true, .files = &disk});
    std::vector<float> same(9), other(4);
    module.read_weights("same.a", same);
    module.read_weights("new.a", other);
    const bool good = same[8] == 8 && harness::all_are(other, 0) &&
                      report.missing == all_of("new") && report.unexpected == all_of("old");
    return std::string(good ? "good" : "bad");
  });
  for (const std::string& text : relaxed) BOOST_TEST(text == "good");
}

// B112
BOOST_AUTO_TEST_CASE(reading_whole_weights_and_saving_change_nothing) {
  MemoryFiles disk;
  const auto run = [&](bool look) {
    return in_stage<float>(3, 3, Body<float>([&](Trained<float>& module) {
                             Plan plan = plan_of(4);
                             plan.before = [&](std::size_t) {
                               if (!look) return;
                               const Kept first = kept_of(module);
                               zero::save(module, "runs", {.keep = 1, .files = &disk});
                               if (!same_bits(first, kept_of(module))) throw zero::Error("differs");
                             };
                             harness::train(module, zero::UserCode::on_caller, plan);
                             return kept_of(module);
                           }));
  };
  const std::vector<Kept> plain = run(false), looked = run(true);
  for (std::size_t rank = 0; rank < 3; ++rank) BOOST_TEST(same_bits(plain[rank], looked[rank]));
}

BOOST_AUTO_TEST_CASE(training_goes_on_while_a_save_is_written) {
  MemoryFiles disk;
  files::FaultyFiles slow(disk, [](std::size_t, const std::string&, std::int64_t&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  });
  const auto run = [&](std::size_t steps, bool save) {
    return in_stage<float>(4, 4, Body<float>([&](Trained<float>& module) {
                             zero::AsyncSaver saver(module.mesh().world);
                             Plan plan = plan_of(steps);
                             plan.before = [&](std::size_t step) {
                               if (save && step % 2 == 1)
                                 saver.save(module, "runs", {.files = &slow});
                             };
                             harness::train(module, zero::UserCode::on_caller, plan);
                             saver.wait();
                             return kept_of(module);
                           }));
  };
  const std::vector<Kept> plain = run(6, false), saved = run(6, true);
  for (std::size_t rank = 0; rank < 4; ++rank) BOOST_TEST(same_bits(plain[rank], saved[rank]));
  const std::vector<Kept> at_five = run(5, false), loaded = load_on<float>(disk, 1, 3);
  for (const Kept& kept : loaded) BOOST_TEST(same_bits(kept, at_five[0]));
}

BOOST_AUTO_TEST_CASE(a_module_within_a_step_is_not_saved) {
  const auto errors = in_stage<float>(
      3, 2, std::function<std::string(Trained<float>&)>([&](Trained<float>& module) {
        auto step = module.begin_step();
        return harness::error_of([&] { zero::save(module, "runs"); });
      }));
  for (const std::string& error : errors) {
    BOOST_TEST(harness::says(error, {"ContractError", "held_state", "within a step"}), error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
