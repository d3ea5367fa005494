// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bytes held and sent are what the formulas say, with weights of fp32.
#include "accounting_cases.hpp"

BOOST_AUTO_TEST_SUITE(accounting_test)

using accounting::check_hybrid;
using accounting::check_stage;
using zero::GradsOptions;
using zero::ParamsOptions;
using zero::ShardGrads;
using zero::ShardOptimizer;
using zero::ShardParams;
using zero::Stage;

BOOST_AUTO_TEST_CASE(bytes_are_as_predicted_in_the_named_stages) {
  check_stage<zero::Ddp, float>("Ddp");
  check_stage<zero::Zero1, float>("Zero1");
  check_stage<zero::Zero2, float>("Zero2");
  check_stage<zero::Zero3, float>("Zero3");
}
BOOST_AUTO_TEST_CASE(bytes_are_as_predicted_with_replicas) {
  check_hybrid<zero::Hybrid, float>("Hybrid");
  check_hybrid<zero::Hpz, float>("Hpz");
  check_hybrid<Stage<zero::ReplicateParams, ShardOptimizer<>>, float>("Zero1, state over all");
}
BOOST_AUTO_TEST_CASE(bytes_are_as_predicted_with_other_options) {
  check_stage<
      Stage<ShardOptimizer<>, ShardGrads<GradsOptions{.slots = 1, .every_micro_step = false}>,
            ShardParams<ParamsOptions{3, 2, 0, zero::keep_all}>>,
      float>("late gradients, far prefetch, all kept");
}

BOOST_AUTO_TEST_SUITE_END()
