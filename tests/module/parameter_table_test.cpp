// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>
#include <zero/module/parameter_table.hpp>

#include "../contract.hpp"

BOOST_AUTO_TEST_SUITE(parameter_table_test)

using zero::ParameterTable;
using zero::Shape;
using zero::Tensor;

struct Width {
  int width = 6;
};
template <class T>
struct Embedding {
  Tensor<T> table;
  static constexpr auto tensors(const Width& c) {
    return zero::tensors(zero::tensor("table", &Embedding::table, {10, c.width}));
  }
};
template <class T>
struct Mixed {  // trained and frozen tensors in turn
  Tensor<T> norm, base, up, mask;
  static constexpr auto tensors(const Width& c) {
    return zero::tensors(zero::tensor("norm", &Mixed::norm, {c.width}, zero::no_decay),
                         zero::tensor("base", &Mixed::base, {c.width, c.width}, zero::frozen),
                         zero::tensor("up", &Mixed::up, {c.width, 3}),
                         zero::tensor("mask", &Mixed::mask, {2}, zero::frozen | zero::no_decay));
  }
};
template <class T>
struct Activation {  // computes, but has no parameters
  static constexpr auto tensors(const Width&) { return zero::tensors(); }
};

template <class... Lists>
ParameterTable table(Lists... lists) {
  return ParameterTable(zero::model(std::move(lists)...), 3, {}, 1, {}, nullptr, 16);
}
const ParameterTable& usual() {
  static const ParameterTable made =
      table(zero::unit<Embedding>("embed", Width{}), zero::units<Mixed>("block", 2, Width{}),
            zero::unit<Activation>("silu", Width{}),
            zero::unit<Embedding>("head", Width{4}).reads("block.1"));
  return made;
}

using contract::error_of;
bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(names_are_unit_and_tensor_in_the_order_of_the_model) {
  std::vector<std::string> names;
  for (const zero::TensorInfo& tensor : usual().tensors()) names.push_back(tensor.name);
  const std::vector<std::string> expected{
      "embed.table",  "block.0.norm", "block.0.base", "block.0.up",   "block.0.mask",
      "block.1.norm", "block.1.base", "block.1.up",   "block.1.mask", "head.table"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  BOOST_TEST(usual().units().size() == 5U);
  BOOST_TEST(usual().units()[2].name == "block.1");
  BOOST_TEST(usual().elements() == 60U + 2 * (6 + 36 + 18 + 2) + 40);
}

BOOST_AUTO_TEST_CASE(a_tensor_knows_its_shape_options_unit_and_group) {
  const zero::TensorInfo& norm = usual().find("block.1.norm");
  BOOST_TEST((norm.shape == Shape{6}));
  BOOST_TEST(!norm.decay);
  BOOST_TEST(!norm.frozen);
  BOOST_TEST(norm.unit == 2U);
  const zero::TensorInfo& mask = usual().find("block.1.mask");
  BOOST_TEST(mask.frozen);
  BOOST_TEST(mask.group != norm.group);
  BOOST_TEST(mask.place == 1U);  // the second of the frozen ones
  BOOST_TEST((usual().find("head.table").shape == Shape{10, 4}));
}

BOOST_AUTO_TEST_CASE(trained_and_frozen_tensors_of_a_unit_are_a_group_each) {
  BOOST_TEST(usual().groups().size() == 6U);  // 1, 2, 2, none, 1
  for (std::size_t g = 0; g < usual().groups().size(); ++g) {
    const zero::GroupInfo& group = usual().groups()[g];
    BOOST_TEST(usual().shape().group(g).frozen == group.frozen);
    BOOST_TEST(group.tensors.size() == group.layout.tensors());
    for (std::size_t place = 0; place < group.tensors.size(); ++place) {
      const zero::TensorInfo& tensor = usual().tensors()[group.tensors[place]];
      BOOST_TEST(tensor.group == g);
      BOOST_TEST(tensor.place == place);
      BOOST_TEST(tensor.unit == group.unit);
      BOOST_TEST(tensor.frozen == group.frozen);
      BOOST_TEST(group.layout.tensor_size(place) == tensor.shape.elements());
      BOOST_TEST(group.layout.tensor_offset(place) % 4 == 0U);
    }
    BOOST_TEST(usual().padded(g) == group.layout.padded());
    BOOST_TEST(usual().padded(g) % (3 * 4) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(groups_of_one_list_share_a_kind_and_trained_ones_differ_from_frozen_ones) {
  const auto kind = [](const char* name) {
    return usual().shape().group(usual().find(name).group).kind;
  };
  BOOST_TEST(kind("block.0.norm") == kind("block.1.norm"));
  BOOST_TEST(kind("block.0.base") == kind("block.1.base"));
  BOOST_TEST(kind("block.0.base") != kind("block.0.norm"));
  BOOST_TEST(kind("embed.table") != kind("head.table"));  // two lists, whose sizes may differ
}

BOOST_AUTO_TEST_CASE(a_unit_reads_its_own_groups_and_those_of_the_units_that_it_names) {
  const zero::ModelShape& shape = usual().shape();
  BOOST_TEST(shape.units() == 5U);
  BOOST_TEST(shape.unit(1).count == 2U);
  BOOST_TEST(shape.unit(3).count == 0U);
  BOOST_TEST(shape.unit(4).count == 3U);
  BOOST_TEST(shape.group(usual().find("block.1.up").group).readers == 2U);
  BOOST_TEST(shape.group(usual().find("block.0.up").group).readers == 1U);
  const std::vector<std::size_t> reads{4, 2};
  BOOST_TEST(usual().units()[4].reads == reads, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(reading_a_unit_twice_is_reading_it_once) {
  const ParameterTable twice = table(zero::unit<Embedding>("a", Width{}),
                                     zero::unit<Embedding>("b", Width{}).reads("a").reads("a"));
  BOOST_TEST(twice.units()[1].reads.size() == 2U);
  BOOST_TEST(twice.shape().unit(1).count == 2U);
}

BOOST_AUTO_TEST_CASE(mistakes_in_names_are_refused_with_the_name) {
  const auto unit = [](const char* name) { return zero::unit<Embedding>(name, Width{}); };
  BOOST_TEST(mentions(error_of([&] { table(unit("a"), unit("a")); }), "two units are called 'a'"));
  BOOST_TEST(mentions(error_of([&] { table(zero::units<Mixed>("a", 2, Width{}), unit("a.1")); }),
                      "two units are called 'a.1'"));
  BOOST_TEST(
      mentions(error_of([&] { table(unit("a"), zero::unit<Mixed>("", Width{})); }), "is empty"));
  BOOST_TEST(mentions(error_of([&] { table(unit("a"), unit("b").reads("c")); }),
                      "unit 'b' reads 'c', which is not another unit"));
  BOOST_TEST(mentions(error_of([&] { table(unit("a").reads("a")); }), "unit 'a' reads 'a'"));
  BOOST_TEST(
      mentions(error_of([&] { (void)usual().find("block.1"); }),
               "no tensor is called 'block.1'; names are unit.tensor, such as 'embed.table'"));
  BOOST_TEST(mentions(error_of([] { table(); }), "no units"));
  BOOST_TEST(mentions(error_of([] { table(zero::units<Mixed>("a", 0, Width{})); }), "no units"));
}

BOOST_AUTO_TEST_CASE(a_unit_that_reads_more_than_four_groups_is_refused_with_its_name) {
  const auto unit = [](const char* name) { return zero::unit<Mixed>(name, Width{}); };
  BOOST_TEST(mentions(
      error_of([&] { table(unit("a"), unit("b"), unit("c").reads("a").reads("b")); }), "unit 'c'"));
  BOOST_TEST(error_of([&] { table(unit("a"), unit("b").reads("a")); }) == "no error");
}

struct CodeOptions {
  zero::TensorOption code = zero::frozen;
};
template <class T>
struct Typed {  // some tensors keep their type whatever T is
  Tensor<T> weight, base;
  Tensor<float> norm, mask;
  Tensor<zero::bf16> code;
  static constexpr auto tensors(const CodeOptions& x) {
    return zero::tensors(zero::tensor("weight", &Typed::weight, {8}),
                         zero::tensor("norm", &Typed::norm, {3}),
                         zero::tensor("base", &Typed::base, {4}, zero::frozen),
                         zero::tensor("code", &Typed::code, {4}, x.code),
                         zero::tensor("mask", &Typed::mask, {2}, zero::frozen));
  }
};

BOOST_AUTO_TEST_CASE(the_tensors_of_one_type_of_a_unit_are_a_group) {
  using zero::DataType;
  const auto typed = zero::model(zero::units<Typed>("unit", 2, CodeOptions{}));
  const ParameterTable fp32(typed, 3), bf16(typed, 3, {.compute = DataType::bf16});
  BOOST_TEST(fp32.groups().size() == 2U * 3);  // trained and frozen fp32, and frozen bf16
  BOOST_TEST(bf16.groups().size() == 2U * 4);
  const auto type = [&](const char* name) {
    const zero::TensorInfo& tensor = bf16.find(name);
    BOOST_TEST((bf16.groups()[tensor.group].types.compute == tensor.type));
    return tensor.type;
  };
  BOOST_TEST((type("unit.1.weight") == DataType::bf16 && type("unit.1.norm") == DataType::fp32));
  BOOST_TEST((type("unit.1.base") == DataType::bf16 && type("unit.1.mask") == DataType::fp32));
  BOOST_TEST(bf16.find("unit.0.base").group == bf16.find("unit.0.code").group);
  BOOST_TEST(fp32.find("unit.0.base").group == fp32.find("unit.0.mask").group);
  for (const zero::GroupInfo& group : bf16.groups()) {
    BOOST_TEST(group.layout.shard() * group.types.least_bytes() % zero::memory_alignment == 0U);
  }
}

BOOST_AUTO_TEST_CASE(more_types_than_a_unit_can_have_and_narrow_sums_are_refused) {
  const auto typed = zero::model(zero::units<Typed>("unit", 2, CodeOptions{}));
  const std::string five =
      error_of([&] { ParameterTable(typed, 3, {.compute = zero::DataType::fp16}); });
  BOOST_TEST(mentions(five, "a unit reads at most 4 groups"));
  BOOST_TEST(
      mentions(five, "unit 'unit.0'; its trained and its frozen tensors are a group for each"));
  const auto trained = zero::model(zero::units<Typed>("unit", 1, CodeOptions{zero::no_decay}));
  BOOST_TEST(mentions(error_of([&] { ParameterTable(trained, 3); }),
                      "tensor 'unit.0.code' is trained and is bf16 whatever T is"));
}

BOOST_AUTO_TEST_CASE(the_table_is_a_pure_function_of_the_ranks) {
  const auto model = zero::model(zero::units<Mixed>("block", 2, Width{}));
  for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
    const ParameterTable made(model, ranks), again(model, ranks);
    BOOST_TEST(made.elements() == 124U);
    for (std::size_t g = 0; g < made.groups().size(); ++g) {
      BOOST_TEST(made.padded(g) == again.padded(g));
      BOOST_TEST(made.groups()[g].layout.ranks() == ranks);
      BOOST_TEST(made.groups()[g].layout.shard() * ranks == made.padded(g));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
