// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Under the thread sanitizer: a schedule on CUDA streams has no race, and without any one of its
// waits it has one.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <vector>
#include <zero/cuda.cuh>
#include <zero/schedule/print.hpp>

#include "layer.cuh"
#include "ranks.hpp"

namespace race_reports {
std::atomic<int> seen{0};
}
extern "C" void __tsan_on_report(void*) { ++race_reports::seen; }

BOOST_AUTO_TEST_SUITE(race_test)

using cuda_tests::Gradient;
using cuda_tests::Layer;
using cuda_tests::Sizes;
using zero::Index;
using zero::Op;
using zero::Schedule;
using zero::Space;
using zero::Step;

auto model() { return zero::model(zero::units<Layer>("block", 4, Sizes{2, 8})); }

/// What a module is made of, around a schedule of the test's own; one rank.
class Rig {
  using Comm = zero::NcclCommunicator;
  using Runner = zero::detail::Runner<zero::AdamW, Comm>;
  using Buffers = typename Runner::Buffers;
  using Memory = zero::detail::RankMemory<Buffers, zero::CudaMemory, zero::detail::CudaStaged>;

 public:
  Rig(const Schedule& schedule, const zero::ParameterTable& table, const zero::Mesh<Comm>& mesh,
      const zero::detail::Schedules& schedules)
      : schedule_(schedule),
        table_(table),
        mesh_(mesh),
        shape_(zero::detail::control_shape<zero::AdamW>(table, mesh, options_)),
        memory_(table, schedules, 0, 0, shape_, options_),
        control_(memory_.buffers().control(), shape_, options_.loss_scale, memory_.staged()),
        activations_(zero::CudaMemory(), sizeof(float)),
        events_(schedule.steps.size()),
        streams_(options_, schedule.traits),
        runner_(table, mesh_, memory_.buffers(), control_, streams_, options_),
        executor_(schedule_, runner_) {
    streams_.fill_now(memory_.block(), 0, memory_.arena().used());
    zero::detail::list_ranges(control_, table, true, streams_);
    for (std::size_t t = 0; t < table.tensors().size(); ++t) control_.has_gradient(t);
    runner_.begin(schedule_, events_);
    control_.finish(1, 1);
    zero::detail::Optimizers<zero::AdamW>(zero::AdamW{}, table)
        .set_coefficients(control_, table, {});
  }
  /// The host never waits: all executions are in the queues at once.
  void train() {
    for (int k = 0; k < 2; ++k) {
      for (const zero::Compute& compute : schedule_.program.computes) {
        run_user(executor_.enter(compute.op, compute.unit));
        executor_.leave();
      }
      executor_.finish();
    }
    streams_.synchronize();
  }

 private:
  void run_user(const Step& step) {
    runner_.prepare(step);
    std::size_t params = 0, grads = 0;
    for (const Index g : schedule_.model.unit(step.subject)) {
      const zero::Array w = memory_.buffers().whole_params(
          Runner::nth_access(step, Space::params_whole, params++).index, g);
      zero::Array to(activations_.data(), 1, zero::DataType::fp32);  // of the forward pass
      if (step.op == Op::backward) {
        to = memory_.buffers().whole_gradient(
            Runner::nth_access(step, Space::grads_whole, grads++).index, g);
      }
      cuda_tests::add_gradient<float><<<1, 64, 0, streams_[step.stream].native()>>>(
          w.as<float>(), to.as<float>(), to.count == 1 ? 1 : w.count, Gradient{});
    }
  }

  const Schedule& schedule_;
  const zero::ParameterTable& table_;
  const zero::Mesh<Comm> mesh_;
  const zero::ModuleOptions options_{.poison = true};
  zero::ControlShape shape_;
  Memory memory_;
  zero::Control control_;
  zero::detail::Block<zero::CudaMemory> activations_;
  std::vector<zero::CudaEvent> events_;
  zero::detail::CudaStreams streams_;
  Runner runner_;
  zero::Executor<Runner> executor_;
};

/// Races that the sanitizer saw while one rank trained.
int races(const Schedule& schedule, const zero::ParameterTable& table,
          const zero::detail::Schedules& schedules) {
  race_reports::seen = 0;
  const auto outcomes = cuda_tests::outcomes(1, {}, [&](zero::NcclCommunicator& comm) {
    Rig(schedule, table, zero::mesh(comm), schedules).train();
  });
  BOOST_TEST(outcomes[0].error == "");
  return race_reports::seen.exchange(0);
}

BOOST_AUTO_TEST_CASE(a_step_of_stage_3_has_no_race_and_without_any_one_wait_it_has_one) {
  const auto table = zero::ParameterTable(model(), 1);
  const zero::StageValue stage = zero::stage_value<zero::Zero3>;
  const zero::ModuleOptions options;
  const zero::detail::Schedules schedules(stage, table, options);
  const Schedule schedule =
      zero::make_schedule(stage, table.shape(), zero::training(table.units().size(), 2));
  BOOST_TEST(races(schedule, table, schedules) == 0);
  std::size_t waits = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    for (std::size_t t = 0; t < zero::stream_count; ++t) {
      if (schedule.steps[i].waits[t] == zero::no_wait) continue;
      ++waits;
      Schedule mutated = schedule;
      mutated.steps[i].waits[t] = zero::no_wait;
      // The sanitizer remembers but the last few accesses to a word, chosen by chance.
      int seen = 0;
      for (int attempt = 0; attempt < 100 && seen == 0; ++attempt) {
        seen = races(mutated, table, schedules);
      }
      BOOST_CHECK_MESSAGE(seen > 0, "no race without the wait for step "
                                        << schedule.steps[i].waits[t] << " of"
                                        << zero::detail::line(schedule, i));
    }
  }
  BOOST_TEST(waits > 20U);
  BOOST_TEST_MESSAGE(waits << " waits");
}

BOOST_AUTO_TEST_SUITE_END()
