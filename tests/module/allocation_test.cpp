// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Nothing is allocated between the construction and the destruction of a module.
#include <boost/test/unit_test.hpp>

#include "../counting_new.hpp"
#include "grid.hpp"

BOOST_AUTO_TEST_SUITE(allocation_test)

using grid::Block;
using grid::First;
using grid::Last;
using zero::StreamMode;
using zero::UserCode;

template <class Unit, class F>
void on_stream(Unit& unit, zero::UserCode code, F f) {
  if (code == UserCode::on_caller) return f();
  unit.stream().enqueue("user", f);
}
template <template <class> class Kind, class Unit>
void backward(Unit& unit, zero::UserCode code) {
  const auto w = unit.template weights<Kind>();
  const auto g = unit.template gradients<Kind>();
  on_stream(unit, code, [from = w.a.data(), to = g.a.data(), n = g.a.size()] {
    for (std::size_t i = 0; i < n; ++i) to[i] += zero::to_float(from[i]);
  });
}
template <class Unit>
void dispatch(Unit& unit, zero::UserCode code) {
  if (unit.index() == 0) return backward<First>(unit, code);
  if (unit.index() == 4) return backward<Last>(unit, code);
  backward<Block>(unit, code);
}

/// Orders of computing of the user's own, whose memory is reserved.
const std::vector<zero::Program>& programs() {
  static const std::vector<zero::Program> all = [] {
    zero::Program prefix = zero::evaluation(5);
    prefix.computes.resize(3);
    return std::vector{zero::recomputing(5, 3, 2), prefix};
  }();
  return all;
}

/// Everything that a training loop calls.
template <class Module>
void train(Module& module, zero::UserCode code, std::span<float> whole) {
  module.initialize([](const zero::TensorInfo& tensor, std::size_t element) {
    return static_cast<float>(tensor.unit + element);
  });
  for (const std::size_t micro_steps : {1U, 4U, 4U, 1U, 2U, 1U, 1U}) {
    auto step = module.begin_step({.micro_steps = micro_steps});
    for (std::size_t m = 0; m < micro_steps; ++m) {
      for (auto unit : step.forward()) on_stream(unit, code, [] {});
      for (auto unit : step.backward()) dispatch(unit, code);
    }
    (void)step.finish({.max_norm = 0.5});
    auto pass = module.evaluate();
    for (std::size_t u = 0; u < 5; ++u) auto unit = pass.forward(u);
  }
  for (const zero::Program* program :
       {&programs()[0], &programs()[0], static_cast<const zero::Program*>(nullptr)}) {
    auto step = module.begin_step({.micro_steps = 1, .program = program});
    for (auto unit : step.pass()) {
      if (unit.is_backward()) dispatch(unit, code);
    }
    (void)step.finish();
    auto pass = module.evaluate({.program = program == nullptr ? nullptr : &programs()[1]});
    for (auto unit : pass.forward()) on_stream(unit, code, [] {});
  }
  { auto abandoned = module.begin_step(); }
  module.read_weights("first.0.a", whole);
  module.write_weights("first.0.a", whole);
  module.synchronize();
}

template <class StageType, class T = float>
std::size_t allocations_in_training(std::size_t world, const zero::ModuleOptions& options) {
  std::size_t count = 0;
  zero::run_threads(world, [&](zero::ThreadCommunicator& comm) {
    std::vector<float> whole(grid::models[4].first[0].elements());
    auto module =
        zero::shard<StageType, T>(grid::make_model(grid::models[4]), comm, grid::adam, options);
    comm.barrier();  // all modules are there
    if (comm.rank() == 0) count = allocations;
    comm.barrier();
    train(module, options.user_code, whole);
    comm.barrier();  // all have trained
    if (comm.rank() == 0) count = allocations - count;
    comm.barrier();
  });
  return count;
}

template <class StageType, class T = float>
void check(const char* stage) {
  for (const StreamMode mode :
       {StreamMode::inline_run, StreamMode::asynchronous, StreamMode::shuffled}) {
    for (const UserCode code : {UserCode::on_caller, UserCode::on_stream}) {
      for (const std::size_t world : {1U, 3U}) {
        const std::size_t count =
            allocations_in_training<StageType, T>(world, {.streams = mode,
                                                          .user_code = code,
                                                          .max_micro_steps = 4,
                                                          .programs = programs(),
                                                          .poison = true});
        BOOST_CHECK_MESSAGE(count == 0, stage << ": " << count << " allocations on " << world
                                              << " ranks, streams " << static_cast<int>(mode)
                                              << ", user code " << static_cast<int>(code));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_count_sees_an_allocation) {
  const std::size_t before = allocations;
  int* volatile kept = new int(1);  // not to be optimised away
  delete kept;
  BOOST_TEST(allocations > before);
}
BOOST_AUTO_TEST_CASE(training_allocates_nothing_without_shards) { check<zero::Ddp>("Ddp"); }
BOOST_AUTO_TEST_CASE(training_allocates_nothing_in_stage_1) { check<zero::Zero1>("Zero1"); }
BOOST_AUTO_TEST_CASE(training_allocates_nothing_in_stage_2) {
  check<zero::Zero2, zero::bf16>("Zero2 of bf16");
}
BOOST_AUTO_TEST_CASE(training_allocates_nothing_in_stage_3) {
  check<zero::Zero3>("Zero3");
  check<zero::Zero3, zero::bf16>("Zero3 of bf16");
}
BOOST_AUTO_TEST_CASE(training_allocates_nothing_where_all_types_differ) {
  using enum zero::DataType;
  check<zero::Zero1, zero::WithPrecision<zero::Precision{.gather = bf16, .reduce = fp16}>>("Zero1");
  check<zero::Zero3, zero::WithPrecision<zero::Precision{
                         .compute = bf16, .reduce = fp16, .moments = bf16, .master = false}>>(
      "Zero3 without masters");
}

BOOST_AUTO_TEST_SUITE_END()
