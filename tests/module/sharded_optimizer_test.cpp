// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>
#include <vector>
#include <zero/comm/run_threads.hpp>
#include <zero/module/sharded_optimizer.hpp>
#include <zero/optim/sgd.hpp>

#include "../contract.hpp"

BOOST_AUTO_TEST_SUITE(sharded_optimizer_test)

using zero::ThreadCommunicator;
using Optimizer = zero::ShardedOptimizer<zero::Sgd, ThreadCommunicator>;

const zero::Sgd sgd{.learning_rate = 0.5F};

/// What f(optimizer, rank) leaves as weights, of each rank; they begin as 0, 1, 2, ...
template <class F>
std::vector<std::vector<float>> weights_after(std::size_t ranks, std::size_t elements, F f) {
  std::vector<std::vector<float>> all(ranks);
  zero::run_threads(ranks, [&](ThreadCommunicator& comm) {
    Optimizer optimizer(comm, sgd, elements);
    for (std::size_t i = 0; i < elements; ++i) optimizer.weights()[i] = float(i);
    f(optimizer, comm.rank());
    all[comm.rank()].assign(optimizer.weights().begin(), optimizer.weights().end());
  });
  return all;
}
/// Adds (rank + 1) * (i + 1) to gradient i: exact numbers.
void add(const Optimizer& optimizer, std::size_t rank) {
  for (std::size_t i = 0; i < optimizer.gradients().size(); ++i) {
    optimizer.gradients()[i] += float((rank + 1) * (i + 1));
  }
}

BOOST_AUTO_TEST_CASE(weights_are_those_of_a_loop_by_hand_on_all_ranks_after_each_step) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
    for (const std::size_t elements : {1U, 5U, 100U}) {
      const auto all = weights_after(ranks, elements, [](Optimizer& optimizer, std::size_t rank) {
        for (int k = 0; k < 3; ++k) {
          optimizer.zero_gradients();
          add(optimizer, rank);
          add(optimizer, rank);  // a second micro-step
          (void)optimizer.step({.divisor = 1});
        }
      });
      std::vector<float> expected(elements);
      for (std::size_t i = 0; i < elements; ++i) {
        const float gradient = float((i + 1) * ranks * (ranks + 1));  // twice the sum over ranks
        expected[i] = float(i) - 3 * 0.5F * gradient;
      }
      for (const auto& weights : all) BOOST_TEST(weights == expected);
    }
  }
}
BOOST_AUTO_TEST_CASE(gradients_of_a_step_that_is_begun_anew_do_not_count) {
  const auto all = weights_after(2, 5, [](Optimizer& optimizer, std::size_t rank) {
    optimizer.zero_gradients();
    for (float& g : optimizer.gradients()) g = 1000;
    optimizer.zero_gradients();
    add(optimizer, rank);
    (void)optimizer.step({.divisor = 1});
    optimizer.zero_gradients();  // and is left
  });
  const std::vector<float> expected{-1.5F, -2, -2.5F, -3, -3.5F};
  for (const auto& weights : all) BOOST_TEST(weights == expected);
}
BOOST_AUTO_TEST_CASE(each_rank_keeps_its_part_of_the_state_in_memory_of_the_caller) {
  const std::size_t ranks = 4;
  std::vector<zero::BytesHeld> held(ranks);
  std::vector<char> as_predicted(ranks), inside(ranks);
  const std::size_t bytes = zero::bytes_needed<zero::Zero1>(zero::flat_model(640), ranks, sgd);
  zero::run_threads(ranks, [&](ThreadCommunicator& comm) {
    zero::detail::Block<zero::HostMemory> memory({}, bytes);  // of the caller
    Optimizer optimizer(comm, sgd, 640, {.memory = {memory.data(), bytes}});
    const auto* const w = reinterpret_cast<std::byte*>(optimizer.weights().data());
    inside[comm.rank()] = w >= memory.data() && w < memory.data() + bytes;
    held[comm.rank()] = optimizer.module().bytes_held();
    as_predicted[comm.rank()] = optimizer.module().predicted_bytes_held() == held[comm.rank()];
  });
  for (std::size_t r = 0; r < ranks; ++r) {
    BOOST_TEST(held[r].weights == 640 * 4);
    BOOST_TEST(held[r].gradients == 640 * 4);
    BOOST_TEST(held[r].optimizer == 640 * 4 * zero::Sgd::states / ranks);
    BOOST_TEST(bool(as_predicted[r]));
    BOOST_TEST(bool(inside[r]));
  }
}
BOOST_AUTO_TEST_CASE(step_without_zero_gradients_says_what_to_call) {
  std::string text;
  zero::run_threads(1, [&](ThreadCommunicator& comm) {
    Optimizer optimizer(comm, sgd, 5);
    try {
      (void)optimizer.step();
    } catch (const zero::ContractError& error) { text = error.what(); }
  });
  BOOST_TEST(text.find("call zero_gradients() first") != text.npos);
}
BOOST_AUTO_TEST_CASE(ranks_that_begin_with_different_weights_get_an_error) {
  std::vector<std::string> texts(2);
  zero::run_threads(2, [&](ThreadCommunicator& comm) {
    Optimizer optimizer(comm, sgd, 5);
    optimizer.weights()[3] = float(comm.rank());
    try {
      optimizer.zero_gradients();
    } catch (const zero::ContractError& error) { texts[comm.rank()] = error.what(); }
  });
  for (const std::string& text : texts) BOOST_TEST(text.find("flat.elements") != text.npos);
}

BOOST_AUTO_TEST_CASE(weights_that_are_set_later_are_compared_as_well) {
  std::vector<std::string> texts(2);
  zero::run_threads(2, [&](ThreadCommunicator& comm) {
    Optimizer optimizer(comm, sgd, 5);
    optimizer.zero_gradients();
    (void)optimizer.step();
    optimizer.module().initialize(
        [&](const zero::TensorInfo&, std::size_t) { return float(comm.rank()); });
    try {
      optimizer.zero_gradients();
    } catch (const zero::ContractError& error) { texts[comm.rank()] = error.what(); }
  });
  for (const std::string& text : texts) BOOST_TEST(text.find("flat.elements") != text.npos);
}

BOOST_AUTO_TEST_SUITE_END()
