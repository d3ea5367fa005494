// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// R1 to R10 for every named stage, 1 to 10 units, evaluation and training with 1 to 3 micro-steps.
// Compiling is passing.
#include <boost/test/unit_test.hpp>
#include <zero/policy/proof.hpp>

BOOST_AUTO_TEST_SUITE(named_stages_proof_test)

using namespace zero;

static_assert(proven<Ddp, 10, 3>);
static_assert(proven<Zero1, 10, 3>);
static_assert(proven<Zero2, 10, 3>);
static_assert(proven<Zero3, 10, 3>);
static_assert(proven<Hybrid, 10, 3>);

BOOST_AUTO_TEST_CASE(the_named_stages_obey_all_rules_for_every_unit_count_past_their_period) {
  BOOST_TEST((proven<Ddp> && proven<Zero1> && proven<Zero2> && proven<Zero3> && proven<Hybrid>));
}

BOOST_AUTO_TEST_SUITE_END()
