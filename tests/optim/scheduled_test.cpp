// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <zero/base/error.hpp>
#include <zero/optim/scheduled.hpp>

BOOST_AUTO_TEST_SUITE(scheduled_test)

using zero::Scheduled;

BOOST_AUTO_TEST_CASE(a_number_is_the_same_at_each_step_and_a_function_is_called) {
  BOOST_TEST(Scheduled(0.5).at(0) == 0.5F);
  BOOST_TEST(Scheduled(3).at(9) == 3);
  const Scheduled warm_up = [](std::int64_t step) { return 0.25F * static_cast<float>(step); };
  BOOST_TEST(warm_up.at(2) == 0.5F);
  const zero::LearningRate rate = warm_up;  // the name that it has in a learning rate's place
  BOOST_TEST(rate.at(4) == 1);
}

BOOST_AUTO_TEST_CASE(an_empty_function_is_refused) {
  BOOST_CHECK_THROW(Scheduled(std::function<float(std::int64_t)>()), zero::ContractError);
  BOOST_CHECK_THROW(Scheduled(static_cast<float (*)(std::int64_t)>(nullptr)), zero::ContractError);
}

BOOST_AUTO_TEST_CASE(what_a_function_returns_must_be_finite_and_not_negative) {
  for (const float wrong : {-1.0F, std::nanf(""), HUGE_VALF}) {
    const Scheduled setting = [=](std::int64_t step) { return step == 3 ? wrong : 1.0F; };
    BOOST_TEST(setting.is_valid());
    BOOST_TEST(setting.at(2) == 1);
    BOOST_CHECK_THROW((void)setting.at(3), zero::ContractError);
    BOOST_TEST(!Scheduled(wrong).is_valid());
  }
  BOOST_TEST(Scheduled(0).is_valid());
}

BOOST_AUTO_TEST_SUITE_END()
