// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>
#include <zero/comm/run_threads.hpp>
#include <zero/comm/self_communicator.hpp>
#include <zero/module/sharded_tensor.hpp>

#include "../contract.hpp"

BOOST_AUTO_TEST_SUITE(sharded_tensor_test)

using zero::Accumulate;
using zero::Reduction;
using zero::Shape;
using zero::ShardedTensor;
using zero::ThreadCommunicator;

const std::vector<Shape> shapes{{}, {0}, {1}, {2}, {3}, {1, 7, 5}, {4, 4}, {57}, {1000, 3}};
const std::vector<std::size_t> worlds{1, 2, 3, 4, 5, 8};

template <class T>
T number(std::size_t i) {
  if constexpr (std::is_same_v<T, zero::bf16>) {
    return T(static_cast<float>(i % 64));
  } else {
    return static_cast<T>(i);
  }
}
template <class T>
std::vector<T> count_up(std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = number<T>(i);
  return values;
}

using Types = std::tuple<float, double, zero::bf16, std::uint64_t>;

/// Runs f(tensor) on all ranks; whether it returned true on all.
template <class T, class F>
bool on_all_ranks(std::size_t world, const Shape& shape, F f) {
  std::vector<char> good(world, false);
  zero::run_threads(world, [&](ThreadCommunicator& comm) {
    ShardedTensor<T, ThreadCommunicator> tensor(comm, shape);
    good[comm.rank()] = f(tensor, comm);
  });
  return std::count(good.begin(), good.end(), true) == static_cast<std::ptrdiff_t>(world);
}
template <class F>
void for_each_size(F f) {
  for (const std::size_t world : worlds) {
    for (const Shape& shape : shapes) {
      BOOST_TEST_CONTEXT(world << " ranks, " << shape.elements() << " elements") {
        f(world, shape);
      }
    }
  }
}

using contract::error_of;

BOOST_AUTO_TEST_CASE(shards_are_equal_but_for_the_end_and_together_are_the_tensor) {
  for_each_size([](std::size_t world, const Shape& shape) {
    std::vector<std::size_t> begins(world), sizes(world);
    zero::run_threads(world, [&](ThreadCommunicator& comm) {
      const ShardedTensor<float, ThreadCommunicator> tensor(comm, shape);
      begins[comm.rank()] = tensor.begin();
      sizes[comm.rank()] = tensor.shard().size();
    });
    std::size_t end = 0;
    for (std::size_t r = 0; r < world; ++r) {
      BOOST_TEST(begins[r] == end);
      BOOST_TEST((r == 0 || sizes[r] <= sizes[r - 1]));
      end += sizes[r];
    }
    BOOST_TEST(end == shape.elements());
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_assigned_is_gathered, T, Types) {
  for_each_size([](std::size_t world, const Shape& shape) {
    const std::vector<T> values = count_up<T>(shape.elements());
    BOOST_TEST((on_all_ranks<T>(world, shape, [&](auto& tensor, const ThreadCommunicator&) {
      std::vector<T> whole(tensor.padded() + 1, number<T>(9));
      const auto before = tensor.all_gather(whole);
      for (const T& value : before) {
        if (value != T{}) return false;
      }
      tensor.assign(values);
      const auto view = tensor.all_gather(whole);
      return view.data() == whole.data() && view.shape() == shape &&
             std::equal(values.begin(), values.end(), whole.begin()) &&
             whole.back() == number<T>(9);
    })));
  });
}

BOOST_AUTO_TEST_CASE(reduce_scatter_sums_averages_and_accumulates) {
  for_each_size([](std::size_t world, const Shape& shape) {
    const auto ranks = static_cast<float>(world);
    BOOST_TEST(
        (on_all_ranks<float>(world, shape, [&](auto& tensor, const ThreadCommunicator& comm) {
          std::vector<float> whole(tensor.padded(), std::numeric_limits<float>::quiet_NaN());
          for (std::size_t i = 0; i < tensor.size(); ++i)
            whole[i] = static_cast<float>(i + comm.rank());
          const float ranks_sum = ranks * (ranks - 1) / 2;
          const auto all = [&](float times, float plus) {
            for (std::size_t i = 0; i < tensor.shard().size(); ++i) {
              const auto element = static_cast<float>(tensor.begin() + i);
              if (tensor.shard()[i] != times * (ranks * element + ranks_sum) + plus * element)
                return false;
            }
            return true;
          };
          tensor.reduce_scatter(whole);
          bool good = all(1, 0);
          tensor.reduce_scatter(whole, Reduction::sum, Accumulate::yes);
          good = good && all(2, 0);
          for (std::size_t i = 0; i < tensor.size(); ++i) whole[i] = static_cast<float>(i);
          tensor.reduce_scatter(whole, Reduction::average);
          return good && all(0, 1);
        })));
  });
}

BOOST_AUTO_TEST_CASE(the_shard_can_be_changed_in_place) {
  BOOST_TEST((on_all_ranks<float>(3, {10}, [](auto& tensor, const ThreadCommunicator& comm) {
    for (float& value : tensor.shard()) value = static_cast<float>(comm.rank());
    std::vector<float> whole(tensor.padded());
    const auto view = tensor.all_gather(whole);
    return view[0] == 0 && view[4] == 1 && view[9] == 2;
  })));
}

BOOST_AUTO_TEST_CASE(a_buffer_of_the_wrong_size_is_refused_with_both_sizes) {
  zero::SelfCommunicator comm;
  ShardedTensor<float, zero::SelfCommunicator> tensor(comm, {5});
  std::vector<float> buffer(7);
  const std::string gather = error_of([&] { tensor.all_gather(buffer); });
  BOOST_TEST(gather.find("all_gather: the buffer must hold 8 elements (padded()), but has 7") !=
                 std::string::npos,
             gather);
  const std::string reduce = error_of([&] { tensor.reduce_scatter(buffer); });
  BOOST_TEST(reduce.find("reduce_scatter: the buffer must hold 8") != std::string::npos, reduce);
  const std::string assign = error_of([&] { tensor.assign(buffer); });
  BOOST_TEST(assign.find("expected 5 elements, got 7") != std::string::npos, assign);
}

BOOST_AUTO_TEST_SUITE_END()
