// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>
#include <zero/optim/adamw_8bit.hpp>

BOOST_AUTO_TEST_SUITE(adamw_8bit_test)

using zero::AdamW, zero::AdamW8bit, zero::Array, zero::BlockCode, zero::RandomBits;

static_assert(!zero::ElementOptimizer<AdamW8bit>);  // so that CUDA devices refuse it
constexpr std::size_t block = 256;
using Signed = BlockCode<true>;
using Unsigned = BlockCode<false>;
constexpr std::uint32_t half = 1U << 19;

static_assert(Signed::decode(127, 3) == 3 && Signed::decode(255, 3) == -3);
static_assert(Signed::decode(126, 16) == 15 && Signed::decode(119, 16) == 8);
static_assert(Unsigned::decode(255, 3) == 3 && Unsigned::decode(247, 3) == 1.5F);
static_assert(Signed::decode(0, 3) == 0 && Unsigned::decode(0, 3) == 0);
static_assert(Signed::decode(7, 1) == 0x1p-15F && Unsigned::decode(7, 1) == 0x1p-31F);
static_assert(Signed::encode(-15, 16, half) == 254 && Unsigned::encode(0, 0, half) == 0);
// What is too small is 0 if it has a sign, and else the smallest: a root of it divides.
static_assert(Signed::encode(0x1p-20F, 1, half) == 0 && Unsigned::encode(0x1p-60F, 1, half) == 1);

BOOST_AUTO_TEST_CASE(a_block_that_is_read_and_written_keeps_its_bits) {
  for (const float scale : {1.0F, 3.1415927F, 1.1754944e-30F, 2.7e30F}) {
    std::vector<float> first(65), again(65), numbers(block);
    std::vector<std::uint8_t> codes(block);
    for (std::size_t i = 0; i < block; ++i) {
      const auto code = static_cast<std::uint8_t>(i);
      numbers[i] = Signed::decode(code, scale);
      BOOST_TEST(Signed::encode(numbers[i], scale, half) == code);
      BOOST_TEST(Unsigned::encode(Unsigned::decode(code, scale), scale, half) == code);
    }
    zero::CodedBlock<true>(first.data()).write(numbers.data(), block);
    zero::CodedBlock<true>(first.data()).read(numbers.data(), block);
    zero::CodedBlock<true>(again.data()).write(numbers.data(), block);
    BOOST_TEST(std::bit_cast<std::uint32_t>(first[0]) == std::bit_cast<std::uint32_t>(scale));
    BOOST_TEST(std::equal(first.begin() + 1, first.end(), again.begin() + 1, [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    }));
  }
}

BOOST_AUTO_TEST_CASE(codes_are_the_nearest_and_random_ones_are_right_in_the_mean) {
  for (int i = 1; i <= 1000; ++i) {
    const float value = static_cast<float>(i) / 1000;
    const float nearest = Signed::decode(Signed::encode(value, 1, half), 1);
    BOOST_TEST(std::abs(nearest - value) <= value / 16);
  }
  const RandomBits bits = RandomBits{}.with(7);
  double sum = 0;
  constexpr std::uint32_t times = 1 << 16;
  for (std::uint32_t i = 0; i < times; ++i) {
    sum += double{Unsigned::decode(Unsigned::encode(0.70F, 1, bits(i) >> 12), 1)};
  }
  BOOST_TEST(std::abs(sum / times - 0.70) < 0.0005);  // the codes are 0.6875 and 0.75
}

BOOST_AUTO_TEST_CASE(a_block_with_a_number_that_is_not_finite_is_not_a_number) {
  std::vector<float> kept(65), numbers(4, 1.0F);
  numbers[2] = std::numeric_limits<float>::infinity();
  zero::CodedBlock<false>(kept.data()).write(numbers.data(), 4);
  zero::CodedBlock<false>(kept.data()).read(numbers.data(), 4);
  BOOST_TEST(std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isnan(x); }));
}

/// The plain way: moments in fp32 through codes, element by element.
struct Plain {
  std::vector<float> weights, m, v;

  template <class Code>
  static void round(std::vector<float>& moments, const RandomBits& random) {
    for (std::size_t begin = 0; begin < moments.size(); begin += block) {
      const std::size_t end = std::min(begin + block, moments.size());
      float scale = 0;
      for (std::size_t i = begin; i < end; ++i) scale = std::max(scale, std::abs(moments[i]));
      for (std::size_t i = begin; i < end; ++i) {
        const std::uint32_t bits = random.with(0)(static_cast<std::uint32_t>(i)) >> 12;
        moments[i] = Code::decode(Code::encode(moments[i], scale, bits), scale);
      }
    }
  }
  void update(const AdamW& adam, std::int64_t t, const std::vector<float>& gradient,
              const RandomBits& random) {
    float* const states[] = {m.data(), v.data()};
    zero::update<AdamW>(adam.coefficients(t, t - 1, true), 4, 1, gradient.data(), weights.data(),
                        static_cast<float*>(nullptr), states, weights.size());
    round<Signed>(m, random.with(1));
    round<Unsigned>(v, random.with(2));
  }
};

inline float gradient_of(std::int64_t t, std::size_t i) {
  return static_cast<float>(std::sin(0.37 * static_cast<double>(t) + static_cast<double>(i * i)) *
                            std::pow(2.0, -static_cast<double>(i % 9)));
}

// A cut at a multiple of the block changes no bit.
BOOST_AUTO_TEST_CASE(it_is_adamw_with_moments_that_are_rounded_in_blocks) {
  constexpr std::size_t n = 700;
  const AdamW8bit optimizer{.learning_rate = 0.01F, .beta2 = 0.99F};
  const RandomBits seed = RandomBits{}.with(5);
  for (const std::size_t cut : {n, block, 2 * block}) {
    Plain plain{std::vector<float>(n, 1), std::vector<float>(n), std::vector<float>(n)};
    std::vector<float> weights = plain.weights, gradient(n), kept[2];
    for (auto& state : kept) state.assign(3 * 65, 0);
    for (std::int64_t t = 1; t <= 20; ++t) {
      const RandomBits random = seed.with(static_cast<std::uint64_t>(t));
      for (std::size_t i = 0; i < n; ++i) gradient[i] = gradient_of(t, i);
      plain.update(optimizer.plain(), t, gradient, random);
      for (std::size_t begin = 0; begin < n; begin += cut) {
        const std::size_t count = std::min(cut, n - begin), first = begin / block * 65;
        const Array states[] = {Array(kept[0].data() + first, kept[0].size() - first),
                                Array(kept[1].data() + first, kept[1].size() - first)};
        AdamW8bit::update(optimizer.coefficients(t, t - 1, true), 4, 1, {n},
                          {.gradient = Array(gradient.data() + begin, count),
                           .master = Array(weights.data() + begin, count),
                           .compute = {},
                           .states = states,
                           .random = random,
                           .begin = begin},
                          nullptr);
      }
    }
    std::vector<float> m(n), v(n);
    AdamW8bit::unpack_state(0, kept[0].data(), m.data(), n);
    AdamW8bit::unpack_state(1, kept[1].data(), v.data(), n);
    BOOST_TEST(weights == plain.weights);
    BOOST_TEST(m == plain.m);
    BOOST_TEST(v == plain.v);
  }
}

// The size of a step is that of AdamW on average, also for elements of a block that are far smaller
// than its largest.
BOOST_AUTO_TEST_CASE(it_moves_weights_as_adamw_does) {
  constexpr std::size_t n = block;
  const AdamW8bit optimizer{.learning_rate = 0.001F, .weight_decay = 0};
  std::vector<float> weights(n), exact(n), m(n), v(n), gradient(n), kept[2];
  for (auto& state : kept) state.assign(65, 0);
  const Array states[] = {Array(kept[0].data(), 65), Array(kept[1].data(), 65)};
  for (std::int64_t t = 1; t <= 300; ++t) {
    for (std::size_t i = 0; i < n; ++i) gradient[i] = std::abs(gradient_of(t, i));
    const auto c = optimizer.coefficients(t, t - 1, true);
    float* const moments[] = {m.data(), v.data()};
    zero::update<AdamW>(c, 1, 1, gradient.data(), exact.data(), static_cast<float*>(nullptr),
                        moments, n);
    AdamW8bit::update(c, 1, 1, {n},
                      {.gradient = Array(gradient.data(), n),
                       .master = Array(weights.data(), n),
                       .compute = {},
                       .states = states,
                       .random = RandomBits{}.with(static_cast<std::uint64_t>(t))},
                      nullptr);
  }
  double mean = 0, worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double ratio = weights[i] / exact[i];
    mean += ratio / n;
    worst = std::max(worst, std::abs(ratio - 1));
  }
  BOOST_TEST(std::abs(mean - 1) < 0.02);
  BOOST_TEST(worst < 0.3);
}

BOOST_AUTO_TEST_SUITE_END()
