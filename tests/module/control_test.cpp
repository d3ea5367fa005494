// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>
#include <zero/module/control.hpp>

#include "../contract.hpp"

BOOST_AUTO_TEST_SUITE(control_test)

using zero::Control;
using zero::Op;

constexpr std::size_t units = 3, tensors = 4, groups = 3;
constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The controls of all ranks, whose blocks are summed in rank order as all_reduce does.
class World {
 public:
  explicit World(std::size_t ranks, const zero::LossScale& scaling = zero::LossScale::fixed(1),
                 double order = 2) {
    const zero::ControlShape shape{units, tensors, ranks, order, {}, groups};
    memory_.assign(ranks, std::vector<std::byte>(Control::bytes(shape)));
    controls_.reserve(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      controls_.emplace_back(memory_[r], shape, scaling);
      for (double& x : controls_[r].block()) x = 7;  // what was there before does not count
    }
  }
  Control& operator[](std::size_t rank) { return controls_[rank]; }
  std::size_t size() const { return controls_.size(); }

  /// A step in which all ranks run everything and one group has a norm.
  void begin(double square_norm) {
    for (Control& control : controls_) {
      control.begin_step();
      for (std::size_t u = 0; u < units; ++u) run(control, u, 0);
      for (std::size_t t = 0; t < tensors; ++t) control.has_gradient(t);
      control.set_norm(1, square_norm);
    }
  }
  static void run(Control& control, std::size_t unit, std::size_t micro_step) {
    control.ran(unit, Op::forward, micro_step);
    control.ran(unit, Op::backward, micro_step);
  }
  void finish(double divisor = 1, double max_norm = unlimited) {
    for (Control& control : controls_) control.finish(divisor, max_norm);
    decide();
  }
  void decide(std::size_t contributors = ~std::size_t{0}, std::size_t failed = ~std::size_t{0}) {
    std::vector<double> sum(controls_[0].block().size(), 0);
    for (std::size_t r = 0; r < size(); ++r) {
      controls_[r].pack(r, r < contributors, r == failed);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += controls_[r].block()[i];
    }
    for (Control& control : controls_) {
      std::copy(sum.begin(), sum.end(), control.block().begin());
      control.read();
      control.decide();
    }
  }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Control> controls_;
};

using contract::error_of;
bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(the_block_holds_all_notes_in_an_equal_part_for_each_rank) {
  for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
    const std::size_t block = zero::ControlShape{units, tensors, ranks}.block();
    BOOST_TEST(block % ranks == 0U);
    BOOST_TEST(block >= 1 + 4 * units + tensors);
    BOOST_TEST(block < 8 + 4 * units + tensors + ranks);
    const std::size_t with_parts = zero::ControlShape{units, tensors, ranks, 1}.block();
    BOOST_TEST(with_parts % ranks == 0U);
    BOOST_TEST(with_parts < 8 + 4 * units + tensors + 2 * ranks);
  }
}

BOOST_AUTO_TEST_CASE(the_norm_is_the_root_of_all_squares_over_the_divisor_on_all_ranks) {
  World world(3);
  world.begin(3);
  for (std::size_t r = 0; r < 3; ++r) world[r].set_norm(2, 9);
  world.finish(3);
  for (std::size_t r = 0; r < 3; ++r) {
    BOOST_TEST(world[r].applied());
    BOOST_TEST(world[r].norm() == 2.0);
    BOOST_TEST(world[r].divisor() == 3.0);
    BOOST_TEST(world[r].clip() == 1.0);
    BOOST_TEST(world[r].step() == 1);
  }
}

BOOST_AUTO_TEST_CASE(of_replicas_only_one_contributes_to_the_norm) {
  World world(4);
  world.begin(16);
  for (std::size_t r = 0; r < 4; ++r) world[r].finish(1, unlimited);
  world.decide(1);
  BOOST_TEST(world[3].norm() == 4.0);
}

BOOST_AUTO_TEST_CASE(clipping_scales_a_norm_above_the_limit_and_nothing_else) {
  World world(1);
  const auto clip = [&](double square_norm, double max_norm) {
    world.begin(square_norm);
    world.finish(2, max_norm);
    return world[0].clip();
  };
  BOOST_TEST(clip(400, 5) == 0.5);
  BOOST_TEST(clip(400, 10) == 1.0);
  BOOST_TEST(clip(400, unlimited) == 1.0);
  BOOST_TEST(clip(0, 1) == 1.0);
  BOOST_TEST(clip(400, 0) == 0.0);
}

BOOST_AUTO_TEST_CASE(ranks_that_ran_other_units_or_micro_steps_apply_nothing_and_know_which) {
  struct Difference {
    std::size_t unit;
    Op op;
    std::vector<std::size_t> first, others;
  };
  const Difference differences[] = {
      {1, Op::forward, {0}, {}},         {2, Op::backward, {}, {1}},
      {0, Op::forward, {0}, {1}},        {1, Op::backward, {0, 1}, {0, 2}},
      {0, Op::backward, {0, 1}, {1, 0}}, {2, Op::forward, {0, 1, 2}, {0, 1}}};
  for (const Difference& difference : differences) {
    World world(3);
    for (std::size_t r = 0; r < 3; ++r) {
      world[r].begin_step();
      world[r].has_gradient(0);
      world[r].set_norm(0, 1);
      for (const std::size_t m : r == 0 ? difference.first : difference.others) {
        world[r].ran(difference.unit, difference.op, m);
      }
    }
    world.finish();
    for (std::size_t r = 0; r < 3; ++r) {
      BOOST_TEST(!world[r].agreed());
      BOOST_TEST(!world[r].applied());
      BOOST_TEST(!world[r].options_differ());
      BOOST_TEST(world[r].disagreeing_unit() == difference.unit);
      BOOST_TEST((world[r].disagreeing_op() == difference.op));
      BOOST_TEST(world[r].counter(0) == 0);
      BOOST_TEST(world[r].step() == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(after_a_disagreement_the_next_step_is_as_good_as_new) {
  World world(2);
  world.begin(1);
  world[0].ran(0, Op::forward, 1);
  world.finish();
  BOOST_TEST(!world[0].applied());
  world.begin(4);
  world.finish();
  BOOST_TEST(world[1].applied());
  BOOST_TEST(world[1].agreed());
  BOOST_TEST(world[1].step() == 1);
}

BOOST_AUTO_TEST_CASE(ranks_that_finish_with_other_options_apply_nothing) {
  World world(2);
  world.begin(1);
  world[0].finish(2, unlimited);
  world[1].finish(2, 1);
  world.decide();
  BOOST_TEST(!world[0].applied());
  BOOST_TEST(world[0].options_differ());
  BOOST_TEST(world[1].options_differ());
}

BOOST_AUTO_TEST_CASE(a_norm_that_is_not_finite_or_a_rank_that_failed_makes_all_ranks_skip) {
  const double bad[] = {std::nan(""), unlimited, 1e80};  // the last one exceeds fp32
  for (const double square_norm : bad) {
    World world(2);
    world.begin(1);
    world[1].set_norm(0, square_norm);
    world.finish();
    for (std::size_t r = 0; r < 2; ++r) {
      BOOST_TEST(!world[r].applied());
      BOOST_TEST(world[r].agreed());
      BOOST_TEST(world[r].norm() == unlimited);
      BOOST_TEST(world[r].counter(0) == 0);
      BOOST_TEST(world[r].step() == 0);
    }
  }
  World world(2);
  world.begin(1);
  for (std::size_t r = 0; r < 2; ++r) world[r].finish(1, unlimited);
  world.decide(2, 1);
  BOOST_TEST(!world[0].applied());
  BOOST_TEST(!world[1].applied());
}

BOOST_AUTO_TEST_CASE(a_tensor_counts_an_update_if_any_rank_has_a_gradient_for_it) {
  World world(2);
  for (std::size_t r = 0; r < 2; ++r) {
    world[r].begin_step();
    world[r].set_norm(0, 1);
    world[r].has_gradient(r);
  }
  BOOST_TEST(world[0].noted(0));
  BOOST_TEST(!world[0].noted(1));
  world.finish();
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t t = 0; t < tensors; ++t) {
      BOOST_TEST(world[r].present(t) == (t < 2));
      BOOST_TEST(world[r].counter(t) == (t < 2 ? 1 : 0));
    }
  }
  world.begin(1);
  world.finish();
  BOOST_TEST(world[0].counter(0) == 2);
  BOOST_TEST(world[0].counter(3) == 1);
  BOOST_TEST(world[0].step() == 2);
}

BOOST_AUTO_TEST_CASE(step_and_counters_go_on_from_where_they_are_set) {
  World world(1);
  world[0].set_step(41);
  world[0].set_counter(2, 6);
  world.begin(1);
  world.finish();
  BOOST_TEST(world[0].step() == 42);
  BOOST_TEST(world[0].counter(2) == 7);
  BOOST_TEST(world[0].counter(1) == 1);
}

BOOST_AUTO_TEST_CASE(a_divisor_or_limit_that_makes_no_sense_is_refused) {
  World world(1);
  for (const double divisor : {0.0, -1.0, unlimited, std::nan("")}) {
    const std::string error = error_of([&] { world[0].finish(divisor, 1); });
    BOOST_TEST(mentions(error, "the divisor is"), error);
  }
  for (const double limit : {-1.0, std::nan("")}) {
    const std::string error = error_of([&] { world[0].finish(1, limit); });
    BOOST_TEST(mentions(error, "max_norm is"), error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
