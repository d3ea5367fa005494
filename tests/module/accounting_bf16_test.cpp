// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bytes held and sent are what the formulas say, with weights of bf16.
#include "accounting_cases.hpp"

BOOST_AUTO_TEST_SUITE(accounting_bf16_test)

using accounting::check_hybrid;
using accounting::check_stage;
using zero::bf16;

BOOST_AUTO_TEST_CASE(bytes_of_bf16_are_as_predicted_in_the_named_stages) {
  check_stage<zero::Ddp, bf16>("Ddp of bf16");
  check_stage<zero::Zero1, bf16>("Zero1 of bf16");
  check_stage<zero::Zero2, bf16>("Zero2 of bf16");
  check_stage<zero::Zero3, bf16>("Zero3 of bf16");
}
BOOST_AUTO_TEST_CASE(bytes_of_bf16_are_as_predicted_with_replicas_that_gather_once) {
  check_hybrid<zero::HybridOf<zero::Zero2>, bf16>("HybridOf<Zero2> of bf16");
  check_hybrid<zero::HybridOf<zero::Ddp>, bf16>("HybridOf<Ddp> of bf16");
  check_hybrid<zero::Hpz, bf16>("Hpz of bf16");
}

BOOST_AUTO_TEST_SUITE_END()
