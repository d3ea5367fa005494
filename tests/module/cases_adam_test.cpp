// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Moments, counters and decay belong to named tensors, in every stage and on any number of ranks.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_adam_test)

using namespace harness;

const zero::AdamW adam{.learning_rate = 0.1F, .weight_decay = 0};

bool near(float a, double b) { return std::fabs(a - b) <= 1e-6; }
bool all_near(const std::vector<float>& values, double value) {
  for (const float x : values) {
    if (!near(x, value)) return false;
  }
  return !values.empty();
}

float some_gradient(const Place& p) {
  const std::size_t n = p.rank * 31 + p.step * 17 + p.element * 7 + p.tensor * 5 + p.unit * 3;
  return static_cast<float>(n % 13) - 5;
}

/// The weights after a job, computed element by element by one process, in double.
std::vector<float> reference(const std::vector<std::vector<std::size_t>>& units, std::size_t ranks,
                             const Plan& plan, const zero::AdamW& optimizer) {
  std::vector<float> weights;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t t = 0; t < units[u].size(); ++t) {
      for (std::size_t e = 0; e < units[u][t]; ++e) {
        double w = 0, m = 0, v = 0;
        for (std::size_t k = 0; k < plan.steps; ++k) {
          double g = 0;
          for (std::size_t r = 0; r < ranks; ++r) g += plan.gradient({r, k, 0, u, t, e});
          g /= static_cast<double>(ranks);
          const double b1 = optimizer.beta1, b2 = optimizer.beta2;
          const double rate = optimizer.learning_rate.at(static_cast<std::int64_t>(k));
          m = b1 * m + (1 - b1) * g;
          v = b2 * v + (1 - b2) * g * g;
          const double count = static_cast<double>(k + 1);
          const double root = std::sqrt(v / (1 - std::pow(b2, count)));
          w = (1 - rate * optimizer.weight_decay.at(static_cast<std::int64_t>(k))) * w -
              rate * (m / (1 - std::pow(b1, count))) / (root + optimizer.epsilon);
        }
        weights.push_back(static_cast<float>(w));
      }
    }
  }
  return weights;
}

struct Saved {
  std::vector<float> weights, m, v;
  std::vector<std::int64_t> counters;
  std::int64_t step = 0;
};

template <class Module>
Saved save(Module& module) {
  Saved saved{weights_of(module), state_of(module, 0), state_of(module, 1), {}, module.step()};
  for (const auto& tensor : module.parameters().tensors()) {
    saved.counters.push_back(module.counter(tensor.name));
  }
  return saved;
}
template <class Module>
void load(Module& module, const Saved& saved) {
  std::size_t at = 0, t = 0;
  for (const auto& tensor : module.parameters().tensors()) {
    const std::size_t n = tensor.shape.elements();
    module.write_weights(tensor.name, std::span(saved.weights).subspan(at, n));
    module.write_state(tensor.name, 0, std::span(saved.m).subspan(at, n));
    module.write_state(tensor.name, 1, std::span(saved.v).subspan(at, n));
    module.set_counter(tensor.name, saved.counters[t++]);
    at += n;
  }
  module.set_step(saved.step);
}
bool same(const Saved& a, const Saved& b) {
  return same_bits(a.weights, b.weights) && same_bits(a.m, b.m) && same_bits(a.v, b.v) &&
         a.counters == b.counters && a.step == b.step;
}

std::vector<Saved> load_and_save(const NamedStage& stage, const Setup& setup, const Model& model,
                                 const Saved& saved) {
  return on_ranks(stage, setup, model, adam, [&](auto& module) {
    load(module, saved);
    return save(module);
  });
}

// B51
BOOST_AUTO_TEST_CASE(tiny_models_train_alike_in_all_stages_on_one_to_five_ranks) {
  const std::vector<std::vector<std::size_t>> grid{{1}, {2}, {3}, {1, 7, 5}, {4, 4}};
  const Plan plan{.steps = 5, .gradient = some_gradient};
  const zero::AdamW decaying{.learning_rate = 0.1F, .weight_decay = 0.1F};
  for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
    for (const auto& tensors : grid) {
      Config config;
      for (std::size_t t = 0; t < tensors.size(); ++t) config.shapes.at(t) = {tensors[t]};
      const Model model = model_of({"unit", 1, config});
      const std::vector<float> expected = reference({tensors}, ranks, plan, decaying);
      const std::vector<Outcome> plain =
          train<zero::Zero1>(Setup{}.on(ranks), model, decaying, plan);
      for_each_stage(ranks, [&](const NamedStage& stage) {
        BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << tensors.size() << " tensors") {
          for (const Outcome& rank :
               train(stage, Setup{}.on(ranks, stage.replicas), model, decaying, plan)) {
            BOOST_TEST(same_bits(rank.weights, plain[0].weights));
            for (std::size_t i = 0; i < expected.size(); ++i) {
              BOOST_TEST(near(rank.weights[i], expected[i]));
            }
          }
        }
      });
    }
  }
}

// B44
BOOST_AUTO_TEST_CASE(many_tensors_of_one_element_on_four_ranks_all_move) {
  const Model model = model_of({"one", 60, sizes({1})}, {"seven", 6, sizes({7})});
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const Outcome& rank : train(stage, Setup{}.on(4, stage.replicas), model, adam, {})) {
        BOOST_TEST(rank.weights.size() == 60U + 42U);
        BOOST_TEST(all_near(rank.weights, -0.1));
      }
    }
  });
}

// B27 B31
BOOST_AUTO_TEST_CASE(a_skipped_step_moves_no_counter_on_any_rank) {
  const Model model = model_of({"unit", 1, sizes({2})});
  const Plan plan{.steps = 5, .gradient = [](const Place& p) {
                    return p.step == 2 && p.rank == 0 ? std::numeric_limits<float>::infinity()
                                                      : 1.0F;
                  }};
  for (const std::size_t ranks : {3, 4}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      BOOST_TEST_CONTEXT(stage) {
        const auto saved =
            on_ranks(stage, Setup{}.on(ranks, stage.replicas), model, adam, [&](auto& m) {
              (void)train(m, zero::UserCode::on_caller, plan);
              return save(m);
            });
        for (const Saved& rank : saved) {
          BOOST_TEST(rank.step == 4);
          BOOST_TEST(rank.counters[0] == 4);
          BOOST_TEST(all_near(rank.weights, -0.4));
        }
      }
    });
  }
}

// B27: nothing at all changes, and the next step is a first step.
BOOST_AUTO_TEST_CASE(a_step_that_is_skipped_first_leaves_everything_as_it_was) {
  const Model model = model_of({"unit", 2, sizes({4, 3})});
  const auto gradient = [](const Place& p) {
    return p.rank == 1 && p.element == 2 && p.step == 0 ? std::numeric_limits<float>::infinity()
                                                        : 1.0F;
  };
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      const auto saved = on_ranks(stage, Setup{}.on(4, stage.replicas), model, adam, [&](auto& m) {
        (void)train(m, zero::UserCode::on_caller, {.gradient = gradient});
        std::vector<Saved> both{save(m)};
        (void)train(m, zero::UserCode::on_caller, {}, false);
        both.push_back(save(m));
        return both;
      });
      for (const auto& rank : saved) {
        BOOST_TEST(all_are(rank[0].weights, 0));
        BOOST_TEST(all_are(rank[0].m, 0));
        BOOST_TEST(all_are(rank[0].v, 0));
        BOOST_TEST(rank[0].counters[0] == 0);
        BOOST_TEST(rank[0].step == 0);
        BOOST_TEST(all_near(rank[1].weights, -0.1));
        BOOST_TEST(rank[1].counters[0] == 1);
      }
    }
  });
}

// B35
BOOST_AUTO_TEST_CASE(a_tensor_without_gradient_is_not_decayed_and_not_counted) {
  const Model model = model_of({"unit", 2, sizes({3, 2})});
  const zero::AdamW decaying{.learning_rate = 0.1F, .weight_decay = 0.1F};
  const Plan plan{.steps = 10,
                  .initial = [](const auto&, auto) { return 1.0F; },
                  .touches = [](const Place& p) { return p.unit == 0 && p.tensor == 0; }};
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      const auto saved =
          on_ranks(stage, Setup{}.on(2, stage.replicas), model, decaying, [&](auto& m) {
            (void)train(m, zero::UserCode::on_caller, plan);
            return save(m);
          });
      for (const Saved& rank : saved) {
        BOOST_TEST(rank.weights[0] < 0.1F);
        BOOST_TEST(all_are({rank.weights.begin() + 3, rank.weights.end()}, 1));
        BOOST_TEST(all_are({rank.v.begin() + 3, rank.v.end()}, 0));
        BOOST_TEST(rank.counters[0] == 10);
        BOOST_TEST(rank.counters[1] == 0);
        BOOST_TEST(rank.counters[4] == 0);
      }
    }
  });
}

// B35: decay belongs to tensors, whatever shard border cuts through them; a zero gradient decays.
BOOST_AUTO_TEST_CASE(decay_spares_the_tensors_that_ask_for_it) {
  const Model model = model_of({"unit", 1, sizes({5, 6, 7}).no_decay({1})});
  const zero::AdamW decaying{.learning_rate = 0.5F, .weight_decay = 1};
  const Plan plan{.steps = 2,
                  .gradient = [](const Place&) { return 0.0F; },
                  .initial = [](const auto&, auto) { return 16.0F; }};
  for (const std::size_t ranks : {1, 3, 4}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks) {
        for (const Outcome& rank :
             train(stage, Setup{}.on(ranks, stage.replicas), model, decaying, plan)) {
          for (std::size_t i = 0; i < 18; ++i) {
            BOOST_TEST(rank.weights[i] == (i >= 5 && i < 11 ? 16.0F : 4.0F));
          }
        }
      }
    });
  }
}

// B43 B48
BOOST_AUTO_TEST_CASE(what_is_saved_on_four_ranks_loads_on_any_number) {
  const Model small = model_of({"unit", 1, sizes({6, 1, 3})});
  const Model odd = model_of({"unit", 1, sizes({1, 7, 5, 44})}, {"empty", 1, {}});
  for (const Model* model : {&small, &odd}) {
    const std::size_t elements = model == &small ? 10 : 57;
    Saved saved;
    for (std::size_t i = 0; i < elements; ++i) {
      saved.weights.push_back(static_cast<float>(i));
      saved.m.push_back(static_cast<float>(i + 100));
      saved.v.push_back(static_cast<float>(i + 200));
    }
    saved.counters.assign(model == &small ? 4 : 8, 3);
    saved.step = 5;
    for (const std::size_t ranks : {4, 1, 3, 4, 8, 2}) {
      for_each_stage(ranks, [&](const NamedStage& stage) {
        BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks") {
          for (const Saved& rank :
               load_and_save(stage, Setup{}.on(ranks, stage.replicas), *model, saved)) {
            BOOST_TEST(same(rank, saved));
            saved = rank;  // goes on from stage to stage
          }
        }
      });
    }
  }
}

// B43
BOOST_AUTO_TEST_CASE(a_rank_without_elements_reports_none) {
  const Model model = model_of({"unit", 1, sizes({6, 0, 3})});
  const auto owned = on_ranks<zero::Zero3>(Setup{}.on(8), model, adam, [](auto& module) {
    return std::array{module.owned("unit.a"), module.owned("unit.b"), module.owned("unit.c")};
  });
  std::array<std::size_t, 3> sum{};
  for (const auto& rank : owned) {
    for (std::size_t t = 0; t < 3; ++t) sum[t] += rank[t];
  }
  BOOST_TEST((sum == std::array<std::size_t, 3>{6, 0, 3}));
  BOOST_TEST((owned[7] == std::array<std::size_t, 3>{0, 0, 0}));
}

// B111 without files
BOOST_AUTO_TEST_CASE(a_run_that_is_resumed_is_the_same_run) {
  const Model model = model_of({"unit", 3, sizes({5, 3}).no_decay({1})});
  const zero::AdamW scheduled{
      .learning_rate = [](std::int64_t step) { return 0.1F / static_cast<float>(step + 1); },
      .weight_decay = 0.1F};
  const auto plan = [](std::size_t steps, std::size_t first) {
    return Plan{.steps = steps,
                .micro_steps = 2,
                .gradient =
                    [first](Place p) {
                      p.step += first;
                      return some_gradient(p);
                    },
                .finish = {.max_norm = 3}};
  };
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      const Setup setup = Setup{}.on(4, stage.replicas);
      const auto run = [&](const Plan& part, const Saved* from) {
        return on_ranks(stage, setup, model, scheduled, [&](auto& module) {
          if (from != nullptr) load(module, *from);
          (void)train(module, zero::UserCode::on_caller, part, from == nullptr);
          return save(module);
        });
      };
      const Saved whole = run(plan(10, 0), nullptr)[0];
      const Saved half = run(plan(5, 0), nullptr)[0];
      for (const Saved& rank : run(plan(5, 5), &half)) BOOST_TEST(same(rank, whole));
    }
  });
}

// B39
BOOST_AUTO_TEST_CASE(the_schedule_position_advances_once_per_applied_step) {
  const Model model = model_of({"unit", 1, sizes({4})});
  const zero::AdamW scheduled{
      .learning_rate = [](std::int64_t step) { return 0.125F * static_cast<float>(step + 1); },
      .beta1 = 0,
      .beta2 = 0,
      .weight_decay = 0};
  // Without moments each step moves by its rate.
  const Plan plan{.steps = 6, .micro_steps = 3, .gradient = [](const Place& p) {
                    return p.step == 3 ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
                  }};
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const Outcome& rank :
           train(stage, Setup{}.on(4, stage.replicas), model, scheduled, plan)) {
        BOOST_TEST(all_near(rank.weights, -0.125 * 15));
      }
    }
  });
}

// B62
BOOST_AUTO_TEST_CASE(all_elements_of_matrices_move) {
  const Model model = model_of({"unit", 1, shapes({{2, 3}, {1, 9}, {9, 1}, {2, 2, 2, 3}})});
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const Outcome& rank : train(stage, Setup{}.on(2, stage.replicas), model, adam, {})) {
        BOOST_TEST(rank.weights.size() == 48U);
        BOOST_TEST(all_near(rank.weights, -0.1));
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
