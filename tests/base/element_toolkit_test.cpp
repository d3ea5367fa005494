// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Compares bf16 and fp16 with the host functions of the CUDA toolkit; built where it is installed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <zero/base/element.hpp>

BOOST_AUTO_TEST_SUITE(element_toolkit_test)

struct Bf16 {
  using Type = zero::bf16;
  static std::uint16_t narrow(float x) {
    return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x;
  }
  static float widen(std::uint16_t bits) {
    __nv_bfloat16_raw raw{};
    raw.x = bits;
    return __bfloat162float(__nv_bfloat16(raw));
  }
};

struct Fp16 {
  using Type = zero::fp16;
  static std::uint16_t narrow(float x) { return static_cast<__half_raw>(__float2half_rn(x)).x; }
  static float widen(std::uint16_t bits) {
    __half_raw raw{};
    raw.x = bits;
    return __half2float(__half(raw));
  }
};

using Types = std::tuple<Bf16, Fp16>;

BOOST_AUTO_TEST_CASE_TEMPLATE(every_pattern_has_the_same_float, Toolkit, Types) {
  int wrong = 0;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float ours = static_cast<float>(Toolkit::Type::from_bits(bits));
    const float theirs = Toolkit::widen(bits);
    const bool same = std::bit_cast<std::uint32_t>(ours) == std::bit_cast<std::uint32_t>(theirs);
    wrong += same || (std::isnan(ours) && std::isnan(theirs)) ? 0 : 1;
  }
  BOOST_TEST(wrong == 0);
}

// NaN is compared as NaN: the toolkit forgets sign and payload, this library keeps them.
BOOST_AUTO_TEST_CASE_TEMPLATE(floats_round_to_the_same_bits, Toolkit, Types) {
  std::uint64_t wrong = 0;
  std::uint64_t compared = 0;
  // A prime stride visits all exponents and signs, and all residues of the lower half.
  for (std::uint64_t i = 0; i < 0x100000000; i += 1021) {
    for (const std::uint64_t j : {i, i & 0xFFFFF000, i | 0xFFF, i & 0xFFFF8000}) {
      const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(j));
      const std::uint16_t ours = typename Toolkit::Type(x).bits;
      const std::uint16_t theirs = Toolkit::narrow(x);
      const bool both_nan =
          std::isnan(x) && std::isnan(Toolkit::widen(theirs)) && std::isnan(Toolkit::widen(ours));
      wrong += ours == theirs || both_nan ? 0 : 1;
      ++compared;
    }
  }
  BOOST_TEST(wrong == 0U);
  BOOST_TEST(compared > 16'000'000U);
}

BOOST_AUTO_TEST_SUITE_END()
