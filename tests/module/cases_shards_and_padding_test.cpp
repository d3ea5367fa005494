// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Any sizes on any number of ranks: empty shards, empty tensors, padding that nobody sees.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_shards_and_padding_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1, .momentum = 1};

float rank_and_one(const Place& p) { return static_cast<float>(p.rank + 1); }

// B49: with ModuleOptions::poison all padding is NaN, in weights, masters, moments, gradients,
// slots.
BOOST_AUTO_TEST_CASE(padding_that_is_not_a_number_changes_nothing) {
  const Model model = model_of({"unit", 1, sizes({1, 7, 5})});
  for_each_stage(3, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      for (const bool poison : {true, false}) {
        BOOST_TEST_CONTEXT(stage << ", " << mode.name << (poison ? ", poison" : "")) {
          Setup setup = Setup{}.in(mode).on(3, stage.replicas);
          setup.options.poison = poison;
          const Plan plan{.steps = 2, .gradient = rank_and_one};
          for (const Outcome& rank : train(stage, setup, model, sgd, plan)) {
            BOOST_TEST(all_are(rank.weights, -6));  // 2, then with momentum 4
            BOOST_TEST(rank.weights.size() == 13U);
            BOOST_TEST(rank.steps[0].norm == std::sqrt(13 * 4.0));
            BOOST_TEST(rank.applied());
          }
        }
      }
    }
  });
}

// B43 B46 B51
BOOST_AUTO_TEST_CASE(any_sizes_train_on_any_number_of_ranks) {
  const std::vector<Config> configs{
      sizes({1}),    sizes({0, 1}),        sizes({1, 0, 0, 2}), sizes({6, 1, 3}),
      sizes({4, 4}), sizes({1, 7, 5, 44}), sizes({129, 1, 63}), shapes({{2, 3, 5, 7}})};
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    for (const Config& config : configs) {
      const Model model = model_of({"first", 2, config}, {"last", 1, sizes({2, 3})});
      const Plan plan{.steps = 2, .micro_steps = 2, .gradient = rank_and_one};
      const float moved = 3 * static_cast<float>(ranks + 1);
      for_each_stage(ranks, [&](const NamedStage& stage) {
        BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks") {
          for (const Outcome& rank :
               train(stage, Setup{}.on(ranks, stage.replicas), model, sgd, plan)) {
            BOOST_TEST(all_are(rank.weights, -moved));
          }
        }
      });
    }
  }
}

// B50 B43: each element keeps its own value, whatever shard and slot it goes through.
BOOST_AUTO_TEST_CASE(every_element_is_shown_where_it_belongs) {
  const Model model = model_of({"unit", 3, sizes({6, 1, 3, 11})}, {"wide", 1, shapes({{5, 9}})});
  const auto value = [](const zero::TensorInfo& tensor, std::size_t element) {
    return static_cast<float>(1000 * tensor.unit + 100 * (tensor.name.back() - 'a') + element);
  };
  std::vector<float> expected;
  for (std::size_t unit = 0; unit < 3; ++unit) {
    const std::size_t count[] = {6, 1, 3, 11};
    for (std::size_t t = 0; t < 4; ++t) {
      for (std::size_t e = 0; e < count[t]; ++e) {
        expected.push_back(static_cast<float>(1000 * unit + 100 * t + e));
      }
    }
  }
  for (std::size_t e = 0; e < 45; ++e) expected.push_back(static_cast<float>(3000 + e));
  const Plan plan{.steps = 2,
                  .micro_steps = 2,
                  .gradient = [](const Place&) { return 0.0F; },
                  .initial = value};
  for (const std::size_t ranks : {1, 3, 4, 8}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      for (const Mode& mode : tried_modes()) {
        BOOST_TEST_CONTEXT(stage << " on " << ranks << ", " << mode.name) {
          const Setup setup = Setup{}.in(mode, ranks).on(ranks, stage.replicas);
          for (const Outcome& rank : train(stage, setup, model, sgd, plan)) {
            BOOST_TEST(same_bits(rank.weights, expected));
            for (const auto& seen : rank.seen) BOOST_TEST(same_bits(seen, expected));
            BOOST_TEST(rank.seen_backward[3].size() == expected.size());
          }
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_of_each_element_moves_that_element) {
  const Model model = model_of({"unit", 3, sizes({6, 1, 3, 11})});
  const auto gradient = [](const Place& p) {
    return static_cast<float>((p.rank + 1) * (1 + p.element + 20 * p.tensor + 100 * p.unit));
  };
  for (const std::size_t ranks : {1, 3, 8}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks") {
        for (const Outcome& rank :
             train(stage, Setup{}.on(ranks, stage.replicas), model, sgd, {.gradient = gradient})) {
          std::vector<float> expected;
          const std::size_t count[] = {6, 1, 3, 11};
          for (std::size_t unit = 0; unit < 3; ++unit) {
            for (std::size_t t = 0; t < 4; ++t) {
              for (std::size_t e = 0; e < count[t]; ++e) {
                expected.push_back(-gradient({0, 0, 0, unit, t, e}) *
                                   static_cast<float>(ranks + 1) / 2);
              }
            }
          }
          BOOST_TEST(same_bits(rank.weights, expected));
        }
      }
    });
  }
}

// B46
BOOST_AUTO_TEST_CASE(a_tensor_without_elements_is_read_and_written_as_such) {
  const Model model = model_of({"unit", 1, sizes({0, 2})});
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      const auto owned =
          on_ranks(stage, Setup{}.on(4, stage.replicas), model, sgd, [](auto& module) {
            module.write_weights("unit.a", std::span<const float>());
            module.read_weights("unit.a", std::span<float>());
            module.read_state("unit.a", 0, std::span<float>());
            return module.owned("unit.a");
          });
      for (const std::size_t count : owned) BOOST_TEST(count == 0U);
    }
  });
}

// B113
BOOST_AUTO_TEST_CASE(a_layout_counts_beyond_32_bits) {
  constexpr auto check = [](std::size_t elements, std::size_t ranks, std::size_t alignment) {
    const zero::FlatLayout layout(std::array{elements, std::size_t{3}}, ranks, alignment);
    std::size_t owned = 0;
    for (std::size_t r = 0; r < ranks; ++r) owned += layout.owned(r);
    return layout.elements() == elements + 3 && owned == elements + 3 &&
           layout.padded() % (ranks * alignment) == 0 && layout.tensor_offset(1) >= elements &&
           layout.shard() * ranks == layout.padded();
  };
  constexpr std::size_t large[] = {(std::size_t{1} << 31) + 5, (std::size_t{1} << 33) + 1};
  for (const std::size_t elements : large) {
    for (const std::size_t ranks : {1, 3, 4}) {
      BOOST_TEST(check(elements, ranks, 4));
      BOOST_TEST(check(elements, ranks, 8));
    }
  }
  static_assert(check(large[0], 3, 8) && check(large[1], 4, 4));
}

// B116
BOOST_AUTO_TEST_CASE(collectives_of_no_elements_return_and_unequal_counts_are_an_error) {
  zero::run_threads(4, [](zero::ThreadCommunicator& comm) {
    float* none = nullptr;
    comm.all_gather(none, none, 0);
    comm.reduce_scatter(none, none, 0);
    comm.all_reduce(none, 0);
    comm.broadcast(none, 0, 3);
    comm.barrier();
  });
  for (int operation = 0; operation < 4; ++operation) {
    std::vector<std::string> texts(4);
    zero::run_threads(4, [&](zero::ThreadCommunicator& comm) {
      texts[comm.rank()] = error_of([&] {
        const std::size_t count = comm.rank() == 2 ? 3 : operation % 2 == 0 ? 0 : 4;
        std::array<float, 4> part{};
        std::array<float, 16> all{};
        if (operation == 0) comm.all_gather(part.data(), all.data(), count);
        if (operation == 1) comm.reduce_scatter(all.data(), part.data(), count);
        if (operation == 2) comm.all_reduce(part.data(), count);
        if (operation == 3) comm.broadcast(part.data(), count, 0);
      });
    });
    for (const std::string& text : texts)
      BOOST_TEST(says(text, {"CommunicatorError: ", "rank 2"}), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
