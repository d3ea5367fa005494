// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What ranks must hold alike is equal before the first step, or every rank learns what is not.
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_replicas_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
const Model& some_model() {
  static const Model model =
      model_of({"unit", 2, sizes({5, 3})}, {"fixed", 1, sizes({4}).frozen({0})});
  return model;
}
/// Weight e of tensor t of unit u.
float weight_of(const zero::TensorInfo& tensor, std::size_t element) {
  return static_cast<float>(100 * tensor.unit + 10 * tensor.place + element);
}
std::vector<float> expected_weights(float offset) {
  std::vector<float> all;
  for (const auto& [unit, place, n] :
       {std::array{0, 0, 5}, {0, 1, 3}, {1, 0, 5}, {1, 1, 3}, {2, 0, 4}}) {
    for (int e = 0; e < n; ++e)
      all.push_back(offset + static_cast<float>(100 * unit + 10 * place + e));
  }
  return all;
}
/// Stages that keep weights whole, or have replicas, on four ranks.
template <class F>
void for_each_replicating_stage(F f) {
  for_each_stage(4, [&](const NamedStage& stage) {
    if (std::string(stage.name) != "stage 3") f(stage);
  });
}

// B61: of one element, on one rank.
template <class T>
void check_that_a_difference_is_named() {
  for_each_replicating_stage([&](const NamedStage& stage) {
    for (const char* const tensor : {"unit.1.b", "fixed.a"}) {
      BOOST_TEST_CONTEXT(stage << ", " << tensor) {
        const std::vector<std::array<std::string, 3>> all =
            on_ranks<T>(stage, Setup{}.on(4, stage.replicas), some_model(), sgd, [&](auto& module) {
              const bool differs = module.mesh().world.rank() == 3;
              module.initialize([&](const zero::TensorInfo& info, std::size_t e) {
                return weight_of(info, e) + (differs && info.name == tensor ? 1.0F : 0.0F);
              });
              std::array<std::string, 3> said;
              said[0] = error_of([&] { (void)module.begin_step(); });
              said[1] = error_of([&] { module.compare_replicas(); });
              module.initialize(weight_of);
              said[2] =
                  error_of([&] { (void)train(module, zero::UserCode::on_caller, {}, false); });
              return said;
            });
        for (const auto& said : all) {
          // Of the shards of a replica, rank 3 may have the one with unit.1.b, not that with
          // fixed.a.
          const bool held = stage.replicas == 1 || (std::string(tensor) == "unit.1.b" &&
                                                    std::string(stage.name) == "hybrid");
          const char* const other = stage.replicas == 1 ? "rank 0," : "rank 1,";
          BOOST_TEST(said[0].empty() == !held, said[0]);
          if (held) {
            BOOST_TEST(says(said[0], {"ContractError: ", "begin_step", "rank 3 ", tensor, other,
                                      "broadcast_weights"}),
                       said[0]);
            BOOST_TEST(says(said[1], {"ContractError: ", "compare_replicas", tensor}), said[1]);
          }
          BOOST_TEST(said[2].empty(), said[2]);
        }
      }
    }
  });
}
BOOST_AUTO_TEST_CASE(one_rank_with_other_weights_is_named_on_all_ranks) {
  check_that_a_difference_is_named<float>();
}
BOOST_AUTO_TEST_CASE(one_rank_with_other_bf16_weights_is_named_on_all_ranks) {
  check_that_a_difference_is_named<zero::bf16>();
}

// B61: replicas of shards, of which each rank holds a part.
BOOST_AUTO_TEST_CASE(replicas_of_shards_that_differ_are_named_with_their_counterparts) {
  const Model model = model_of({"unit", 1, sizes({64})});
  for_each_stage(4, [&](const NamedStage& stage) {
    if (stage.replicas == 1) return;
    BOOST_TEST_CONTEXT(stage) {
      for (const std::string& text :
           on_ranks(stage, Setup{}.on(4, 2), model, sgd, [](auto& module) {
             module.initialize(
                 [&](const auto&, auto) { return static_cast<float>(module.mesh().world.rank()); });
             return error_of([&] { (void)module.begin_step(); });
           })) {
        BOOST_TEST(says(text, {"ContractError: ", "rank 2, 3 has", "'unit.a'", "than rank 0, 1,"}),
                   text);
      }
    }
  });
}

// Masters may differ where the weights that compute are equal.
BOOST_AUTO_TEST_CASE(masters_that_differ_below_the_precision_of_the_weights_are_found) {
  for (const NamedStage& stage : {stages(2)[0]}) {
    BOOST_TEST_CONTEXT(stage) {
      for (const std::string& text : on_ranks<zero::bf16>(
               stage, Setup{}.on(2), model_of({"unit", 1, sizes({3})}), sgd, [](auto& module) {
                 module.initialize([&](const auto&, auto) {
                   return 1 + 0x1p-20F * static_cast<float>(module.mesh().world.rank());
                 });
                 return error_of([&] { (void)module.begin_step(); });
               })) {
        BOOST_TEST(says(text, {"ContractError: ", "rank 1 has", "'unit.a'"}), text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shards_that_nobody_else_holds_may_be_set_by_each_rank) {
  for (const std::string& text :
       on_ranks<zero::Zero3>(Setup{}.on(4), some_model(), sgd, [](auto& module) {
         module.initialize(
             [&](const auto&, auto) { return static_cast<float>(module.mesh().world.rank()); });
         return error_of([&] { (void)train(module, zero::UserCode::on_caller, {}, false); });
       })) {
    BOOST_TEST(text.empty(), text);
  }
}

// B61: "sync at start".
template <class T>
void check_sync() {
  for (const std::size_t ranks : {1, 3, 4}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      for (const std::size_t root : {std::size_t{0}, ranks - 1}) {
        BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, root " << root) {
          const std::vector<std::array<std::vector<float>, 2>> all = on_ranks<T>(
              stage, Setup{}.on(ranks, stage.replicas), some_model(), sgd, [&](auto& module) {
                const auto mine = static_cast<float>(module.mesh().world.rank());
                module.initialize([&](const zero::TensorInfo& tensor,
                                      std::size_t e) { return mine + weight_of(tensor, e); },
                                  root);
                std::array<std::vector<float>, 2> seen{weights_of(module)};
                seen[1] = train(module, zero::UserCode::on_caller, {}, false).weights;
                return seen;
              });
          for (const auto& rank : all) {
            const std::vector<float> expected = expected_weights(static_cast<float>(root));
            BOOST_TEST(same_bits(rank[0], expected));
            for (std::size_t i = 0; i < expected.size(); ++i) {
              BOOST_TEST(rank[1][i] == expected[i] - (i < 16 ? 1.0F : 0.0F));
            }
          }
        }
      }
    });
  }
}
BOOST_AUTO_TEST_CASE(all_ranks_can_begin_with_the_values_of_one) { check_sync<float>(); }
BOOST_AUTO_TEST_CASE(all_ranks_can_begin_with_the_bf16_values_of_one) { check_sync<zero::bf16>(); }

/// Tensors longer than the parts in which values are sent.
BOOST_AUTO_TEST_CASE(values_of_one_rank_reach_each_element_of_long_tensors) {
  const Model model = model_of({"unit", 1, sizes({2500, 1024})});
  for (const std::vector<float>& weights :
       on_ranks<zero::Zero2>(Setup{}.on(3), model, sgd, [](auto& module) {
         module.initialize(
             [](const zero::TensorInfo& tensor, std::size_t e) {
               return static_cast<float>(3000 * tensor.place + e);
             },
             1);
         return weights_of(module);
       })) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      BOOST_REQUIRE(weights[i] == static_cast<float>(i < 2500 ? i : i + 500));
    }
  }
}

template <class T>
void check_broadcast() {
  const Model model = model_of({"unit", 1, sizes({64, 3})}, {"fixed", 1, sizes({40}).frozen({0})});
  for_each_replicating_stage([&](const NamedStage& stage) {
    for (const std::size_t root : {0, 3}) {
      BOOST_TEST_CONTEXT(stage << ", root " << root) {
        const std::vector<std::array<std::vector<float>, 2>> all =
            on_ranks<T>(stage, Setup{}.on(4, stage.replicas), model, sgd, [&](auto& module) {
              module.initialize([&](const auto&, auto) {
                return static_cast<float>(module.mesh().world.rank());
              });
              module.broadcast_weights(root);
              module.compare_replicas();
              std::array<std::vector<float>, 2> seen{weights_of(module)};
              const Plan plan{.gradient = [](const Place&) { return 0.0F; }};
              seen[1] = train(module, zero::UserCode::on_caller, plan, false).weights;
              return seen;
            });
        for (const auto& rank : all) {
          BOOST_TEST(same_bits(rank[0], all[0][0]));
          BOOST_TEST(same_bits(rank[1], rank[0]));  // weights and masters are of one mind
          if (stage.replicas == 1) BOOST_TEST(all_are(rank[0], static_cast<float>(root)));
          for (const float w : rank[0]) BOOST_TEST((root == 0 ? w < 2 : w >= 2));
        }
      }
    }
  });
}
BOOST_AUTO_TEST_CASE(weights_of_one_rank_can_become_those_of_all) { check_broadcast<float>(); }
BOOST_AUTO_TEST_CASE(bf16_weights_of_one_rank_can_become_those_of_all) {
  check_broadcast<zero::bf16>();
}

// What is already equal is not even rounded.
BOOST_AUTO_TEST_CASE(a_broadcast_of_equal_weights_changes_no_bit_of_the_masters) {
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const std::vector<float>& weights :
           on_ranks<zero::bf16>(stage, Setup{}.on(4, stage.replicas),
                                model_of({"unit", 1, sizes({20})}), sgd, [](auto& module) {
                                  module.initialize([](const auto&, auto) { return 1 + 0x1p-20F; });
                                  module.broadcast_weights();
                                  return weights_of(module);
                                })) {
        BOOST_TEST(all_are(weights, 1 + 0x1p-20F));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_comparison_costs_nothing_after_the_first_step) {
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const bool as_predicted :
           on_ranks(stage, Setup{}.on(4, stage.replicas), some_model(), sgd, [](auto& module) {
             (void)train(module, zero::UserCode::on_caller, {});
             module.mesh().world.barrier();
             const zero::Traffic before = module.sent();
             {
               Outcome outcome;
               auto step = module.begin_step();
               run_passes(module, step, zero::UserCode::on_caller, {}, 0, outcome);
               (void)step.finish();
             }
             module.synchronize();
             module.mesh().world.barrier();
             const bool right = module.sent().all_gather - before.all_gather ==
                                module.predicted_bytes_sent().all_gather;
             module.mesh().world.barrier();
             return right;
           })) {
        BOOST_TEST(as_predicted);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_root_that_is_no_rank_is_refused_in_every_stage_and_changes_nothing) {
  using Refused = std::pair<std::array<std::string, 2>, std::vector<float>>;
  for_each_stage(4, [&](const NamedStage& stage) {
    for (const auto& [texts, weights] :
         on_ranks(stage, Setup{}.on(4, stage.replicas), some_model(), sgd, [](auto& module) {
           module.initialize(weight_of);
           Refused seen;
           seen.first[0] = error_of([&] { module.broadcast_weights(4); });
           seen.first[1] = error_of([&] { module.initialize([](auto&&...) { return 0.0F; }, 4); });
           seen.second = weights_of(module);
           return seen;
         })) {
      for (const std::string& text : texts) {
        BOOST_TEST(says(text, {"ContractError: ", "rank 4", "there are 4"}), text);
      }
      BOOST_TEST(same_bits(weights, expected_weights(0)), stage);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
