// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cuda/group.hpp>
#include <cuda/on_device.hpp>
#include <limits>
#include <vector>
#include <zero/optim/norm.cuh>
#include <zero/optim/norm.hpp>

BOOST_AUTO_TEST_SUITE(norm_test)

using on_device::Copy;
using on_device::Part;
using on_device::Typed;
using zero::DataType;
constexpr double infinity = std::numeric_limits<double>::infinity();

double on_host(const Part& part, Typed& array, double order) {
  zero::NormPart made(order);
  part.for_each_piece([&](const zero::TensorRange& range, std::uint64_t first, std::uint64_t n) {
    zero::with_type(array.type(), [&]<class T>() {
      made.add(array.host().as<T>() + first, n, range.counts != 0);
    });
  });
  return made.value();
}
double on_the_device(const Part& part, const Typed& array, double order, std::size_t shift = 0) {
  const Copy<std::byte> copy(array.bytes(), shift * zero::size_of(array.type()));
  const Copy<zero::TensorRange> ranges(Part::ranges());
  const Copy<double> scratch(std::vector<double>(zero::norm_scratch, 77)), out({-1.0});
  zero::norm_part(nullptr, array.device(copy), ranges.data(),
                  static_cast<std::uint32_t>(Part::ranges().size()), part.begin, order,
                  scratch.data(), out.data());
  return out.get()[0];
}
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

BOOST_AUTO_TEST_CASE(norms_of_integers_are_exact) {
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16}) {
    for (const Part& part : on_device::parts) {
      Typed array(type, part.count);
      array.set(part, [](std::uint64_t i) { return static_cast<float>(i * 7 % 41) - 20; });
      for (const double order : {1.0, 2.0, infinity}) {
        for (const std::size_t shift : {0, 3}) {
          BOOST_TEST_CONTEXT("part " << part.begin << " + " << part.count << ", order " << order) {
            BOOST_TEST(on_the_device(part, array, order, shift) == on_host(part, array, order));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_norm_of_any_order_is_that_of_the_host_but_for_its_rounding) {
  Typed array(DataType::fp32, 2560);
  array.set({}, [](std::uint64_t i) { return on_device::some(i, 3); });
  for (const double order : {1.0, 1.5, 2.0, 3.0, 100.0}) {
    BOOST_TEST(on_the_device({}, array, order) == on_host({}, array, order),
               boost::test_tools::tolerance(1e-13));
  }
}

BOOST_AUTO_TEST_CASE(powers_neither_overflow_nor_vanish) {
  for (const float value : {3e38F, 1e-45F}) {
    Typed array(DataType::fp32, 2560);
    array.set({}, [](std::uint64_t) { return 0.0F; });
    array.set(32, value);  // the only numbers that are not 0: 1000 ^ (1/3) times that
    for (std::size_t i = 512; i < 512 + 999; ++i) array.set(i, -value);
    BOOST_TEST(on_the_device({}, array, 3) == 10 * double{value},
               boost::test_tools::tolerance(1e-14));
    BOOST_TEST(on_the_device({}, array, infinity) == double{value});
    BOOST_TEST(on_the_device({}, array, 2) == 1000 * (double{value} * value));
  }
}

BOOST_AUTO_TEST_CASE(an_element_that_is_not_finite_makes_it_not_a_number) {
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16}) {
    for (const double order : {1.0, 2.0, 3.0, infinity}) {
      for (const float value : bad) {
        for (const std::size_t at : {0, 130, 2530}) {  // the second is of one that does not count
          Typed array(type, 2560);
          array.set({}, [](std::uint64_t i) { return static_cast<float>(i % 5); });
          BOOST_TEST(!std::isnan(on_the_device({}, array, order)));
          array.set(at, value);
          BOOST_TEST_CONTEXT("order " << order << ", " << value << " at " << at) {
            BOOST_TEST(std::isnan(on_the_device({}, array, order)));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(many_blocks_sum_in_an_order_of_their_own_that_does_not_change) {
  // More tiles than the grid of 1024 blocks has threads, of which most are of no tensor.
  constexpr std::uint64_t count = (std::uint64_t{zero::detail::norm_blocks} * 256 + 100) * 8;
  const Copy<zero::bf16> own(std::vector<zero::bf16>(count, zero::bf16(0.1F)));
  const Copy<zero::TensorRange> ranges({{8, 2000, 0, 1}, {count - 3000, 3000, 1, 1}});
  const Copy<double> scratch(std::vector<double>(zero::norm_scratch, 77)), out({-1.0});
  const zero::Array array(own.data(), count);
  zero::norm_part(nullptr, array, ranges.data(), 2, 0, 2, scratch.data(), out.data());
  const double first = out.get()[0];
  const double square = double{zero::to_float(zero::bf16(0.1F))};
  BOOST_TEST(first == 5000 * square * square, boost::test_tools::tolerance(1e-13));
  zero::norm_part(nullptr, array, ranges.data(), 2, 0, 2, scratch.data(), out.data());
  BOOST_TEST(out.get()[0] == first);
}

BOOST_AUTO_TEST_SUITE_END()
