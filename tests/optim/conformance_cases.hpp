// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The cases of conformance.hpp. Included within the test suite of a model, after what they ask for.

BOOST_AUTO_TEST_CASE_TEMPLATE(an_array_cut_anywhere_gives_the_same_bits, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  const auto c = Model::make().coefficients(3, 2, true);
  for (const std::size_t n : std::vector<std::size_t>{1, 2, 3, 63, 64, 65, 200, 1100}) {
    conformance::Arrays<O> whole(n);
    whole.update(c, 0, n);
    for (std::size_t cut = 0; cut <= n; ++cut) {
      conformance::Arrays<O> parts(n);
      parts.update(c, 0, cut);
      parts.update(c, cut, n - cut);
      BOOST_REQUIRE(parts == whole);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(each_element_alone_gives_the_same_bits, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  constexpr std::size_t n = 2100;
  const auto c = Model::make().coefficients(1, 0, true);
  conformance::Arrays<O> whole(n), single(n);
  whole.update(c, 0, n);
  for (std::size_t i = 0; i < n; ++i) single.update(c, i, 1);
  BOOST_TEST((single == whole));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_empty_part_changes_nothing_and_needs_no_memory, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  const auto c = Model::make().coefficients(1, 0, true);
  conformance::Arrays<O> arrays(5);
  arrays.update(c, 5, 0);
  BOOST_TEST((arrays == conformance::Arrays<O>(5)));
  const std::array<float*, O::states + 1> none{};
  zero::update<O, float>(c, 1.0F, 1.0F, nullptr, nullptr, nullptr, none.data(), 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_lies_around_a_part_is_neither_read_nor_written, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  const auto c = Model::make().coefficients(1, 0, true);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t begin : std::vector<std::size_t>{1, 2, 3, 70}) {
    conformance::Arrays<O> expected(80), padded(80);
    expected.update(c, begin, 9);
    const auto poison = [&](std::vector<float>& values) {
      for (std::size_t i = 0; i < 80; ++i) {
        if (i < begin || i >= begin + 9) values[i] = nan;
      }
    };
    const auto poison_all = [&](conformance::Arrays<O>& arrays) {
      poison(arrays.gradient);
      poison(arrays.master);
      for (auto& state : arrays.states) poison(state);
    };
    poison_all(padded);
    padded.update(c, begin, 9);
    poison_all(expected);
    BOOST_TEST((padded == expected));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(decay_touches_only_tensors_that_decay, Model, Models) {
  auto optimizer = Model::make();
  const std::vector<float> start{1, -2, 3}, gradient{0.5F, 0.25F, -4};
  const auto decayed = conformance::after(optimizer, start, gradient, true);
  const auto spared = conformance::after(optimizer, start, gradient, false);
  conformance::settings(optimizer).weight_decay = 0;
  const auto plain = conformance::after(optimizer, start, gradient, true);
  BOOST_TEST((conformance::bits(spared) == conformance::bits(plain)));
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(decayed[i] != plain[i]);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_gradient_of_zero_moves_nothing_but_decay_applies, Model, Models) {
  const std::vector<float> start{1, -2, 0}, none{0, 0, 0};
  const auto spared = conformance::after(Model::make(), start, none, false);
  BOOST_TEST((conformance::bits(spared) == conformance::bits(start)));
  const auto decayed = conformance::after(Model::make(), start, none, true);
  BOOST_TEST((0 < decayed[0] && decayed[0] < 1));
  BOOST_TEST((-2 < decayed[1] && decayed[1] < 0));
  BOOST_TEST(decayed[2] == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_gradient_that_counts_is_divided_and_clipped, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  const auto c = Model::make().coefficients(2, 1, true);
  constexpr std::size_t n = 130;
  conformance::Arrays<O> plain(n), scaled(n);
  for (float& g : scaled.gradient) g *= 16;
  plain.update(c, 0, n, 1, 1);
  scaled.update(c, 0, n, 4, 0.25F);
  scaled.gradient = plain.gradient;
  BOOST_TEST((scaled == plain));
  conformance::Arrays<O> thirds(n), divided(n);
  for (float& g : thirds.gradient) g /= 3;
  thirds.update(c, 0, n, 1, 1);
  divided.update(c, 0, n, 3, 1);
  divided.gradient = thirds.gradient;
  BOOST_TEST((divided == thirds));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_weights_that_compute_are_the_rounded_master, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  constexpr std::size_t n = 1030;
  conformance::Arrays<O> arrays(n);
  arrays.update(Model::make().coefficients(1, 0, true), 0, n);
  for (std::size_t i = 0; i < n; ++i) {
    BOOST_REQUIRE(arrays.compute[i].bits == zero::bf16(arrays.master[i]).bits);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_learning_rate_may_follow_the_schedule, Model, Models) {
  auto optimizer = Model::make();
  const std::vector<float> start{1, 2}, gradient{3, -4};
  conformance::settings(optimizer).learning_rate = 0.5F;
  const auto constant = conformance::after(optimizer, start, gradient, true);
  conformance::settings(optimizer).learning_rate = [](std::int64_t step) {
    return step == 7 ? 0.5F : 0.0F;
  };
  const auto at_7 = conformance::after(optimizer, start, gradient, true, 7);
  const auto at_8 = conformance::after(optimizer, start, gradient, true, 8);
  BOOST_TEST((conformance::bits(at_7) == conformance::bits(constant)));
  BOOST_TEST((conformance::bits(at_8) == conformance::bits(start)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_weight_decay_may_follow_the_schedule, Model, Models) {
  auto optimizer = Model::make();
  const std::vector<float> start{1, 2}, gradient{3, -4};
  conformance::settings(optimizer).weight_decay = 0.25F;
  const auto constant = conformance::after(optimizer, start, gradient, true);
  conformance::settings(optimizer).weight_decay = 0;
  const auto none = conformance::after(optimizer, start, gradient, true);
  conformance::settings(optimizer).weight_decay = [](std::int64_t step) {
    return step == 7 ? 0.25F : 0.0F;
  };
  const auto at_7 = conformance::after(optimizer, start, gradient, true, 7);
  const auto at_8 = conformance::after(optimizer, start, gradient, true, 8);
  BOOST_TEST((conformance::bits(at_7) == conformance::bits(constant)));
  BOOST_TEST((conformance::bits(at_8) == conformance::bits(none)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(long_runs_keep_the_coefficients_finite, Model, Models) {
  using O = conformance::OptimizerOf<Model>;
  for (const std::int64_t counter : std::vector<std::int64_t>{1, 1000000000, INT64_MAX}) {
    conformance::Arrays<O> arrays(70);
    arrays.update(Model::make().coefficients(counter, counter - 1, true), 0, 70);
    for (const float weight : arrays.master) BOOST_REQUIRE(std::isfinite(weight));
  }
}
