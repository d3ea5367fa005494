// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Modules over CUDA and NCCL train the bits that modules over threads of the host train.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>
#include <zero/policy/stages.hpp>

#include "../share.hpp"
#include "training.hpp"

BOOST_AUTO_TEST_SUITE(module_test)

using training::Result;
using training::Setup;
using training::StepPlan;

/// Trains in both worlds and compares all that ranks end with.
void check_both(const Setup& setup) {
  const std::vector<Result> host = training::on_host(setup), cuda = training::on_cuda(setup);
  for (std::size_t rank = 0; rank < setup.ranks; ++rank) {
    BOOST_TEST_CONTEXT("rank " << rank) {
      BOOST_TEST(cuda[rank].error == "");
      BOOST_TEST((cuda[rank].bits == host[rank].bits));
      BOOST_TEST(cuda[rank].counter == host[rank].counter);
      BOOST_REQUIRE(cuda[rank].steps.size() == host[rank].steps.size());
      for (std::size_t k = 0; k < host[rank].steps.size(); ++k) {
        const zero::StepResult &a = cuda[rank].steps[k], &b = host[rank].steps[k];
        BOOST_TEST(a.applied == b.applied);
        BOOST_TEST(a.step == b.step);
        BOOST_TEST(a.loss_scale == b.loss_scale);
        // The order in which squares are added is the device's own.
        BOOST_TEST((a.norm == b.norm || std::abs(a.norm - b.norm) < 1e-12 * b.norm));
      }
      BOOST_TEST((cuda[rank].held == cuda[rank].predicted));
    }
  }
}

BOOST_AUTO_TEST_CASE(all_stages_train_the_bits_of_the_host) {
  training::for_each_stage(
      [](const char* name, const zero::StageValue& stage, std::size_t replicas) {
        for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
          if (ranks % replicas != 0 || (replicas > 1 && ranks < 4)) continue;
          if (share > 1 && ranks != 4) continue;
          BOOST_TEST_CONTEXT(name << ", " << ranks << " ranks") {
            check_both({.stage = stage,
                        .ranks = ranks,
                        .replicas = replicas,
                        .options = {.poison = true},
                        .steps = {{.waits = false},
                                  {.micro_steps = 3, .waits = false},
                                  {.skips_a_unit = true},
                                  {.forks = true}}});
          }
        }
      });
}

BOOST_AUTO_TEST_CASE(a_sharded_optimizer_of_flat_arrays_trains_the_bits_of_the_host) {
  for (const std::size_t ranks : {1U, 3U}) {
    BOOST_TEST((training::flat_on_cuda(ranks) == training::flat_on_host(ranks)));
    BOOST_TEST(training::flat_on_host(ranks)[0][99] != 0.99F);
  }
}

/// Four steps: one, then a captured one that runs twice with another in between.
std::vector<StepPlan> captured_among_others() {
  const StepPlan captured{
      .micro_steps = 2, .finish = {.max_norm = 3}, .forks = true, .captured = true};
  return {{}, captured, {.micro_steps = 3}, captured, captured};
}

BOOST_AUTO_TEST_CASE(optimizer_state_in_memory_of_the_host_trains_the_bits_of_the_host) {
  using zero::InHostMemory, zero::OffloadOf;
  for (const zero::StageValue& stage : {zero::stage_value<OffloadOf<zero::Zero3, InHostMemory>>,
                                        zero::stage_value<OffloadOf<zero::Zero1, InHostMemory>>}) {
    Setup setup{.stage = stage,
                .types = {.compute = zero::DataType::bf16},
                .options = {.poison = true},
                .steps = {{}, {.undone = true}, {.not_finite = true}, {.micro_steps = 2}}};
    check_both(setup);
    setup.freezes = true;
    check_both(setup);
    setup.freezes = false;
    setup.steps = captured_among_others();
    for (StepPlan& plan : setup.steps) plan.exact = true;
    training::fit_for_capture(setup);
    check_both(setup);
    setup.steps.erase(setup.steps.begin());  // what was initialized is not part of the graph
    check_both(setup);
  }
}
BOOST_AUTO_TEST_CASE(a_captured_step_trains_the_bits_of_one_that_is_not) {
  training::for_each_stage(
      [](const char* name, const zero::StageValue& stage, std::size_t replicas) {
        BOOST_TEST_CONTEXT(name) {
          Setup setup{
              .stage = stage, .ranks = 4, .replicas = replicas, .steps = captured_among_others()};
          for (StepPlan& plan : setup.steps) plan.exact = true;  // clipping has the same bits
          training::fit_for_capture(setup);
          if (share == 1 || !stage.traits.shards_params) check_both(setup);
          if (!stage.traits.shards_params) return;
          setup.types = {.compute = zero::DataType::bf16};  // and biases in fp32
          check_both(setup);
        }
      });
}

// What an earlier step left of a unit's norm counts no more, captured or not.
BOOST_AUTO_TEST_CASE(a_unit_that_a_program_leaves_out_has_no_part_in_the_norm) {
  zero::Program program = zero::training(5);
  program.computes.erase_if([](const zero::Compute& c) { return c.unit == 0; });
  for (const bool captured : {false, true}) {
    const StepPlan without{.exact = true, .captured = captured, .program = &program};
    Setup setup{.stage = zero::stage_value<zero::Zero3>,
                .steps = {{.exact = true}, without, {.exact = true}, without, {.exact = true}}};
    training::fit_for_capture(setup);
    check_both(setup);
  }
}

BOOST_AUTO_TEST_CASE(a_loss_scale_that_follows_overflows_does_so_in_captured_steps_too) {
  const StepPlan good{.exact = true, .captured = true};
  Setup setup{.stage = zero::stage_value<zero::Zero3>,
              .options = {.loss_scale = {.initial = 64, .growth_interval = 2}},
              .steps = {good, {.not_finite = true}, good, good, {.not_finite = true}, good}};
  training::fit_for_capture(setup);
  check_both(setup);
}

BOOST_AUTO_TEST_CASE(every_type_of_weights_wires_sums_and_moments_has_the_bits_of_the_host) {
  using zero::DataType;
  const zero::Precision all[] = {
      {.compute = DataType::bf16},
      {.compute = DataType::bf16, .reduce = DataType::bf16, .moments = DataType::bf16},
      {.compute = DataType::bf16, .master = false},
      {.gather = DataType::bf16, .reduce = DataType::fp16},
      {.gather = DataType::fp16, .reduce = DataType::bf16}};
  for (const zero::Precision& types : all) {
    if (share > 1 && (&types - all) % 4 != 1) continue;
    training::for_each_stage(
        [&](const char* name, const zero::StageValue& stage, std::size_t replicas) {
          BOOST_TEST_CONTEXT(name << ", types " << (&types - all)) {
            check_both({.stage = stage,
                        .ranks = 2 * replicas,
                        .replicas = replicas,
                        .types = types,
                        .options = {.rounding_seed = 9},
                        .steps = {{}, {.micro_steps = 2}, {}}});
          }
        });
  }
}

BOOST_AUTO_TEST_CASE(norms_of_any_order_decide_alike) {
  for (const double order : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    BOOST_TEST_CONTEXT("order " << order) {
      check_both({.stage = zero::stage_value<zero::Zero2>,
                  .ranks = 3,
                  .options = {.norm = order},
                  .steps = {{.exact = true}, {.exact = true, .not_finite = true}}});
    }
  }
}

BOOST_AUTO_TEST_CASE(tensors_can_be_frozen_between_steps) {
  check_both({.stage = zero::stage_value<zero::Zero3>,
              .ranks = 3,
              .steps = {{}, {.micro_steps = 2}, {}},
              .freezes = true});
}

BOOST_AUTO_TEST_CASE(what_a_checkpoint_takes_and_puts_back_is_all_that_counts) {
  const std::vector<StepPlan> straight{{}, {}}, detour{{}, {.micro_steps = 2, .undone = true}, {}};
  for (const zero::Precision& types :
       {zero::Precision{}, zero::Precision{.compute = zero::DataType::bf16}}) {
    if (share > 1 && types.compute == zero::DataType::fp32) continue;
    training::for_each_stage(
        [&](const char* name, const zero::StageValue& stage, std::size_t replicas) {
          Setup setup{.stage = stage, .ranks = 4, .replicas = replicas, .types = types};
          setup.steps = straight;
          const std::vector<Result> one = training::on_cuda(setup);
          setup.steps = detour;
          const std::vector<Result> other = training::on_cuda(setup);
          for (std::size_t rank = 0; rank < 4; ++rank) {
            BOOST_TEST(other[rank].error == "", name);
            BOOST_TEST((one[rank].bits == other[rank].bits), name);
          }
        });
  }
}

BOOST_AUTO_TEST_SUITE_END()
