// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// R1 to R10 for replicated stages, deferred reductions and policies of a user. Compiling is
// passing.
#include <boost/test/unit_test.hpp>
#include <zero/policy/proof.hpp>

#include "../schedule/stages.hpp"

BOOST_AUTO_TEST_SUITE(variants_proof_test)

using namespace tested;

static_assert(proven<HybridOf<Ddp>> && proven<HybridOf<Zero1>> && proven<HybridOf<Zero2>>);
static_assert(proven<NoSync, 7, 3> && proven<NoSync2, 7, 3>);
static_assert(proven<Turns, 7, 3> && proven<Mixed, 7, 3> && proven<Late, 7, 3>);
static_assert(proven<OffloadOf<Zero3>, 7, 3> && proven<OffloadOf<HybridOf<Zero2>>>);
static_assert(proven<OffloadOf<Ddp>> && proven<OffloadOf<Hpz>> && proven<OneSlot>);
static_assert(proven<HybridOf<NoSync>> && proven<HybridOf<Mixed>>);
static_assert(proven<Hpz>);

BOOST_AUTO_TEST_CASE(replicated_deferred_and_user_stages_obey_all_rules) {
  BOOST_TEST((HybridOf<Zero3>::traits == Hybrid::traits));
}

BOOST_AUTO_TEST_SUITE_END()
