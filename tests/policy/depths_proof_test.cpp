// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// R1 to R10 for stage 3 with all prefetch depths and ways to keep units. Compiling is passing.
#include <boost/test/unit_test.hpp>
#include <zero/policy/proof.hpp>

#include "../schedule/stages.hpp"

BOOST_AUTO_TEST_SUITE(depths_proof_test)

using namespace tested;

static_assert(proven<Deep<0>> && proven<Deep<0, 1>> && proven<Deep<0, 2>>);
static_assert(proven<Deep<1, 0>> && proven<Deep<1, 2>> && proven<Deep<1, 3>>);
static_assert(proven<Deep<2, 0>> && proven<Deep<2, 1>> && proven<Deep<2>>);
static_assert(proven<Deep<3, 1>> && proven<Deep<3, 2>> && proven<Deep<3>>);
static_assert(proven<Deep<1, 1, 0>, 8, 3> && proven<Deep<2, 1, 2>, 8, 3> && proven<KeepAll, 8, 3>);

BOOST_AUTO_TEST_CASE(stage_3_obeys_all_rules_at_every_depth) {
  BOOST_TEST((units_to_prove<Deep<3>> > units_to_prove<Zero3>));
}

BOOST_AUTO_TEST_SUITE_END()
