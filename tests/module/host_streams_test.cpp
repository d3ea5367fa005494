// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A module makes the streams that its stage has work for.
#include <boost/test/unit_test.hpp>
#include <zero/zero.hpp>

BOOST_AUTO_TEST_SUITE(host_streams_test)

using zero::StreamId;

/// Whether the stage's stream is one of its own.
bool has_its_own(const zero::StageValue& stage, StreamId id) {
  zero::detail::HostStreams streams({}, stage.traits);
  return &streams[id] != &streams[StreamId::compute];
}

BOOST_AUTO_TEST_CASE(a_stream_without_work_is_the_compute_stream) {
  const auto plain = zero::stage_value<zero::Zero3>;
  const auto hybrid = zero::stage_value<zero::Hybrid>;
  const auto offloads = zero::stage_value<zero::OffloadOf<zero::Zero3, zero::InHostMemory>>;
  for (const zero::StageValue& stage : {plain, hybrid, offloads}) {
    BOOST_TEST(has_its_own(stage, StreamId::gather));
    BOOST_TEST(has_its_own(stage, StreamId::reduce));
  }
  BOOST_TEST(!has_its_own(plain, StreamId::replicate));
  BOOST_TEST(!has_its_own(plain, StreamId::offload));
  BOOST_TEST(has_its_own(hybrid, StreamId::replicate));
  BOOST_TEST(!has_its_own(hybrid, StreamId::offload));
  BOOST_TEST(!has_its_own(offloads, StreamId::replicate));
  BOOST_TEST(has_its_own(offloads, StreamId::offload));
}

BOOST_AUTO_TEST_SUITE_END()
