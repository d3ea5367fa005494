// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/layout/fields.hpp>
#include <zero/layout/tensor.hpp>

BOOST_AUTO_TEST_SUITE(fields_test)

using zero::Shape;
using zero::Tensor;

struct Config {
  int width = 6;
  std::size_t inner = 24;
  std::int64_t vocabulary = 256;
};

template <class T>
struct Block {
  Tensor<T> norm, up, table, scale;
  int remark = 0;  // a view may have members of other kinds

  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("norm.weight", &Block::norm, {c.width}, zero::no_decay),
                         zero::tensor("mlp.up", &Block::up, {c.width, c.inner}),
                         zero::tensor("table", &Block::table, {c.vocabulary, 3 * c.width, c.inner},
                                      zero::no_decay | zero::frozen),
                         zero::tensor("scale", &Block::scale, {}));
  }
};

template <class T>
struct Activation {  // computes, but has no parameters
  static constexpr auto tensors(const Config&) { return zero::tensors(); }
};

template <class T>
struct Two {
  Tensor<T> first, second;
  struct Names {
    const char *first, *second;
    bool same_member = false;
  };
  static constexpr auto tensors(const Names& names) {
    return zero::tensors(
        zero::tensor(names.first, &Two::first, {2}),
        zero::tensor(names.second, names.same_member ? &Two::first : &Two::second, {0}));
  }
};

template <class T>
struct Mixed {  // one member has a fixed type
  Tensor<T> weight;
  Tensor<double> statistics;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Mixed::weight, {c.width}),
                         zero::tensor("statistics", &Mixed::statistics, {c.width}));
  }
};

template <class T>
struct Bare {};

template <class T>
struct Foreign {  // declares the tensors of another kind
  static constexpr auto tensors(const Config& c) { return Block<T>::tensors(c); }
};

static_assert(zero::UnitKind<Block, Config> && zero::UnitKind<Activation, Config>);
static_assert(!zero::UnitKind<Bare, Config> && !zero::UnitKind<Foreign, Config>);
static_assert(!zero::UnitKind<Block, std::string> && !zero::UnitKind<Mixed, Config>);

constexpr bool views_in_the_compiler() {
  float values[1000] = {};
  const auto view =
      zero::view_of<Block, float>(Config{}, [&](std::size_t i) { return values + i; });
  return view.norm.data() == values && view.up.shape() == Shape{6, 24} && view.scale.size() == 1 &&
         view.table.data() == values + 2 && view.remark == 0;
}
static_assert(views_in_the_compiler());

BOOST_AUTO_TEST_CASE(the_specs_of_a_kind_say_what_it_declares_in_order) {
  const zero::List<zero::TensorSpec> specs = zero::specs_of<Block>(Config{});
  BOOST_REQUIRE(specs.size() == 4U);
  BOOST_TEST(specs[0].name == "norm.weight");
  BOOST_TEST(specs[1].name == "mlp.up");
  BOOST_TEST((specs[0].shape == Shape{6}));
  BOOST_TEST((specs[1].shape == Shape{6, 24}));
  BOOST_TEST((specs[2].shape == Shape{256, 18, 24}));
  BOOST_TEST((specs[3].shape == Shape{}));
  const std::array<bool, 4> decay = {false, true, false, true},
                            frozen = {false, false, true, false};
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(specs[i].decay == decay[i]);
    BOOST_TEST(specs[i].frozen == frozen[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_view_gets_the_pointers_in_the_order_of_declaration) {
  std::vector<zero::bf16> values(4);
  const auto view =
      zero::view_of<Block, zero::bf16>(Config{}, [&](std::size_t i) { return &values[i]; });
  static_assert(std::is_same_v<decltype(view), const Block<zero::bf16>>);
  BOOST_TEST(view.norm.data() == &values[0]);
  BOOST_TEST(view.up.data() == &values[1]);
  BOOST_TEST(view.table.data() == &values[2]);
  BOOST_TEST(view.scale.data() == &values[3]);
  BOOST_TEST(view.table.size() == 256U * 18 * 24);
}

BOOST_AUTO_TEST_CASE(a_view_may_be_for_reading_only) {
  const std::vector<float> values(4, 7.0F);
  const auto view =
      zero::view_of<Block, const float>(Config{}, [&](std::size_t i) { return &values[i]; });
  BOOST_TEST(view.scale[0] == 7);
}

BOOST_AUTO_TEST_CASE(a_kind_may_have_no_tensors) {
  BOOST_TEST(zero::specs_of<Activation>(Config{}).empty());
  zero::view_of<Activation, float>(Config{}, [](std::size_t) -> float* { return nullptr; });
}

BOOST_AUTO_TEST_CASE(a_tensor_may_have_no_elements) {
  BOOST_TEST(zero::specs_of<Two>(Two<float>::Names{"a", "b"})[1].shape.elements() == 0U);
}

template <class F>
void refuses(F f, const char* expected) {
  BOOST_CHECK_EXCEPTION(f(), zero::ContractError, [&](const zero::ContractError& error) {
    return std::string(error.what()).find(expected) != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_name_given_twice_is_refused) {
  refuses([] { return zero::specs_of<Two>(Two<float>::Names{"a", "a"}); }, "called 'a'");
}

BOOST_AUTO_TEST_CASE(an_empty_name_is_refused) {
  refuses([] { return zero::specs_of<Two>(Two<float>::Names{"a", ""}); }, "tensor 1");
}

BOOST_AUTO_TEST_CASE(a_member_given_twice_is_refused) {
  refuses(
      [] {
        return zero::specs_of<Two>(Two<float>::Names{"a", "b", true});
      },
      "'a' and 'b' are bound to the same member");
}

BOOST_AUTO_TEST_SUITE_END()
