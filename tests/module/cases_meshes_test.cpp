// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a step does is the same on every mesh of replicas and shards.
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_meshes_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};

struct Shape {
  std::size_t ranks, replicas;
};
std::ostream& operator<<(std::ostream& out, Shape shape) {
  return out << shape.replicas << " x " << shape.ranks / shape.replicas;
}

// B01
BOOST_AUTO_TEST_CASE(four_replicas_of_a_shard_group_of_one_add_six_micro_steps_to_six) {
  const Model model = model_of({"unit", 1, sizes({4})});
  const Plan plan{.micro_steps = 6};
  for (const Mode& mode : tried_modes()) {
    for (const std::size_t replicas : {1, 2, 4}) {
      BOOST_TEST_CONTEXT(mode.name << ", " << replicas << " replicas") {
        const Setup setup = Setup{}.in(mode).on(4, replicas);
        for (const Outcome& rank : train<zero::Hybrid>(setup, model, sgd, plan)) {
          BOOST_TEST(all_are(rank.weights, -6));
        }
      }
    }
  }
}

// B12 B14
BOOST_AUTO_TEST_CASE(a_divisor_means_the_same_on_every_mesh) {
  const Model model = model_of({"unit", 2, sizes({6, 2})});
  const auto moved = [&](std::size_t ranks, std::size_t replicas, float gradient, double divisor) {
    const Plan plan{.gradient = [=](const Place&) { return gradient; },
                    .finish = {.divisor = divisor}};
    std::vector<float> all;
    for (const Outcome& rank : train<zero::Hybrid>(Setup{}.on(ranks, replicas), model, sgd, plan)) {
      all.insert(all.end(), rank.weights.begin(), rank.weights.end());
    }
    return all;
  };
  for (const std::size_t replicas : {1, 2, 4}) {
    BOOST_TEST(all_are(moved(4, replicas, 1, 8), -0.5F));
    BOOST_TEST(all_are(moved(4, replicas, 8, 4), -8));
    BOOST_TEST(all_are(moved(4, replicas, 8, 0), -8));   // 0 stands for the number of ranks
    BOOST_TEST(all_are(moved(4, replicas, 8, 1), -32));  // a plain sum
  }
  BOOST_TEST(all_are(moved(1, 1, 8, 4), -2));
}

// B18 B20
BOOST_AUTO_TEST_CASE(the_norm_counts_every_element_once_on_every_mesh) {
  const Model model = model_of({"unit", 1, sizes({4})});
  for (const std::size_t replicas : {1, 2, 4}) {
    for (const Outcome& rank : train<zero::Hybrid>(Setup{}.on(4, replicas), model, sgd, {})) {
      BOOST_TEST(rank.steps[0].norm == 2.0);
    }
    for (const Outcome& rank :
         train<zero::HybridOf<zero::Ddp>>(Setup{}.on(4, replicas), model, sgd, {})) {
      BOOST_TEST(rank.steps[0].norm == 2.0);
    }
  }
}

// B11 B99
BOOST_AUTO_TEST_CASE(every_stage_may_be_replicated_on_every_mesh) {
  const Model model = model_of({"unit", 3, sizes({5, 4})}, {"small", 1, sizes({1})});
  const Plan plan{.steps = 2, .micro_steps = 2, .gradient = [](const Place& p) {
                    return static_cast<float>((p.micro_step + 1) * p.rank);
                  }};
  const auto check = [&](const NamedStage& stage, Shape mesh, const Mode& mode) {
    BOOST_TEST_CONTEXT(stage << " on " << mesh << ", " << mode.name) {
      const float moved = 2 * 3 * static_cast<float>(mesh.ranks - 1) / 2;
      const Setup setup = Setup{}.in(mode).on(mesh.ranks, mesh.replicas);
      for (const Outcome& rank : train(stage, setup, model, sgd, plan)) {
        BOOST_TEST(all_are(rank.weights, -moved));
        BOOST_TEST(rank.gathered_bytes == 0U);
      }
    }
  };
  const Shape meshes[] = {{1, 1}, {4, 1}, {4, 2}, {4, 4}, {6, 2}, {6, 3}, {8, 2}};
  for (const Shape mesh : meshes) {
    for (const Mode& mode : tried_modes()) {
      check(named<zero::HybridOf<zero::Ddp>>("stage 0"), mesh, mode);
      check(named<zero::HybridOf<zero::Zero1>>("stage 1"), mesh, mode);
      check(named<zero::HybridOf<zero::Zero2>>("stage 2"), mesh, mode);
      check(named<zero::Hybrid>("stage 3"), mesh, mode);
    }
  }
}

// B27
BOOST_AUTO_TEST_CASE(an_infinite_element_in_one_replica_makes_all_ranks_skip) {
  const Model model = model_of({"unit", 2, sizes({4})});
  const Plan plan{.steps = 3, .gradient = [](const Place& p) {
                    return p.step == 1 && p.rank == 1 && p.element == 2 && p.unit == 1
                               ? std::numeric_limits<float>::infinity()
                               : 1.0F;
                  }};
  for (const Outcome& rank : train<zero::Hybrid>(Setup{}.on(4, 2), model, sgd, plan)) {
    BOOST_TEST(rank.steps[0].applied);
    BOOST_TEST(rank.steps[1].skipped());
    BOOST_TEST(rank.steps[2].applied);
    BOOST_TEST(rank.steps[2].step == 2);
    BOOST_TEST(all_are(rank.weights, -2));
  }
}

BOOST_AUTO_TEST_CASE(a_stage_that_does_not_replicate_refuses_replicas) {
  const Model model = model_of({"unit", 1, sizes({4})});
  on_threads(4, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    const auto mesh = zero::mesh(comm, 2);
    comm.barrier();  // a rank that leaves early fails the splits of the others
    const std::string text =
        error_of([&] { auto module = zero::shard<zero::HybridOf<zero::Zero1>>(model, mesh, sgd); });
    if (!text.empty()) throw zero::Error("a stage that replicates was refused: " + text);
  });
  const std::string text = error_of([&] { train<zero::Zero3>(Setup{}.on(4, 2), model, sgd, {}); });
  BOOST_TEST(says(text, {"ContractError: ", "2 replicas", "HybridOf"}), text);
}

BOOST_AUTO_TEST_CASE(communicators_that_make_no_mesh_are_refused) {
  const Model model = model_of({"unit", 1, sizes({4})});
  const std::string text = error_of([&] {
    on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
      const zero::Mesh<zero::ThreadCommunicator> wrong{comm, comm, comm};
      auto module = zero::shard<zero::Hybrid>(model, wrong, sgd);
    });
  });
  BOOST_TEST(says(text, {"ContractError: ", "mesh"}), text);
}

BOOST_AUTO_TEST_CASE(replicas_that_do_not_divide_the_ranks_are_refused) {
  const Model model = model_of({"unit", 1, sizes({4})});
  for (const std::size_t replicas : {0, 3, 5}) {
    const std::string text =
        error_of([&] { train<zero::Hybrid>(Setup{}.on(4, replicas), model, sgd, {}); });
    BOOST_TEST(says(text, {"ContractError: ", "4 ranks"}), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
