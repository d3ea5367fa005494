// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the planner says of a transformer is, to the byte, what a module of such units holds and
// sends.
#include <boost/test/unit_test.hpp>
#include <span>
#include <zero/base/element.hpp>
#include <zero/module/accounting.hpp>
#include <zero/module/model.hpp>
#include <zero/plan/memory.hpp>
#include <zero/policy/stages.hpp>

BOOST_AUTO_TEST_SUITE(module_bytes_test)

using zero::plan::MeshShape;
using zero::plan::Transformer;

template <class T>
struct Embedding {
  zero::Tensor<T> table, positions;
  static constexpr auto tensors(const Transformer& t) {
    return zero::tensors(zero::tensor("table", &Embedding::table, {t.vocabulary, t.width}),
                         zero::tensor("positions", &Embedding::positions, {t.context, t.width}));
  }
};
template <class T>
struct Block {
  zero::Tensor<T> norms, qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias;
  static constexpr auto tensors(const Transformer& t) {
    return zero::tensors(zero::tensor("norms", &Block::norms, {4, t.width}),
                         zero::tensor("qkv", &Block::qkv, {3 * t.width, t.width}),
                         zero::tensor("qkv_bias", &Block::qkv_bias, {3 * t.width}),
                         zero::tensor("out", &Block::out, {t.width, t.width}),
                         zero::tensor("out_bias", &Block::out_bias, {t.width}),
                         zero::tensor("up", &Block::up, {t.inner_width(), t.width}),
                         zero::tensor("up_bias", &Block::up_bias, {t.inner_width()}),
                         zero::tensor("down", &Block::down, {t.width, t.inner_width()}),
                         zero::tensor("down_bias", &Block::down_bias, {t.width}));
  }
};
template <class T>
struct Head {
  zero::Tensor<T> norm;
  static constexpr auto tensors(const Transformer& t) {
    return zero::tensors(zero::tensor("norm", &Head::norm, {2, t.width}));
  }
};

constexpr Transformer dims{.layers = 5, .width = 96, .heads = 3, .vocabulary = 1000, .context = 64};

template <class StageType, class T>
void check(MeshShape mesh, std::size_t micro_steps) {
  const auto model = zero::model(zero::unit<Embedding>("embedding", dims),
                                 zero::units<Block>("block", dims.layers, dims),
                                 zero::unit<Head>("head", dims).reads("embedding"));
  const bool parts = StageType::traits.shards_replicas;
  const zero::ParameterTable table(model, mesh.shards, zero::memory_alignment / sizeof(T),
                                   parts ? mesh.replicas : 1);
  const zero::plan::ModelDescription description("the same", dims);
  const auto& bytes = sizeof(T) == 2 ? zero::plan::fp32_gradients_18 : zero::plan::fp32_16;
  BOOST_TEST(description.parameters() == table.elements());

  const zero::Schedule schedule = zero::make_schedule<StageType>(
      table.shape(), zero::training(table.shape().units(), micro_steps));
  const zero::BytesHeld held = zero::predict_bytes_held<T>(
      table, 2, mesh.devices(), std::span<const zero::Schedule>(&schedule, 1));
  const zero::plan::Held planned =
      zero::plan::held_by_rank<StageType>(description, mesh, bytes, micro_steps);
  BOOST_TEST(planned.weights == held.weights);
  BOOST_TEST(planned.gradients == held.gradients);
  BOOST_TEST(planned.optimizer == held.optimizer);
  BOOST_TEST(planned.slots == held.slots);
  BOOST_TEST(planned.total() == held.total() - held.control);

  const zero::BytesSent sent =
      zero::predict_bytes_sent<T>(table, schedule, mesh.shards, mesh.replicas, 0);
  const zero::plan::Sent to_send =
      zero::plan::sent_by_rank<StageType>(description, mesh, bytes, micro_steps);
  BOOST_TEST(to_send.gather + to_send.gather_replicas == sent.all_gather);
  BOOST_TEST(to_send.reduce_scatter + to_send.reduce_scatter_replicas == sent.reduce_scatter);
  // Beside gradients a module reduces its norm and its agreement.
  const std::size_t n = mesh.devices(), control = zero::Control::block_size(
                                            table.units().size(), table.tensors().size(), n);
  BOOST_TEST(to_send.all_reduce + to_send.all_reduce_replicas +
                 2 * (control / n) * (n - 1) * sizeof(double) ==
             sent.all_reduce);
}
template <class T>
void check_stages() {
  for (const std::size_t micro_steps : {1U, 2U}) {
    for (const std::size_t ranks : {1U, 4U, 7U}) {
      check<zero::Ddp, T>({ranks, 1}, micro_steps);
      check<zero::Zero1, T>({ranks, 1}, micro_steps);
      check<zero::Zero2, T>({ranks, 1}, micro_steps);
      check<zero::Zero3, T>({ranks, 1}, micro_steps);
    }
    check<zero::Hybrid, T>({4, 2}, micro_steps);
    check<zero::Hpz, T>({4, 2}, micro_steps);
  }
}

BOOST_AUTO_TEST_CASE(a_module_of_bf16_weights_holds_and_sends_what_is_planned) {
  check_stages<zero::bf16>();
}
BOOST_AUTO_TEST_CASE(a_module_of_fp32_weights_holds_and_sends_what_is_planned) {
  check_stages<float>();
}

BOOST_AUTO_TEST_SUITE_END()
