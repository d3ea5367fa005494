// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Units, groups and programs, and what is refused.
#include <boost/test/unit_test.hpp>
#include <zero/schedule/schedule.hpp>

BOOST_AUTO_TEST_SUITE(model_shape_test)

using namespace zero;

constexpr bool chain_is_a_chain() {
  const ModelShape model(3);
  for (std::size_t u = 0; u < 3; ++u) {
    if (model.unit(u).count != 1 || model.unit(u).groups[0] != u) return false;
    if (model.group(u).owner != u || model.group(u).readers != 1) return false;
  }
  return model.units() == 3 && model.groups() == 3;
}
static_assert(chain_is_a_chain());

constexpr bool tied_group_belongs_to_its_first_reader() {
  const ModelShape model = transformer(2, true);
  return model.group(0).owner == 0 && model.group(0).readers == 2 && model.unit(3).count == 2 &&
         model.group(0).kind == 1 && model.group(3).kind == 2;
}
static_assert(tied_group_belongs_to_its_first_reader());

constexpr bool reading_twice_is_reading_once() {
  ModelShape model(1);
  model.reads(0, 0);
  return model.unit(0).count == 1 && model.group(0).readers == 1;
}
static_assert(reading_twice_is_reading_once());

constexpr bool training_runs_forward_then_backward() {
  const Program p = training(2, 2);
  const Compute expected[] = {{Op::forward, 0, 0},  {Op::forward, 1, 0}, {Op::backward, 1, 0},
                              {Op::backward, 0, 0}, {Op::forward, 0, 1}, {Op::forward, 1, 1},
                              {Op::backward, 1, 1}, {Op::backward, 0, 1}};
  for (std::size_t i = 0; i < 8; ++i) {
    if (p.computes[i] != expected[i]) return false;
  }
  return p.computes.size() == 8 && p.micro_steps == 2 && p.updates;
}
static_assert(training_runs_forward_then_backward());

constexpr bool evaluation_runs_forward_once() {
  const Program p = evaluation(3);
  return p.computes.size() == 3 && p.computes[2] == Compute{Op::forward, 2, 0} && !p.updates;
}
static_assert(evaluation_runs_forward_once());

BOOST_AUTO_TEST_CASE(a_unit_with_too_many_groups_is_refused) {
  ModelShape model;
  const std::size_t unit = model.add_unit();
  for (std::size_t g = 0; g < max_groups; ++g) model.reads(unit, model.add_group());
  const std::size_t one_more = model.add_group();
  BOOST_CHECK_EXCEPTION(model.reads(unit, one_more), ShapeError, [](const ShapeError& error) {
    return std::string(error.what()).find("a unit reads at most 4 groups") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(what_does_not_exist_is_refused) {
  ModelShape model(2);
  BOOST_CHECK_THROW(model.reads(2, 0), ShapeError);
  BOOST_CHECK_THROW(model.reads(0, 2), ShapeError);
  BOOST_CHECK_THROW(model.freeze(2), ShapeError);
  BOOST_CHECK_THROW(model.kind(2, 0), ShapeError);
}

BOOST_AUTO_TEST_CASE(more_units_or_micro_steps_than_an_index_holds_are_refused) {
  BOOST_CHECK_NO_THROW(ModelShape(65534));
  BOOST_CHECK_THROW(ModelShape(65535), ShapeError);
  BOOST_CHECK_THROW(training(65535, 1), ShapeError);
  BOOST_CHECK_THROW(training(1, 65535), ShapeError);
  BOOST_CHECK_THROW(evaluation(65535), ShapeError);
}

BOOST_AUTO_TEST_SUITE_END()
