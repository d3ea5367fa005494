// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// R1 to R10 for the named stages on other models and programs than a chain that trains. Compiling
// is passing.
#include <boost/test/unit_test.hpp>
#include <zero/policy/proof.hpp>

#include "../schedule/stages.hpp"

BOOST_AUTO_TEST_SUITE(shapes_proof_test)

using namespace tested;

/// The first rule that a stage breaks on a model.
template <class S>
consteval Rule rule_of(ModelShape (*model)(std::size_t),
                       Program (*program)(std::size_t, std::size_t), std::size_t units,
                       std::size_t micro_steps) {
  const Schedule schedule = make_schedule<S>(model(units), program(units, micro_steps));
  return verify(schedule).rule;
}
template <class S>
consteval bool holds_on(ModelShape (*model)(std::size_t),
                        Program (*program)(std::size_t, std::size_t)) {
  for (std::size_t units = 2; units <= 5; ++units) {
    if (rule_of<S>(model, program, units, 2) != Rule::none) return false;
  }
  return true;
}
constexpr ModelShape chain(std::size_t units) { return ModelShape(units); }
constexpr ModelShape tied(std::size_t units) { return transformer(units - 2, true); }
constexpr ModelShape all_frozen(std::size_t units) {
  ModelShape model(units);
  for (std::size_t g = 0; g < units; ++g) model.freeze(g);
  return model;
}
constexpr Program evaluates(std::size_t units, std::size_t) { return evaluation(units); }

template <class S>
inline constexpr bool all_shapes =
    holds_on<S>(tied, training) && holds_on<S>(half_frozen, training) &&
    holds_on<S>(two_groups, training) && holds_on<S>(all_frozen, training);
template <class S>
inline constexpr bool all_programs =
    holds_on<S>(tied, evaluates) && holds_on<S>(two_groups, evaluates) &&
    holds_on<S>(tied, rotated) && holds_on<S>(chain, forwards_first) &&
    holds_on<S>(tied, forwards_first) && holds_on<S>(two_groups, upper_half);

static_assert(all_shapes<Ddp> && all_programs<Ddp>);
static_assert(all_shapes<Zero1> && all_programs<Zero1>);
static_assert(all_shapes<Zero2> && all_programs<Zero2>);
static_assert(all_shapes<Zero3> && all_programs<Zero3>);
static_assert(all_shapes<Hybrid> && all_programs<Hybrid>);

BOOST_AUTO_TEST_CASE(the_named_stages_obey_all_rules_on_other_models_and_programs) {
  BOOST_TEST((rule_of<Zero3>(tied, forwards_first, 4, 3) == Rule::none));
}

BOOST_AUTO_TEST_SUITE_END()
