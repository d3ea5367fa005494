// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Optimizer state that is kept in a file or in memory of the host: the same bits as without, the
// bytes that are held and moved, checkpoints of both kinds, and a file system that fails.
#include <atomic>
#include <boost/test/unit_test.hpp>
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
    char name[] = "/tmp/zero-offload-XXXXXX";
    path = ::mkdtemp(name);
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

BOOST_AUTO_TEST_SUITE_END()
