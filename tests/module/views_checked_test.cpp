#define ZERO_CHECK_LEVEL 2
// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// At check level 2 a view knows its scope. The other files of this program have level 1.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <zero/zero.hpp>

#include "../contract.hpp"

BOOST_AUTO_TEST_SUITE(views_checked_test)

template <class T>
struct Layer {
  zero::Tensor<T> weight, bias;
  static constexpr auto tensors(int n) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {n}),
                         zero::tensor("bias", &Layer::bias, {2}));
  }
};
/// A kind of level 1, as a library that was compiled apart would have.
template <class T>
struct Plain {
  zero::BasicTensor<T, 1> weight;
  static constexpr auto tensors(int n) {
    return zero::tensors(zero::tensor("weight", &Plain::weight, {n}));
  }
};
static_assert(zero::Tensor<float>::check_level == 2);
static_assert(sizeof(zero::BasicTensor<float, 0>) == sizeof(zero::BasicTensor<float, 1>));
static_assert(sizeof(zero::BasicTensor<float, 1>) < sizeof(zero::Tensor<float>));

const zero::Sgd sgd{.learning_rate = 1};
auto layers() { return zero::model(zero::units<Layer>("layer", 3, 5)); }

using contract::error_of;
bool stale(const std::string& text, const char* unit) {
  return text.find(std::string("a view of unit '") + unit + "' was used after the scope") !=
         std::string::npos;
}

// B86
BOOST_AUTO_TEST_CASE(a_view_that_is_used_after_its_scope_names_the_unit) {
  zero::SelfCommunicator comm;
  auto module = zero::shard<zero::Zero3>(layers(), comm, sgd);
  auto step = module.begin_step();
  zero::Tensor<float> kept, last;
  BOOST_TEST(kept.data() == nullptr);  // of no unit
  for (auto unit : step.forward()) {
    const auto weights = unit.weights<Layer>();
    weights.weight[4] = 1;
    if (unit.index() == 1) kept = weights.weight;
  }
  const zero::Tensor<const float> reader = kept;
  for (const auto& text :
       {error_of([&] { (void)kept[0]; }), error_of([&] { (void)kept.data(); }),
        error_of([&] { (void)kept.begin(); }), error_of([&] { (void)kept.end(); }),
        error_of([&] { (void)kept.span(); }), error_of([&] { (void)reader[0]; }), error_of([&] {
          for (float& x : kept) x = 0;
        })}) {
    BOOST_TEST(stale(text, "layer.1"), text);
  }
  BOOST_TEST(kept.size() == 5U);
  for (auto unit : step.backward()) {
    // Not even in another scope of the same unit.
    if (unit.index() == 1) BOOST_TEST(stale(error_of([&] { (void)kept[0]; }), "layer.1"));
    const auto g = unit.gradients<Layer>();
    for (float& x : g.weight) x += 1;
    const std::string text = error_of([&] { (void)g.bias[2]; });
    BOOST_TEST(text.find("element 2 of a view of 2 elements") != std::string::npos, text);
    last = g.weight;
    unit.no_gradient(&Layer<float>::bias);
  }
  BOOST_TEST(stale(error_of([&] { last[0] += 1; }), "layer.0"));
  BOOST_TEST(step.finish().applied);
  std::vector<float> whole(5);
  module.read_weights("layer.1.weight", whole);
  BOOST_TEST(whole[0] == -1.0F);
}

BOOST_AUTO_TEST_CASE(a_view_is_stale_after_an_exception_and_after_an_evaluation) {
  zero::SelfCommunicator comm;
  auto module = zero::shard<zero::Zero2>(layers(), comm, sgd);
  zero::Tensor<float> kept;
  try {
    auto step = module.begin_step();
    auto unit = step.forward(0);
    kept = unit.weights<Layer>().weight;
    throw std::runtime_error("of the user");
  } catch (const std::runtime_error&) {}
  BOOST_TEST(stale(error_of([&] { (void)kept[0]; }), "layer.0"));
  {
    auto pass = module.evaluate();
    for (auto unit : pass.forward()) kept = unit.weights<Layer>().weight;
  }
  BOOST_TEST(stale(error_of([&] { (void)kept[0]; }), "layer.2"));
}

// What is enqueued within a scope runs after the host has left it, and may use its views.
BOOST_AUTO_TEST_CASE(code_on_a_stream_uses_the_views_of_its_scope_after_the_host_left_it) {
  for (const zero::StreamMode mode :
       {zero::StreamMode::inline_run, zero::StreamMode::asynchronous, zero::StreamMode::shuffled}) {
    std::vector<std::string> late(2);
    std::vector<float> ends(2);
    zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
      auto module = zero::shard<zero::Zero3>(
          layers(), comm, sgd, {.streams = mode, .user_code = zero::UserCode::on_stream});
      std::string& said = late[comm.rank()];
      auto step = module.begin_step();
      zero::Tensor<float> kept;
      for (auto unit : step.forward()) {
        kept = unit.weights<Layer>().weight;
        unit.stream().enqueue([view = kept, &said] {
          const std::string text = error_of([&] { (void)view[0]; });
          if (text != "no error") said += text;
        });
      }
      for (auto unit : step.backward()) {
        unit.stream().enqueue([to = unit.gradients<Layer>().weight, kept, &said] {
          for (float& x : to) x += 1;
          if (!stale(error_of([&] { (void)kept[0]; }), "layer.2")) said += "not stale";
        });
      }
      (void)step.finish();
      std::vector<float> whole(5);
      module.read_weights("layer.0.weight", whole);
      ends[comm.rank()] = whole[4];
    });
    for (std::size_t r = 0; r < 2; ++r) {
      BOOST_TEST(late[r] == "");
      BOOST_TEST(ends[r] == -1.0F);
    }
  }
}

BOOST_AUTO_TEST_CASE(released_weights_are_nan_without_being_asked_for) {
  zero::SelfCommunicator comm;
  auto module = zero::shard<zero::Zero3>(layers(), comm, sgd);
  const float* weight = nullptr;
  {
    auto pass = module.evaluate();
    for (auto unit : pass.forward()) {
      weight = unit.weights<Layer>().weight.data();
      BOOST_TEST(*weight == 0.0F);
    }
  }
  BOOST_TEST(std::isnan(*weight));
}

BOOST_AUTO_TEST_CASE(kinds_of_level_1_are_as_they_are) {
  zero::SelfCommunicator comm;
  auto module = zero::shard<zero::Zero3>(zero::model(zero::units<Plain>("plain", 2, 5)), comm, sgd);
  static_assert(decltype(module)::check_level == 1);
  auto pass = module.evaluate();
  zero::BasicTensor<float, 1> kept;
  for (auto unit : pass.forward()) kept = unit.weights<Plain>().weight;
  BOOST_TEST(kept[0] == 0.0F);
  const zero::Tensor<float> converted = kept;
  BOOST_TEST(converted[4] == 0.0F);
}

BOOST_AUTO_TEST_SUITE_END()
