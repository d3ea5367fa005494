// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cuda/group.hpp>
#include <cuda/on_device.hpp>
#include <tuple>
#include <vector>
#include <zero/optim/adamw.hpp>
#include <zero/optim/ema.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/optim/update.cuh>

BOOST_AUTO_TEST_SUITE(update_test)

using on_device::Copy;
using on_device::Part;
using on_device::Typed;
using zero::DataType;
constexpr DataType fp32 = DataType::fp32, bf16 = DataType::bf16, fp16 = DataType::fp16;

struct Types {
  DataType gradient = fp32, master = fp32, states = fp32, compute = bf16, gather = bf16;
};

/// One update of a part of a group, on the host and on the device.
template <class O>
struct Case {
  Part part;
  Types types;
  float divisor = 3, clip = 0.7F;
  bool applied = true, refreshes = true;
  std::vector<std::size_t> shifts = {0};  // of the arrays, one after the other

  O optimizer = {};
  static constexpr std::size_t states = O::states;

  /// Gradient, master, compute, states.
  std::vector<Typed> arrays() const {
    std::vector<DataType> wanted(3 + states, types.states);
    wanted[0] = types.gradient, wanted[1] = types.master, wanted[2] = types.compute;
    std::vector<Typed> made;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      made.emplace_back(wanted[k], part.count);
      made.back().set(part, [&](std::uint64_t i) {
        const float value = on_device::some(i, static_cast<std::uint32_t>(k));
        return k < 3 ? value : std::fabs(value);
      });
    }
    return made;
  }
  /// Tensor 1 has no gradient.
  static std::vector<std::uint8_t> present() { return {1, 0, 1, 1, 1, 1, 1}; }
  std::vector<typename O::Coefficients> coefficients() const {
    std::vector<typename O::Coefficients> made;
    for (std::int64_t t = 0; t < 7; ++t) made.push_back(optimizer.coefficients(t + 1, t, t != 2));
    return made;
  }
  static std::vector<std::uint64_t> keys() {
    std::vector<std::uint64_t> made;
    for (std::uint64_t t = 0; t < 7; ++t) made.push_back(zero::RandomBits{}.with(t).key());
    return made;
  }

  void on_host(std::vector<Typed>& all) const {
    if (!applied) return;
    part.for_each_piece([&](const zero::TensorRange& range, std::uint64_t first, std::uint64_t n) {
      if (present()[range.tensor] == 0) return;
      std::vector<zero::Array> own;
      for (Typed& array : all) own.push_back(array.host().part(first, n));
      zero::update<O>(coefficients()[range.tensor], divisor, clip,
                      {.gradient = own[0],
                       .master = own[1],
                       .compute = refreshes ? own[2] : zero::Array(),
                       .states = own.data() + 3,
                       .gather = types.gather,
                       .random = zero::RandomBits::of_key(keys()[range.tensor]),
                       .begin = part.begin + first - range.offset});
    });
  }
  /// The bytes of all arrays after the update.
  std::vector<std::vector<std::byte>> on_device(const std::vector<Typed>& all) const {
    std::vector<Copy<std::byte>> copies;
    copies.reserve(all.size());
    zero::GroupUpdate<O> u;
    std::vector<zero::Array*> into = {&u.gradient, &u.master, &u.compute};
    for (std::size_t k = 0; k < states; ++k) into.push_back(&u.states[k]);
    for (std::size_t k = 0; k < all.size(); ++k) {
      copies.emplace_back(all[k].bytes(), shifts[k % shifts.size()] * zero::size_of(all[k].type()));
      *into[k] = all[k].device(copies.back());
    }
    if (!refreshes) u.compute = {};
    const Copy<zero::TensorRange> ranges(Part::ranges());
    const Copy<std::uint8_t> is_present(present());
    const Copy<typename O::Coefficients> c(coefficients());
    const Copy<std::uint64_t> random(keys());
    const Copy<zero::UpdateDecision> decision({{applied, divisor, clip}});
    u.gather = types.gather;
    u.begin = part.begin;
    u.ranges = ranges.data();
    u.range_count = static_cast<std::uint32_t>(Part::ranges().size());
    u.decision = decision.data();
    u.present = is_present.data();
    u.coefficients = c.data();
    u.random_keys = random.data();
    zero::update_group<O>(nullptr, u);
    std::vector<std::vector<std::byte>> made;
    for (const Copy<std::byte>& copy : copies) made.push_back(copy.get());
    return made;
  }
  /// Whether both give the same bits everywhere, also where nothing was to change.
  bool agrees() const {
    std::vector<Typed> all = arrays();
    const auto found = on_device(all);
    on_host(all);
    bool same = true;
    for (std::size_t k = 0; k < all.size(); ++k) same = same && found[k] == all[k].bytes();
    return same;
  }
};

using Optimizers = std::tuple<zero::AdamW, zero::Sgd, zero::Lion, zero::Ema<zero::Sgd>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(every_part_of_a_group_gets_the_bits_of_the_host, O, Optimizers) {
  for (const Part& part : on_device::parts) {
    BOOST_TEST_CONTEXT("part " << part.begin << " + " << part.count) {
      BOOST_TEST(Case<O>{.part = part}.agrees());
    }
  }
}

BOOST_AUTO_TEST_CASE(arrays_of_all_types_get_the_bits_of_the_host) {
  for (const DataType gradient : {fp32, bf16, fp16}) {
    for (const DataType master : {fp32, bf16}) {
      for (const DataType states : {fp32, bf16}) {
        for (const auto& [compute, gather] : std::vector<std::pair<DataType, DataType>>{
                 {fp32, bf16}, {bf16, bf16}, {fp16, fp32}, {fp32, fp32}}) {
          const Types types{gradient, master, states, compute, gather};
          BOOST_TEST_REQUIRE((Case<zero::AdamW>{.part = {99, 600}, .types = types}.agrees()));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(arrays_of_any_alignment_get_the_bits_of_the_host) {
  for (const std::vector<std::size_t>& shifts :
       {std::vector<std::size_t>{3}, {4}, {7}, {8}, {0, 1, 2}, {1, 5}, {3, 7}}) {
    BOOST_TEST((Case<zero::AdamW>{.part = {96, 555}, .shifts = shifts}.agrees()));
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_is_not_applied_changes_nothing) {
  BOOST_TEST((Case<zero::AdamW>{.part = {0, 640}, .applied = false}.agrees()));
}

BOOST_AUTO_TEST_CASE(weights_that_compute_may_be_missing) {
  BOOST_TEST((Case<zero::Sgd>{.part = {0, 640}, .refreshes = false}.agrees()));
}

BOOST_AUTO_TEST_CASE(divisors_and_clips_of_any_kind_get_the_bits_of_the_host) {
  for (const float divisor : {1.0F, 4.0F, 65536.0F, 3.0F, 0x1p-130F}) {
    for (const float clip : {1.0F, 0.3F}) {
      BOOST_TEST((Case<zero::Lion>{.part = {0, 70}, .divisor = divisor, .clip = clip}.agrees()));
    }
  }
}

__global__ void update_far_tiles(zero::GroupUpdate<zero::Sgd> u, zero::detail::Tiling tiling,
                                 std::uint64_t first) {
  zero::detail::update_tile(u, tiling, first + threadIdx.x);
}

BOOST_AUTO_TEST_CASE(elements_beyond_2_to_the_31_are_reached) {
  // The end of arrays of 2^31 + 5 elements, of which nothing else is there.
  constexpr std::uint64_t count = (std::uint64_t{1} << 31) + 5, there = 21, before = count - there;
  const auto end_of = [](const Copy<float>& copy) {
    const auto at = reinterpret_cast<std::uintptr_t>(copy.data());
    return zero::Array(reinterpret_cast<void*>(at - before * sizeof(float)), count, fp32);
  };
  // An array of that size begins at a multiple of 16 bytes.
  const Copy<float> gradient(std::vector<float>(there, 2), before % 4),
      master(std::vector<float>(there, 1), before % 4), m(std::vector<float>(there, 0), before % 4);
  const Copy<zero::TensorRange> ranges({{0, 16, 0, 1}, {32, count - 1, 1, 1}});
  const Copy<std::uint8_t> present({0, 1});
  const auto c = zero::Sgd{.learning_rate = 1}.coefficients(1, 0, false);
  const Copy<zero::Sgd::Coefficients> coefficients({c, c});
  const Copy<zero::UpdateDecision> decision({{1, 1, 1}});
  zero::GroupUpdate<zero::Sgd> u;
  u.gradient = end_of(gradient), u.master = end_of(master), u.states[0] = end_of(m);
  u.begin = 32;
  u.ranges = ranges.data(), u.range_count = 2;
  u.decision = decision.data(), u.present = present.data(), u.coefficients = coefficients.data();
  const zero::Array arrays[] = {u.gradient, u.master, u.states[0]};
  const zero::detail::Tiling tiling(arrays);
  BOOST_TEST(tiling.aligned);
  BOOST_TEST(tiling.tiles() == (count + 7) / 8);
  update_far_tiles<<<1, 32>>>(u, tiling, tiling.tiles() - 2);
  std::vector<float> expected(there, 1);  // the two last tiles: 8 and 5 elements
  for (std::size_t i = there - 13; i < there - 1; ++i) expected[i] = -1;
  BOOST_TEST(master.get() == expected);
}

BOOST_AUTO_TEST_CASE(a_captured_update_follows_what_device_memory_says) {
  cudaStream_t stream = nullptr;
  on_device::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const Copy<float> gradient(std::vector<float>(40, 1)), master(std::vector<float>(40, 10)),
      m(std::vector<float>(40, 0));
  const Copy<zero::TensorRange> ranges({{0, 40, 0, 1}});
  const Copy<std::uint8_t> present({1});
  const Copy<zero::Sgd::Coefficients> coefficients({{1, 0, 0}});
  const Copy<zero::UpdateDecision> decision({{1, 1, 1}});
  zero::GroupUpdate<zero::Sgd> u;
  u.gradient = zero::Array(gradient.data(), 40), u.master = zero::Array(master.data(), 40);
  u.states[0] = zero::Array(m.data(), 40);
  u.ranges = ranges.data(), u.range_count = 1;
  u.decision = decision.data(), u.present = present.data(), u.coefficients = coefficients.data();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  on_device::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  zero::update_group<zero::Sgd>(stream, u);
  on_device::check(cudaStreamEndCapture(stream, &graph));
  on_device::check(cudaGraphInstantiate(&executable, graph, 0));
  on_device::check(cudaGraphLaunch(executable, stream));
  BOOST_TEST(master.get() == std::vector<float>(40, 9));
  const zero::Sgd::Coefficients faster{3, 0, 0};
  on_device::check(cudaMemcpy(coefficients.data(), &faster, sizeof faster, cudaMemcpyHostToDevice));
  on_device::check(cudaGraphLaunch(executable, stream));
  BOOST_TEST(master.get() == std::vector<float>(40, 6));
  const zero::UpdateDecision skipped{};
  on_device::check(cudaMemcpy(decision.data(), &skipped, sizeof skipped, cudaMemcpyHostToDevice));
  on_device::check(cudaGraphLaunch(executable, stream));
  BOOST_TEST(master.get() == std::vector<float>(40, 6));
  on_device::check(cudaGraphExecDestroy(executable));
  on_device::check(cudaGraphDestroy(graph));
  on_device::check(cudaStreamDestroy(stream));
}

BOOST_AUTO_TEST_SUITE_END()
