// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Optimizer state that is kept in a file or in memory of the host: the same bits as without, the
// bytes that are held and moved, checkpoints of both kinds, and a file system that fails.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <zero/checkpoint.hpp>

#include "../module/harness.hpp"

BOOST_AUTO_TEST_SUITE(offload_test)

namespace fs = std::filesystem;
using harness::NamedStage;
using harness::Plan;
using harness::Setup;
using zero::InFile;
using zero::InHostMemory;
using zero::OffloadOf;

/// A directory that is there while the object is.
struct Folder {
  Folder() {
    path = (fs::temp_directory_path() / "zero-offload-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no directory: " + path);
  }
  ~Folder() { fs::remove_all(path); }
  bool empty() const { return fs::is_empty(path); }
  std::string path;
};

/// Odd sizes, an empty tensor, frozen ones, a tied one.
harness::Model model() {
  return harness::model_of({"embed", 1, harness::sizes({6, 1, 3}).no_decay({1})},
                           {"block", 3, harness::sizes({1, 7, 5, 44}).frozen({1})},
                           {"head", 1, harness::sizes({57, 0}), {"embed"}});
}
/// Clips; the second step is skipped, and blocks rest in some steps.
Plan plan() {
  Plan plan;
  plan.steps = 4;
  plan.micro_steps = 2;
  plan.finish.max_norm = 20;
  plan.initial = [](const zero::TensorInfo& tensor, std::size_t i) {
    return static_cast<float>(tensor.unit * 16 + tensor.place * 4 + i % 4) / 8;
  };
  plan.gradient = [](const harness::Place& at) {
    if (at.step == 1 && at.rank == 0) return std::numeric_limits<float>::infinity();
    return static_cast<float>((at.step * 5 + at.micro_step * 3 + at.unit + at.tensor + at.element) %
                              7) -
           3;
  };
  plan.runs = [](const harness::Place& at) { return at.unit != 1 || at.step != 2; };
  return plan;
}
template <class Stage, class Where>
NamedStage offloading(std::size_t replicas = 1) {
  return harness::named<OffloadOf<Stage, Where>>("offloading", replicas);
}
/// Each stage, resident, in a file and in memory.
struct Trio {
  NamedStage resident, in_file, in_memory;
};
template <class Stage>
Trio trio(const char* name, std::size_t replicas = 1) {
  return {harness::named<Stage>(name, replicas), offloading<Stage, InFile>(replicas),
          offloading<Stage, InHostMemory>(replicas)};
}
std::vector<Trio> trios(std::size_t ranks) {
  std::vector<Trio> all{trio<zero::Ddp>("stage 0"), trio<zero::Zero1>("stage 1"),
                        trio<zero::Zero2>("stage 2"), trio<zero::Zero3>("stage 3")};
  if (ranks % 2 == 0) {
    all.push_back(trio<zero::Hybrid>("hybrid", 2));
    all.push_back(trio<zero::Hpz>("hpz", 2));
  }
  return all;
}

/// Weights, all states and counters, as every rank sees them.
struct Kept {
  harness::Outcome outcome{};
  std::vector<float> states{};
  std::vector<std::int64_t> counts{};
  zero::BytesHeld held{}, predicted{};
  zero::BytesOffloaded before{}, after{}, each{};
};
bool same_bits(const Kept& a, const Kept& b) {
  return harness::same_bits(a.outcome, b.outcome) && harness::same_bits(a.states, b.states) &&
         a.counts == b.counts;
}
template <class Module>
void look(Module& module, Kept& kept) {
  kept.outcome.weights = harness::weights_of(module);
  for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
    kept.counts.push_back(module.counter(tensor.name));
  }
  for (std::size_t k = 0; k < 2; ++k) {
    for (const float x : harness::state_of(module, k)) kept.states.push_back(x);
  }
}
template <class T>
using Trained = zero::Module<harness::Model, zero::AdamW, zero::ThreadCommunicator, T>;
template <class T>
using Body = std::function<Kept(Trained<T>&)>;
const zero::AdamW adam{.learning_rate = 0.125F, .weight_decay = 0.25F};

template <class T>
std::vector<Kept> train(const NamedStage& stage, const Setup& setup, const Plan& plan) {
  return harness::on_ranks<T>(stage, setup, model(), adam, Body<T>([&](Trained<T>& module) {
                                Kept kept;
                                module.initialize(plan.initial);
                                kept.before = module.offloaded();
                                kept.outcome =
                                    harness::train(module, setup.options.user_code, plan, false);
                                kept.after = module.offloaded();
                                look(module, kept);
                                kept.held = module.bytes_held();
                                kept.predicted = module.predicted_bytes_held();
                                kept.each = module.predicted_offloaded();
                                return kept;
                              }));
}
Setup setup_in(const Folder& folder, std::size_t ranks, std::size_t replicas = 1) {
  Setup setup = Setup{}.on(ranks, replicas);
  setup.options.offload.directory = folder.path;
  return setup;
}

template <class T>
void compare_all() {
  const Folder folder;
  for (const std::size_t ranks : {1, 3, 4}) {
    for (const Trio& stage : trios(ranks)) {
      Setup setup = setup_in(folder, ranks, stage.resident.replicas);
      const std::vector<Kept> expected = train<T>(stage.resident, setup, plan());
      BOOST_TEST(!expected[0].outcome.steps[1].applied);
      for (const harness::Mode& mode :
           {harness::modes()[0], harness::modes()[1], harness::modes()[5]}) {
        for (const NamedStage* other : {&stage.in_file, &stage.in_memory}) {
          const std::vector<Kept> got = train<T>(*other, setup.in(mode, ranks), plan());
          for (std::size_t r = 0; r < ranks; ++r) {
            BOOST_TEST(same_bits(got[r], expected[r]),
                       stage.resident.name << ", " << ranks << " ranks, " << mode.name);
            BOOST_TEST((got[r].held == got[r].predicted));
          }
        }
      }
    }
  }
  BOOST_TEST(folder.empty());
}
BOOST_AUTO_TEST_CASE(offloaded_training_gives_the_bits_of_resident_training) {
  compare_all<float>();
}
BOOST_AUTO_TEST_CASE(so_it_is_with_masters_of_bf16_weights) { compare_all<zero::bf16>(); }

BOOST_AUTO_TEST_CASE(bytes_held_kept_and_moved_are_those_that_were_predicted) {
  const Folder folder;
  Setup setup = setup_in(folder, 2);
  setup.options.poison = false;
  const Kept resident = train<zero::bf16>(harness::named<zero::Zero2>(""), setup, plan())[0];
  const Kept offloaded = train<zero::bf16>(offloading<zero::Zero2, InFile>(), setup, plan())[0];
  // Each of the five trained groups takes less than a page.
  const zero::BytesHeld a = resident.held, b = offloaded.held;
  BOOST_TEST(b.optimizer == 2U * 4096 + 4096 - 64);
  BOOST_TEST((b.weights == a.weights && b.gradients == a.gradients && b.slots == a.slots &&
              b.staging == a.staging && b.control == a.control));
  BOOST_TEST((resident.each == zero::BytesOffloaded{}));
  BOOST_TEST(offloaded.each.kept == 5U * 4096);
  BOOST_TEST(offloaded.each.fetched == 5U * 4096);
  BOOST_TEST(offloaded.each.stored == 5U * 4096);
  // To initialize masters takes each group to memory once, and all but the last are back by then.
  // Beside the four steps, replicas are compared before the first, and weights read at the end.
  BOOST_TEST(offloaded.before.fetched == 5U * 4096);
  BOOST_TEST(offloaded.before.stored == 4U * 4096);
  BOOST_TEST(offloaded.after.fetched - offloaded.before.fetched == 6U * 5 * 4096);
  BOOST_TEST(offloaded.after.stored - offloaded.before.stored == 4096U + 4U * 5 * 4096);
}

// Other rules of update than AdamW: an average of the weights, which is exchanged with them; and
// states in blocks.
template <class Optimizer>
std::vector<float> end_of(const NamedStage& stage, const Setup& setup, const Optimizer& optimizer) {
  return harness::on_ranks<zero::bf16>(stage, setup, model(), optimizer, [&](auto& module) {
    std::vector<float> end = harness::train(module, setup.options.user_code, plan()).weights;
    if constexpr (requires { Optimizer::average; }) {
      module.exchange_average();
      for (const float x : harness::weights_of(module)) end.push_back(x);
      module.exchange_average();
      for (const float x : harness::weights_of(module)) end.push_back(x);
    }
    for (std::size_t k = 0; k < Optimizer::states; ++k) {
      for (const float x : harness::state_of(module, k)) end.push_back(x);
    }
    return end;
  })[1];
}
BOOST_AUTO_TEST_CASE(averages_and_states_in_blocks_are_offloaded_alike) {
  const Folder folder;
  const NamedStage resident = harness::named<zero::Zero3>("resident");
  const NamedStage offloaded = offloading<zero::Zero3, InFile>();
  const Setup setup = setup_in(folder, 2).in(harness::modes()[1]);
  const zero::Ema<zero::Sgd> average{.optimizer = {.learning_rate = 0.25F}, .decay = 0.5F};
  BOOST_TEST(
      harness::same_bits(end_of(offloaded, setup, average), end_of(resident, setup, average)));
  const zero::AdamW8bit eight{.learning_rate = 0.25F};
  BOOST_TEST(harness::same_bits(end_of(offloaded, setup, eight), end_of(resident, setup, eight)));
}

/// Small whole gradients of which every rank has the same, and weights of zero.
Plan steps_of(std::size_t micro_steps, std::size_t steps) {
  Plan plan;
  plan.steps = steps;
  plan.micro_steps = micro_steps;
  plan.gradient = [](const harness::Place& at) { return static_cast<float>(at.micro_step + 1); };
  return plan;
}
// B93
BOOST_AUTO_TEST_CASE(micro_steps_add_up_where_state_is_offloaded_reduced_at_once_or_at_the_end) {
  const Folder folder;
  const zero::Ema<zero::Sgd> sgd{.optimizer = {.learning_rate = 1}, .decay = 0.5F};
  std::size_t cases = 0;
  for (const std::size_t ranks : {1, 2}) {
    for (const NamedStage& stage :
         {offloading<zero::Ddp, InHostMemory>(), offloading<zero::Zero1, InFile>(),
          offloading<zero::Zero2, InFile>(), offloading<zero::Zero3, InHostMemory>()}) {
      const auto all = harness::on_ranks<zero::bf16>(
          stage, setup_in(folder, ranks).in(harness::modes()[1]), model(), sgd, [](auto& module) {
            return harness::train(module, zero::UserCode::on_caller, steps_of(3, 1)).weights;
          });
      for (const std::vector<float>& weights : all) {
        for (std::size_t i = 0; i < weights.size(); ++i) {  // those of block.*.b are frozen
          if (weights[i] != 0) BOOST_TEST(weights[i] == -6);
        }
        BOOST_TEST(std::count(weights.begin(), weights.end(), -6.0F) == 10 + 3 * 50 + 57);
        ++cases;
      }
    }
  }
  BOOST_TEST(cases == 12U);
}
// B33
BOOST_AUTO_TEST_CASE(units_that_are_updated_one_after_the_other_have_the_same_bias_corrections) {
  const Folder folder;
  const harness::Model units = harness::model_of({"unit", 3, harness::sizes({50})});
  std::vector<float> expected;
  for (const NamedStage& stage :
       {harness::named<zero::Zero3>("resident"), offloading<zero::Zero3, InFile>(),
        harness::named<OffloadOf<zero::Zero3, InHostMemory>>("in memory")}) {
    const auto all = harness::on_ranks<float>(
        stage, setup_in(folder, 2), units, adam, Body<float>([](Trained<float>& module) {
          Kept kept;
          kept.outcome = harness::train(module, zero::UserCode::on_caller, steps_of(1, 5));
          return kept;
        }));
    const std::vector<float>& weights = all[0].outcome.weights;
    if (expected.empty()) expected = weights;
    BOOST_TEST(weights[0] < -0.5F);
    BOOST_TEST(harness::same_bits(weights, expected), stage.name);
    BOOST_TEST(harness::same_bits(weights, std::vector<float>(150, weights[0])), stage.name);
  }
}
// B45
BOOST_AUTO_TEST_CASE(a_rank_whose_shard_is_empty_keeps_no_state_of_it_and_the_others_all) {
  const Folder folder;
  const harness::Model units = harness::model_of({"unit", 2, harness::sizes({3})});
  const zero::AdamW plain{.learning_rate = 0.125F};
  std::vector<float> expected;
  for (const NamedStage& stage :
       {harness::named<zero::Zero3>("resident"), offloading<zero::Zero3, InFile>(),
        offloading<zero::Zero3, InHostMemory>()}) {
    const auto all = harness::on_ranks<zero::bf16>(
        stage, setup_in(folder, 4), units, plain, Body<zero::bf16>([](Trained<zero::bf16>& module) {
          Kept kept;
          kept.outcome = harness::train(module, zero::UserCode::on_caller, steps_of(1, 1));
          for (const zero::HeldTensor& tensor : module.held_state().tensors) {
            for (const zero::HeldPart& part : tensor.parts) {
              std::int64_t held = 0;
              for (const zero::HeldRange& range : part.ranges) {
                held += static_cast<std::int64_t>(range.count);
              }
              kept.counts.push_back(held - static_cast<std::int64_t>(module.owned(tensor.name)));
            }
          }
          kept.counts.push_back(static_cast<std::int64_t>(module.owned("unit.0.a")));
          return kept;
        }));
    std::int64_t owned = 0;
    for (const Kept& rank : all) {
      for (const float x : rank.outcome.weights) BOOST_TEST(std::abs(x + 0.125F) < 1e-6F);
      if (expected.empty()) expected = rank.outcome.weights;
      BOOST_TEST(harness::same_bits(rank.outcome.weights, expected), stage.name);
      owned += rank.counts.back();
      for (std::size_t i = 0; i + 1 < rank.counts.size(); ++i) BOOST_TEST(rank.counts[i] == 0);
    }
    BOOST_TEST(owned == 3);
    BOOST_TEST(all[3].counts.back() == 0);
  }
}

template <class T>
std::vector<Kept> continue_from(const NamedStage& stage, const Setup& setup,
                                const std::string& load, const std::string& save) {
  return harness::on_ranks<T>(stage, setup, model(), adam, Body<T>([&](Trained<T>& module) {
                                Kept kept;
                                if (!load.empty()) zero::load(module, load);
                                kept.outcome = harness::train(module, setup.options.user_code,
                                                              plan(), load.empty());
                                zero::save(module, save);
                                look(module, kept);
                                return kept;
                              }));
}
BOOST_AUTO_TEST_CASE(checkpoints_go_from_resident_to_offloaded_modules_and_back) {
  const Folder folder, disk;
  const NamedStage resident = harness::named<zero::Zero3>("resident");
  const std::string plain = folder.path + "/plain", mixed = folder.path + "/mixed";
  for (const NamedStage& stage :
       {offloading<zero::Zero1, InFile>(), offloading<zero::Zero3, InHostMemory>()}) {
    const Setup setup = setup_in(disk, 3);
    continue_from<zero::bf16>(resident, setup, "", plain);
    continue_from<zero::bf16>(stage, setup, "", mixed);
    for (int k = 0; k < 2; ++k) {  // each time the other kind goes on
      const NamedStage& other = k == 0 ? resident : stage;
      const Kept a = continue_from<zero::bf16>(resident, setup, plain, plain)[0];
      const Kept b = continue_from<zero::bf16>(other, setup, mixed, mixed)[0];
      BOOST_TEST(same_bits(a, b), stage.name << k);
    }
    fs::remove_all(plain);
    fs::remove_all(mixed);
  }
}

BOOST_AUTO_TEST_SUITE_END()
