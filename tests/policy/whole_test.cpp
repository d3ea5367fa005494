// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Policies that keep single tensors whole.
#include <boost/test/unit_test.hpp>
#include <zero/policy/proof.hpp>

BOOST_AUTO_TEST_SUITE(whole_test)

using namespace zero;

struct VectorsWhole {
  using shards = Nothing;
  static constexpr bool stays_whole(const TensorFacts& t) { return t.rank <= 1; }
};
struct SmallWhole {
  using shards = Nothing;
  static constexpr std::size_t whole_below = 10;
  static constexpr bool stays_whole(const TensorFacts& t) { return t.elements < 5; }
};
using Asked = Stage<VectorsWhole, ShardOptimizer<>, ShardGrads<>, SmallWhole, ShardParams<>>;

static_assert(proven<Stage<VectorsWhole, ShardOptimizer<>, ShardGrads<>, ShardParams<>>>);
static_assert(!Zero3::whole().asks && Asked::whole().asks && Zero3::whole().smaller_than == 0);

// Right where all of a unit is sharded or whole, wrong where a unit has tensors of both kinds: the
// whole ones are updated in place and not published.
struct Unpublished {
  using shards = OptimizerState;
};
using Torn = Stage<VectorsWhole, Unpublished, ShardGrads<>, ShardParams<>>;
static_assert(finding<Torn, 3>.rule == Rule::balanced);
static_assert(finding<Stage<Unpublished, ShardGrads<>, ShardParams<>>, 3>.rule == Rule::none);

BOOST_AUTO_TEST_CASE(a_tensor_is_whole_if_one_policy_says_so) {
  const WholeRule rule = Asked::whole();
  BOOST_TEST(rule.smaller_than == 10u);
  BOOST_TEST(rule.tensor({.rank = 1, .elements = 100}));
  BOOST_TEST(rule.tensor({.rank = 2, .elements = 4}));
  BOOST_TEST(!rule.tensor({.rank = 2, .elements = 100}));
}

BOOST_AUTO_TEST_SUITE_END()
