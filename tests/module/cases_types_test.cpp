// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tensors of one unit keep their own types.
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_types_test)

using namespace harness;
using zero::bf16;
using zero::Tensor;

struct Options {
  zero::TensorOption frozen = zero::TensorOption::none;
};

/// Tensors of the module's type, and two that are fp32 in every module.
template <class T>
struct Mixed {
  Tensor<T> scale, weight;
  Tensor<float> norm, offset;
  static constexpr auto tensors(const Options& x) {
    return zero::tensors(zero::tensor("scale", &Mixed::scale, {1}),
                         zero::tensor("norm", &Mixed::norm, {5}, zero::no_decay),
                         zero::tensor("weight", &Mixed::weight, {7}, x.frozen),
                         zero::tensor("offset", &Mixed::offset, {3}, x.frozen));
  }
};
inline auto mixed_model(std::size_t units, Options options = {}) {
  return zero::model(zero::units<Mixed>("unit", units, options));
}
using MixedModel = decltype(mixed_model(1));

struct Seen {
  std::vector<float> norms, weights;  // as forward saw them
  std::vector<float> after, states;
  bool held_as_predicted = false;
};

/// Trains `steps` steps; gradients are gradient(rank, step, element).
template <class Module, class Gradient>
Seen train(Module& module, zero::UserCode where, std::size_t steps, float initial,
           Gradient gradient) {
  Seen seen;
  module.initialize(
      [&](const auto&, std::size_t i) { return initial + static_cast<float>(i % 2); });
  for (std::size_t k = 0; k < steps; ++k) {
    auto step = module.begin_step();
    for (auto unit : step.forward()) {
      const auto w = unit.template weights<Mixed>();
      static_assert(std::is_same_v<std::decay_t<decltype(w.norm[0])>, float>);
      compute(where, unit, [w, &seen] {
        seen.norms.insert(seen.norms.end(), w.norm.begin(), w.norm.end());
        for (const auto x : w.weight) seen.weights.push_back(zero::to_float(x));
      });
    }
    for (auto unit : step.backward()) {
      const auto g = unit.template gradients<Mixed>();
      compute(where, unit, [g, &gradient, rank = module.mesh().world.rank(), k] {
        std::size_t i = 0;
        for (const auto& tensor : {g.scale, g.norm, g.weight, g.offset}) {
          for (float& x : tensor) x += gradient(rank, k, i++);
        }
      });
    }
    if (!step.finish().applied) return {};
  }
  module.synchronize();
  seen.after = weights_of(module);
  seen.states = state_of(module, 0);
  seen.held_as_predicted = module.bytes_held() == module.predicted_bytes_held();
  return seen;
}

// B59
BOOST_AUTO_TEST_CASE(a_tensor_of_floats_keeps_its_bits_in_a_module_of_bf16) {
  const zero::Sgd sgd{.learning_rate = 1};
  constexpr float start = 1 + 0x1p-20F;  // no bf16
  for (const std::size_t ranks : {3, 6}) {
    for (const NamedStage& stage : stages(ranks)) {
      for (const Mode& mode : tried_modes()) {
        BOOST_TEST_CONTEXT(stage.name << ", " << mode.name) {
          const auto all = on_ranks<bf16>(
              stage, Setup{}.in(mode).on(ranks), mixed_model(3), sgd,
              [&](auto& module) {
                return train(module, mode.user_code, 1, start,
                             [](std::size_t rank, auto, auto) { return float(rank % 3) + 1; });
              },
              zero::precision_of<bf16>);
          for (const Seen& seen : all) {
            for (std::size_t i = 0; i < 15; ++i) {
              BOOST_TEST(seen.norms.at(i) == start + float(i % 5 % 2));
            }
            BOOST_TEST(seen.weights.at(0) == 1);  // rounded
            BOOST_TEST(seen.after.at(0) == start - 2);
            for (std::size_t i = 1; i < 6; ++i) {
              BOOST_TEST(seen.after.at(i) == start + float((i - 1) % 2) - 2);
            }
            BOOST_TEST(seen.held_as_predicted);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(units_of_several_types_train_the_same_bits_in_all_stages) {
  const zero::AdamW adam{.learning_rate = 0.1F};
  const auto gradient = [](std::size_t rank, std::size_t k, std::size_t i) {
    return 0.3F * static_cast<float>((rank + 1) * (k + 2)) - 0.11F * static_cast<float>(i);
  };
  for (const Options options : {Options{}, Options{zero::frozen}}) {
    std::vector<float> expected;
    for (const NamedStage& stage : stages(3)) {
      for (const Mode& mode : {modes()[0], modes()[5]}) {
        BOOST_TEST_CONTEXT(stage.name << ", " << mode.name) {
          const auto all = on_ranks<bf16>(
              stage, Setup{}.in(mode).on(3), mixed_model(4, options), adam,
              [&](auto& module) { return train(module, mode.user_code, 4, 1.001F, gradient); },
              zero::precision_of<bf16>);
          for (const Seen& seen : all) {
            std::vector<float> bits = seen.after;
            bits.insert(bits.end(), seen.states.begin(), seen.states.end());
            if (expected.empty()) expected = bits;
            BOOST_TEST(bits.size() > 24U);
            BOOST_TEST(same_bits(bits, expected));
            BOOST_TEST(seen.held_as_predicted);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(weights_and_state_of_every_type_are_read_and_written_by_name) {
  const zero::AdamW adam{};
  for (const NamedStage& stage : stages(4)) {
    const auto all = on_ranks<bf16>(
        stage, Setup{}.on(4), mixed_model(2, {zero::frozen}), adam,
        [](auto& module) {
          const std::vector<float> three(3, 1 + 0x1p-20F), seven(7, 1 + 0x1p-20F),
              five(5, 0x1p-30F);
          module.write_weights("unit.1.offset", three);  // frozen, fp32: no master, no rounding
          module.write_weights("unit.1.weight", seven);  // frozen, bf16: rounded to nearest
          module.write_state("unit.1.norm", 1, five);
          std::vector<float> a(3), b(7), c(5);
          module.read_weights("unit.1.offset", a);
          module.read_weights("unit.1.weight", b);
          module.read_state("unit.1.norm", 1, c);
          return same_bits(a, three) && all_are(b, 1) && same_bits(c, five) ? 1 : 0;
        },
        zero::precision_of<bf16>);
    for (const int ok : all) BOOST_TEST(ok == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_tensor_of_floats_can_be_left_without_a_gradient) {
  const zero::Sgd sgd{.learning_rate = 1};
  for (const NamedStage& stage : stages(2)) {
    const auto all = on_ranks<bf16>(
        stage, Setup{}.on(2), mixed_model(1), sgd,
        [](auto& module) {
          auto step = module.begin_step();
          for (auto unit : step.forward()) (void)unit;
          for (auto unit : step.backward()) {
            const auto g = unit.template gradients<Mixed>();
            for (float& x : g.scale) x = 1;
            for (float& x : g.norm) x = 1;
            unit.no_gradient(&Mixed<float>::norm);
          }
          (void)step.finish();
          module.synchronize();
          return std::pair(module.counter("unit.0.norm"), module.counter("unit.0.scale"));
        },
        zero::precision_of<bf16>);
    for (const auto& [norm, scale] : all) BOOST_TEST((norm == 0 && scale == 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
