// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the planner says of a transformer is, to the byte, what a module of such units holds and
// sends.
#include <boost/test/unit_test.hpp>
#include <zero/plan/memory.hpp>
#include <zero/zero.hpp>

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

using Narrow = zero::WithPrecision<zero::Precision{.compute = zero::DataType::bf16,
                                                   .reduce = zero::DataType::bf16,
                                                   .moments = zero::DataType::bf16}>;
constexpr bool as_the_literature(const zero::plan::Accounting& module,
                                 const zero::plan::Accounting& named) {
  return module.weight == named.weight && module.gradient == named.gradient &&
         module.optimizer == named.optimizer && module.whole_weight == named.whole_weight &&
         module.whole_gradient == named.whole_gradient && module.gathered == named.gathered &&
         module.reduced == named.reduced;
}
static_assert(as_the_literature(zero::plan::accounting_of(zero::precision_of<zero::bf16>),
                                zero::plan::fp32_gradients_18));
static_assert(as_the_literature(zero::plan::accounting_of(zero::precision_of<float>),
                                zero::plan::fp32_16));

template <class StageType, class T>
void check(MeshShape mesh) {
  constexpr std::size_t micro_steps = 2;
  zero::BytesHeld held;
  zero::BytesSent sent;
  std::size_t elements = 0;
  zero::run_threads(mesh.devices(), [&](zero::ThreadCommunicator& comm) {
    auto module =
        zero::shard<StageType, T>(zero::model(zero::unit<Embedding>("embedding", dims),
                                              zero::units<Block>("block", dims.layers, dims),
                                              zero::unit<Head>("head", dims).reads("embedding")),
                                  zero::mesh(comm, mesh.replicas), zero::AdamW{},
                                  zero::ModuleOptions{.max_micro_steps = micro_steps});
    if (comm.rank() == 0) {
      held = module.bytes_held();
      sent = module.predicted_bytes_sent(micro_steps);
      elements = module.parameters().elements();
    }
    comm.barrier();
  });
  const zero::plan::ModelDescription description("the same", dims);
  constexpr zero::plan::Accounting bytes = zero::plan::accounting_of(zero::precision_of<T>);
  BOOST_TEST(description.parameters() == elements);
  const zero::plan::Held planned =
      zero::plan::held_by_rank<StageType>(description, mesh, bytes, micro_steps);
  BOOST_TEST(planned.weights == held.weights);
  BOOST_TEST(planned.gradients == held.gradients);
  BOOST_TEST(planned.optimizer == held.optimizer);
  BOOST_TEST(planned.slots == held.slots);

  const zero::plan::Sent to_send =
      zero::plan::sent_by_rank<StageType>(description, mesh, bytes, micro_steps);
  BOOST_TEST(to_send.gather + to_send.gather_replicas == sent.all_gather);
  BOOST_TEST(to_send.reduce_scatter + to_send.reduce_scatter_replicas == sent.reduce_scatter);
  // Beside gradients a module reduces its norm and its agreement: a few bytes for each tensor.
  const std::size_t reduced = to_send.all_reduce + to_send.all_reduce_replicas;
  BOOST_TEST(sent.all_reduce >= reduced);
  BOOST_TEST(sent.all_reduce <= reduced + 16'000);
}
template <class T>
void check_stages() {
  for (const std::size_t ranks : {1U, 3U}) {
    check<zero::Ddp, T>({ranks, 1});
    check<zero::Zero1, T>({ranks, 1});
    check<zero::Zero2, T>({ranks, 1});
    check<zero::Zero3, T>({ranks, 1});
  }
  check<zero::Hybrid, T>({2, 2});
  check<zero::Hpz, T>({2, 2});
}

BOOST_AUTO_TEST_CASE(a_module_of_narrow_types_holds_and_sends_what_is_planned) {
  check_stages<Narrow>();
}
BOOST_AUTO_TEST_CASE(a_module_of_fp32_weights_holds_and_sends_what_is_planned) {
  check_stages<float>();
}

BOOST_AUTO_TEST_SUITE_END()
