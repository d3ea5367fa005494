// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The fingerprint of a schedule.
#include <boost/test/unit_test.hpp>
#include <zero/schedule/hash.hpp>

#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(hash_test)

using namespace tested;

// FNV-1a, RFC 9923: the empty input, and eight bytes.
static_assert(Hasher{}.value() == 0xcbf29ce484222325u);
static_assert(Hasher{}.mix(std::uint64_t{0}).value() == 0xa8c7f832281a39c5u);
static_assert(Hasher{}.mix("ab").mix("c").value() != Hasher{}.mix("a").mix("bc").value());
static_assert(Hasher{}.mix(1).mix(2).value() != Hasher{}.mix(2).mix(1).value());

template <class S>
constexpr std::uint64_t hash_of(std::size_t units, std::size_t micro_steps = 1) {
  const Schedule s = make_schedule<S>(ModelShape(units), training(units, micro_steps));
  return hash(s);
}
static_assert(hash_of<Zero3>(4) == hash_of<Zero3>(4) && hash_of<Zero3>(4) != hash_of<Zero3>(5));
static_assert(hash_of<Zero3>(4) != hash_of<Deep<2>>(4) &&
              hash_of<Zero3>(4) != hash_of<Zero3>(4, 2));
static_assert(hash_of<Zero3>(4) != hash_of<Hybrid>(4) && hash_of<Zero2>(4) != hash_of<Zero1>(4));

BOOST_AUTO_TEST_CASE(the_hash_is_the_same_at_run_time_and_in_every_build) {
  constexpr std::uint64_t at_compile_time = hash_of<Zero3>(4);
  BOOST_TEST(hash_of<Zero3>(4) == at_compile_time);
}

BOOST_AUTO_TEST_CASE(every_field_of_every_step_counts) {
  const Schedule s = make_schedule<Zero3>(ModelShape(3), training(3));
  const auto changes = [&](auto change) {
    std::size_t unseen = 0;
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      Schedule mutant = s;
      change(mutant.steps[i]);
      unseen += hash(mutant) == hash(s);
    }
    return unseen == 0;
  };
  BOOST_TEST(changes([](Step& x) { x.op = Op::none; }));
  BOOST_TEST(changes([](Step& x) { x.stream = StreamId::replicate; }));
  BOOST_TEST(changes([](Step& x) { ++x.subject; }));
  BOOST_TEST(changes([](Step& x) { ++x.micro_step; }));
  BOOST_TEST(changes([](Step& x) { x.signals = !x.signals; }));
  BOOST_TEST(changes([](Step& x) { x.waits[3] = 0; }));
  BOOST_TEST(changes([](Step& x) { ++x.accesses[0].index; }));
  BOOST_TEST(changes([](Step& x) { x.accesses[0].mode = Mode::none; }));
  BOOST_TEST(changes([](Step& x) { x.accesses[0].space = Space::device; }));
  BOOST_TEST(changes([](Step& x) { --x.access_count; }));
}

BOOST_AUTO_TEST_SUITE_END()
