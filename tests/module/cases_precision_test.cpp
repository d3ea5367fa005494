// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Weights that compute in bf16 or fp16 follow fp32 masters; gradients are summed in fp32.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_precision_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};

template <class T, class F>
void everywhere(const Model& model, const zero::Sgd& optimizer, const Plan& plan, F f) {
  const auto check = [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(4, stage.replicas);
        for (const Outcome& rank : train<T>(stage, setup, model, optimizer, plan)) f(rank);
      }
    }
  };
  check(named<zero::Ddp>("stage 0", 1));
  check(named<zero::Zero1>("stage 1", 1));
  if constexpr (std::is_same_v<T, zero::bf16>) {
    check(named<zero::Zero2>("stage 2", 1));
    check(named<zero::Hybrid>("hybrid", 2));
  }
  check(named<zero::Zero3>("stage 3", 1));
}

// B64
BOOST_AUTO_TEST_CASE(small_gradients_survive_beside_large_ones) {
  const Plan plan{.micro_steps = 3, .gradient = [](const Place& p) {
                    return p.micro_step == 0 ? 256.0F : p.micro_step == 1 ? 1.0F : -256.0F;
                  }};
  const auto check = [](const Outcome& rank) { BOOST_TEST(all_are(rank.weights, -1)); };
  everywhere<zero::bf16>(model_of({"unit", 2, sizes({3, 2})}), sgd, plan, check);
  everywhere<zero::fp16>(model_of({"unit", 2, sizes({3, 2})}), sgd, plan, check);
}

// B64
BOOST_AUTO_TEST_CASE(a_thousand_micro_steps_of_one_are_a_thousand) {
  Setup setup;
  setup.options.max_micro_steps = 1000;
  const Model model = model_of({"unit", 2, sizes({3, 2})});
  const Plan plan{.micro_steps = 1000};
  const auto check = [&](const NamedStage& stage, std::size_t ranks, const Mode& mode) {
    for (const Outcome& rank :
         train<zero::bf16>(stage, setup.in(mode).on(ranks), model, sgd, plan)) {
      BOOST_TEST(all_are(rank.weights, -1000));
    }
  };
  for (const Mode& mode : {modes()[0], modes()[2], modes()[4]}) {
    for (const std::size_t ranks : {1, 2}) {
      check(named<zero::Ddp>(""), ranks, mode);
      check(named<zero::Zero2>(""), ranks, mode);
      check(named<zero::Zero3>(""), ranks, mode);
    }
  }
}

// B68
BOOST_AUTO_TEST_CASE(forward_sees_the_weights_that_the_last_step_left) {
  const Plan plan{.steps = 10, .micro_steps = 2, .gradient = [](const Place&) { return 0.5F; }};
  everywhere<zero::bf16>(model_of({"unit", 3, sizes({5, 4})}), sgd, plan, [](const Outcome& rank) {
    for (std::size_t k = 0; k < 10; ++k) {
      BOOST_TEST(all_are(rank.seen[2 * k], -static_cast<float>(k)));
      BOOST_TEST(all_are(rank.seen[2 * k + 1], -static_cast<float>(k)));
      BOOST_TEST(all_are(rank.seen_backward[2 * k], -static_cast<float>(k)));
    }
  });
}

// B68: steps that are too small for the type of the weights add up in the masters.
BOOST_AUTO_TEST_CASE(steps_below_the_resolution_of_the_weights_are_not_lost) {
  const zero::Sgd small{.learning_rate = 0x1p-10F};
  const Plan plan{.steps = 8,
                  .gradient = [](const Place&) { return 1.0F; },
                  .initial = [](const auto&, auto) { return 1.0F; }};
  everywhere<zero::bf16>(model_of({"unit", 2, sizes({5})}), small, plan, [](const Outcome& rank) {
    BOOST_TEST(all_are(rank.weights, 1 - 8 * 0x1p-10F));
    // bf16 has steps of 2^-8 below 1: the master is rounded to nearest, ties to even.
    for (std::size_t k = 0; k < 8; ++k) {
      const zero::bf16 rounded(1 - static_cast<float>(k) * 0x1p-10F);
      BOOST_TEST(all_are(rank.seen[k], static_cast<float>(rounded)));
    }
  });
}

// Writing weights through the API refreshes masters and compute weights, of frozen tensors too.
BOOST_AUTO_TEST_CASE(written_weights_reach_the_masters_and_the_compute_weights) {
  const Model model = model_of({"unit", 2, sizes({5, 3}).frozen({1})});
  const auto check = [&](const NamedStage& stage) {
    const auto ranks =
        on_ranks<zero::bf16>(stage, Setup{}.on(4, stage.replicas), model, sgd, [](auto& module) {
          const float exact = 1 + 0x1p-20F;  // not a bf16
          const std::vector<float> five(5, exact), three(3, 2);
          module.write_weights("unit.1.a", five);
          module.write_weights("unit.1.b", three);
          std::vector<float> seen = evaluate(module, zero::UserCode::on_caller);
          std::vector<float> kept(5);
          module.read_weights("unit.1.a", kept);
          return std::pair(std::move(seen), std::move(kept));
        });
    for (const auto& [seen, kept] : ranks) {
      BOOST_TEST(same_bits(seen, {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2}));
      BOOST_TEST(all_are(kept, 1 + 0x1p-20F));
    }
  };
  check(named<zero::Ddp>("", 1));
  check(named<zero::Zero1>("", 1));
  check(named<zero::Zero3>("", 1));
  check(named<zero::Hybrid>("", 2));
}

// B26
BOOST_AUTO_TEST_CASE(squares_beyond_the_type_of_the_weights_make_no_infinite_norm) {
  const Model model = model_of({"unit", 1, sizes({65536})});
  const Plan plan{.gradient = [](const Place&) { return 16.0F; }};
  for (const Outcome& rank : train<zero::Zero3, zero::fp16>(Setup{}.on(2), model, sgd, plan)) {
    BOOST_TEST(rank.steps[0].norm == 4096.0);
    BOOST_TEST(all_are(rank.weights, -16));
  }
}

// B50
BOOST_AUTO_TEST_CASE(every_tensor_that_a_unit_shows_is_aligned_to_sixteen_bytes) {
  const Model model = model_of({"unit", 3, sizes({1, 7, 5, 64})});
  const auto check = [&]<class T>(T, const NamedStage& stage, std::size_t ranks) {
    const auto ok =
        on_ranks<T>(stage, Setup{}.on(ranks, stage.replicas), model, sgd, [](auto& module) {
          std::size_t aligned = 0;
          const auto count = [&](const auto& view) {
            for (std::size_t t = 0; t < most_tensors; ++t) {
              aligned += reinterpret_cast<std::uintptr_t>(view[t].data()) % 16 == 0;
            }
          };
          auto step = module.begin_step();
          for (auto unit : step.forward()) count(unit.template weights<Parts>());
          for (auto unit : step.backward()) {
            count(unit.template weights<Parts>());
            count(unit.template gradients<Parts>());
            for (float& x : unit.template gradients<Parts>().d) x += 2;
          }
          const zero::StepResult result = step.finish();
          return aligned == 36 && result.norm == 2 * std::sqrt(3 * 64.0);
        });
    for (const bool rank : ok) BOOST_TEST(rank);
  };
  for (const std::size_t ranks : {1, 2, 3}) {
    check(zero::bf16{}, named<zero::Ddp>("", 1), ranks);
    check(zero::bf16{}, named<zero::Zero1>("", 1), ranks);
    check(zero::bf16{}, named<zero::Zero3>("", 1), ranks);
    check(zero::fp16{}, named<zero::Zero3>("", 1), ranks);
  }
  check(zero::bf16{}, named<zero::Hybrid>("", 2), 4);
}

BOOST_AUTO_TEST_SUITE_END()
