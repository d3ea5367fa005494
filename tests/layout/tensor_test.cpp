// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <zero/base/error.hpp>
#include <zero/layout/tensor.hpp>

BOOST_AUTO_TEST_SUITE(tensor_test)

using zero::Shape;
using zero::Tensor;

// A shape takes every integer type without narrowing, also mixed.
constexpr int width = 3;
constexpr std::size_t heads = 5;
constexpr std::int64_t layers = 7;
constexpr std::uint8_t small = 2;
static_assert(Shape{width, heads, layers}.elements() == 105);
static_assert(Shape{width} == Shape{std::size_t{3}} && Shape{width} != Shape{layers});
static_assert(Shape{small, 2 * heads}.dims[1] == 10 && Shape{small, 2 * heads}.rank == 2);

// A shape without dimensions is one number; a dimension of 0 leaves no elements.
static_assert(Shape{}.elements() == 1 && Shape{}.rank == 0);
static_assert(Shape{0}.elements() == 0 && Shape{4, 0, 3}.elements() == 0);

// Sizes are 64 bits wide.
static_assert(Shape{std::int64_t{1} << 31, 4}.elements() == std::size_t{1} << 33);
static_assert(Shape{std::numeric_limits<std::int64_t>::max()}.elements() == (~std::size_t{0} >> 1));
static_assert(Shape{std::int64_t{1} << 62, std::int64_t{1} << 62, 0}.elements() == 0);

// A view is copied as plain memory, and a default one is empty.
static_assert(std::is_trivially_copyable_v<Tensor<float>>);
static_assert(std::is_trivially_copyable_v<Tensor<const float>>);
static_assert(Tensor<float>().size() == 0 && Tensor<float>().data() == nullptr);

// A view for writing becomes one for reading, never the reverse.
static_assert(std::is_convertible_v<Tensor<float>, Tensor<const float>>);
static_assert(!std::is_convertible_v<Tensor<const float>, Tensor<float>>);
static_assert(!std::is_convertible_v<Tensor<double>, Tensor<const float>>);

constexpr bool views_are_constexpr() {
  int values[6] = {1, 2, 3, 4, 5, 6};
  const Tensor<int> view(values, {2, 3});
  view[4] = 50;
  int sum = 0;
  for (const int value : Tensor<const int>(view)) sum += value;
  return sum == 66 && view.size() == 6 && view.dim(1) == 3 && view.span().back() == 6;
}
static_assert(views_are_constexpr());

BOOST_AUTO_TEST_CASE(a_view_writes_through_to_the_elements) {
  float values[4] = {};
  const Tensor<float> view(values, {2, 2});
  for (float& value : view) value += 1;
  view[3] = 4;
  BOOST_TEST(values[0] == 1);
  BOOST_TEST(values[3] == 4);
  BOOST_TEST(view.span().data() == values);
  BOOST_TEST(view.span().size() == 4U);
  BOOST_TEST((view.shape() == Shape{2, 2}));
}

template <class F>
void refuses(F f, const char* expected) {
  BOOST_CHECK_EXCEPTION(f(), zero::ContractError, [&](const zero::ContractError& error) {
    return std::string(error.what()).find(expected) != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_negative_dimension_is_refused_and_named) {
  refuses([] { return Shape{3, -1}; }, "dimension 1");
  refuses([] { return Shape{std::numeric_limits<std::int64_t>::min()}; }, "dimension 0");
}

BOOST_AUTO_TEST_CASE(a_dimension_beyond_63_bits_is_refused) {
  refuses([] { return Shape{~std::size_t{0}}; }, "dimension 0");
  refuses([] { return Shape{std::size_t{1} << 63}; }, "dimension 0");
}

BOOST_AUTO_TEST_CASE(a_product_beyond_63_bits_is_refused) {
  refuses([] { return Shape{std::int64_t{1} << 62, 2}; }, "2^63");
  refuses([] { return Shape{std::int64_t{1} << 32, std::int64_t{1} << 32}; }, "2^63");
  refuses([] { return Shape{3, std::numeric_limits<std::int64_t>::max() / 2}; }, "2^63");
  BOOST_TEST((Shape{2, std::numeric_limits<std::int64_t>::max() / 2}.elements() > 0U));
}

BOOST_AUTO_TEST_CASE(more_than_four_dimensions_are_refused) {
  refuses([] { return Shape{1, 2, 3, 4, 5}; }, "5 were given");
}

BOOST_AUTO_TEST_SUITE_END()
