// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Casts, codes of 8 bits, and packed tensors.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cuda/group.hpp>
#include <cuda/on_device.hpp>
#include <limits>
#include <vector>
#include <zero/optim/cast.cuh>
#include <zero/optim/pack.cuh>
#include <zero/optim/quantise.cuh>

BOOST_AUTO_TEST_SUITE(arrays_test)

using on_device::Copy;
using zero::Array;
using zero::DataType;
constexpr DataType types[] = {DataType::fp32, DataType::bf16, DataType::fp16};
constexpr std::size_t sizes[] = {0, 1, 7, 8, 9, 255, 2048, 2051};

using Bytes = std::vector<std::byte>;

/// Numbers of one type, with subnormal ones and such as overflow narrower types, `huge` ones.
Bytes numbers(DataType type, std::size_t count, std::uint32_t salt, float huge = 1e5F) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = on_device::some(i, salt) * (i % 11 == 0 ? 1e-41F : i % 13 == 0 ? huge : 1.0F);
  }
  Bytes made(count * zero::size_of(type));
  zero::cast(Array(values.data(), count), Array(made.data(), count, type));
  return made;
}

BOOST_AUTO_TEST_CASE(casts_of_all_types_sizes_and_alignments_give_the_bits_of_the_host) {
  for (const DataType from : types) {
    for (const DataType to : types) {
      for (const std::size_t n : sizes) {
        for (const auto& [scale, adds] :
             {std::pair{1.0F, false}, {0.37F, false}, {1.0F, true}, {-1.5F, true}}) {
          for (const auto& [before_from, before_to] : {std::pair{0U, 0U}, {3U, 3U}, {5U, 2U}}) {
            // Without a sum of two infinities, since what is no number has other bits there.
            Bytes in = numbers(from, n, 1, adds ? 100.0F : 1e5F), out = numbers(to, n, 2, 100.0F);
            const Copy<std::byte> source(in, before_from * zero::size_of(from)),
                target(out, before_to * zero::size_of(to));
            zero::cast_scaled(nullptr, Array(source.data(), n, from), Array(target.data(), n, to),
                              scale, adds);
            const Array a(in.data(), n, from), b(out.data(), n, to);
            scale == 1 && !adds ? zero::cast(a, b) : zero::cast_scaled(a, b, scale, adds);
            BOOST_TEST_REQUIRE((target.get() == out));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cast_keeps_the_bits_of_every_narrow_number) {
  for (const DataType narrow : {DataType::bf16, DataType::fp16}) {
    std::vector<std::uint16_t> all(65536);
    for (unsigned bits = 0; bits < 65536; ++bits) all[bits] = static_cast<std::uint16_t>(bits);
    std::vector<float> wide(65536);
    const Copy<std::uint16_t> source(all), back(std::vector<std::uint16_t>(65536, 1));
    const Copy<float> target(wide);
    zero::cast(nullptr, Array(source.data(), 65536, narrow), Array(target.data(), 65536));
    zero::cast(nullptr, Array(target.data(), 65536), Array(back.data(), 65536, narrow));
    zero::cast(Array(all.data(), 65536, narrow), Array(wide.data(), 65536));
    zero::cast(Array(wide.data(), 65536), Array(all.data(), 65536, narrow));
    std::size_t different = 0;
    const std::vector<float> found = target.get();
    for (std::size_t i = 0; i < 65536; ++i) {
      different += std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(wide[i]);
    }
    BOOST_TEST(different == 0U);
    BOOST_TEST((back.get() == all));
  }
}

BOOST_AUTO_TEST_CASE(codes_and_scales_are_those_of_the_host) {
  for (const DataType type : types) {
    for (const std::size_t n : sizes) {
      for (const std::size_t before : {0, 1}) {
        Bytes values = numbers(type, n, 5);
        const Array in(values.data(), n, type);
        if (n > 300) {  // a block of zeros, and one that has an element that is no number
          std::fill_n(values.begin(), 256 * zero::size_of(type), std::byte{0});
          const float infinite = std::numeric_limits<float>::infinity();
          zero::cast(Array(&infinite, 1), in.part(1030, 1));
        }
        std::vector<std::int8_t> codes(n, 99);
        std::vector<float> scales(zero::quantised_scales(n), 9);
        const Copy<std::byte> source(values, before * zero::size_of(type));
        const Copy<std::int8_t> its_codes(codes, before);
        const Copy<float> its_scales(scales);
        const zero::QuantisedArray made{its_codes.data(), its_scales.data(), n};
        zero::quantise(nullptr, Array(source.data(), n, type), made);
        zero::quantise(in, {codes.data(), scales.data(), n});
        BOOST_TEST_REQUIRE(its_codes.get() == codes);
        const std::vector<float> found = its_scales.get();
        for (std::size_t k = 0; k < scales.size(); ++k) {
          BOOST_TEST_REQUIRE(std::bit_cast<std::uint32_t>(found[k]) ==
                             std::bit_cast<std::uint32_t>(scales[k]));
        }
        // And back, over what is there.
        zero::dequantise(nullptr, made, Array(source.data(), n, type));
        zero::dequantise({codes.data(), scales.data(), n}, in);
        std::vector<float> back(n), expected(n);
        Bytes got = source.get();
        zero::cast(Array(got.data(), n, type), Array(back.data(), n));
        zero::cast(in, Array(expected.data(), n));
        for (std::size_t i = 0; i < n; ++i) {
          BOOST_TEST_REQUIRE(
              (back[i] == expected[i] || (std::isnan(back[i]) && std::isnan(expected[i]))));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(tensors_of_any_type_and_place_are_packed_and_unpacked_as_on_the_host) {
  constexpr std::size_t room = 3000;
  for (const DataType flat_type : types) {
    Bytes flat(room * zero::size_of(flat_type), std::byte{0xFF});
    std::vector<Bytes> tensors;
    std::vector<Copy<std::byte>> copies;
    std::vector<zero::PackedTensor> here, there;
    std::uint64_t offset = 3;
    for (const std::size_t n : {5, 0, 640, 1, 7, 2000, 33}) {
      const DataType type = types[tensors.size() % 3];
      const std::size_t before = tensors.size() % 2;
      tensors.push_back(numbers(type, n, static_cast<std::uint32_t>(n)));
      copies.emplace_back(tensors.back(), before * zero::size_of(type));
      here.push_back({Array(tensors.back().data(), n, type), offset});
      there.push_back({Array(copies.back().data(), n, type), offset});
      offset += n + (tensors.size() % 2 == 0 ? 0 : 13);
    }
    BOOST_TEST_REQUIRE(offset <= room);
    const Copy<zero::PackedTensor> table(there);
    const auto count = static_cast<std::uint32_t>(there.size());
    const Copy<std::byte> packed(flat);
    const Array in_device(packed.data(), room, flat_type), on_host(flat.data(), room, flat_type);
    zero::pack(nullptr, table.data(), count, in_device);
    zero::pack(here, on_host);
    BOOST_TEST((packed.get() == flat));
    // Other numbers in the flat array come back, and nothing else changes.
    flat = numbers(flat_type, room, 9);
    const Copy<std::byte> other(flat);
    zero::unpack(nullptr, Array(other.data(), room, flat_type), table.data(), count);
    zero::unpack(Array(flat.data(), room, flat_type), here);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      BOOST_TEST((copies[k].get() == tensors[k]));
    }
    BOOST_TEST((other.get() == flat));
  }
}

BOOST_AUTO_TEST_SUITE_END()
