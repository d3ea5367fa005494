// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// No wait of a schedule can be left out: some order of the streams then trains something else.
#define BOOST_TEST_MODULE dropped_wait
#define BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
#include <bit>
#include <sstream>

#include "grid.hpp"

using zero::Index;
using zero::make_schedule;
using zero::no_wait;
using zero::Op;
using zero::Schedule;
using zero::Space;
using zero::Step;
using zero::StreamId;
using zero::ThreadCommunicator;

namespace {

using Bits = std::vector<std::uint32_t>;
using Runner = zero::detail::Runner<zero::AdamW, ThreadCommunicator, float>;
using Buffers = Runner::Buffers;

constexpr std::size_t executions = 4;

/// What a module is made of, around a schedule of the test's own. The user's code is enqueued, so that
/// the host never waits: all executions are in the queues at once.
class Rig {
 public:
  Rig(const Schedule& schedule, const zero::ParameterTable& table,
      const zero::Mesh<ThreadCommunicator>& mesh, const zero::ModuleOptions& options)
      : schedule_(schedule), table_(table), mesh_(mesh), options_(options), slots_(sizes(schedule, table)),
        memory_(needed()), arena_(memory_.data(), memory_.size() * sizeof(Block)),
        buffers_(arena_, table, schedule, slots_, mesh.shard.rank(), mesh.world.size()),
        control_(buffers_.control_block(), buffers_.norms(), table.units().size(), table.tensors().size()),
        activations_(extent(schedule, Space::activations)), events_(schedule.steps.size()),
        streams_(options_), runner_(table_, mesh_, buffers_, control_, streams_, grid::adam, options_),
        executor_(schedule_, runner_) {
    initialize();
    for (std::size_t t = 0; t < table.tensors().size(); ++t) control_.has_gradient(t);
    runner_.begin(schedule_, events_);
    control_.finish(static_cast<double>(mesh.world.size()), 0.5);
  }

  Bits train() {
    for (std::size_t k = 0; k < executions; ++k) {
      for (const zero::Compute& compute : schedule_.program.computes) {
        run_user(executor_.enter(compute.op, compute.unit));
        executor_.leave();
      }
      executor_.finish();
    }
    streams_.synchronize();
    Bits bits;
    const auto keep = [&](std::span<const float> values) {
      for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
    };
    for (std::size_t g = 0; g < table_.groups().size(); ++g) {
      const Buffers::Group& group = buffers_.group(g);
      keep(group.params);
      for (const auto& state : group.states) keep(state);
    }
    bits.push_back(control_.applied());
    bits.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(control_.norm())));
    return bits;
  }

 private:
  struct alignas(zero::memory_alignment) Block {
    std::byte bytes[zero::memory_alignment];
  };
  static zero::SlotSizes sizes(const Schedule& schedule, const zero::ParameterTable& table) {
    zero::SlotSizes slots;
    slots.include(schedule, table);
    return slots;
  }
  std::size_t needed() const {
    zero::Arena counter;
    Buffers(counter, table_, schedule_, slots_, 0, mesh_.world.size());
    return (counter.used() + sizeof(Block) - 1) / sizeof(Block);
  }
  void initialize() {
    for (const zero::TensorInfo& tensor : table_.tensors()) {
      zero::detail::KeptState<ThreadCommunicator, Buffers, float>(table_, mesh_, buffers_, schedule_)
          .set_weights(tensor, [&](std::size_t i) { return grid::initial_weight(tensor, i); });
    }
  }
  /// Reads and writes whatever the operands of a compute step say.
  void run_user(const Step& step) {
    runner_.prepare(step);
    streams_[step.stream].enqueue("user", [this, &step] {
      const Index unit = step.subject;
      std::size_t params = 0, grads = 0;
      float& kept = activations_[Runner::nth_access(step, Space::activations, 0).index];
      if (step.op == Op::forward) kept = 0;
      for (const Index g : schedule_.model.unit(unit)) {
        const std::span<float> w =
            buffers_.whole_params(Runner::nth_access(step, Space::params_whole, params++).index);
        const std::span<float> to = step.op == Op::forward || table_.groups()[g].frozen
            ? std::span<float>()
            : buffers_.whole_gradient(Runner::nth_access(step, Space::grads_whole, grads++).index);
        const zero::FlatLayout& layout = table_.groups()[g].layout;
        for (std::size_t t = 0; t < layout.tensors(); ++t) {
          const std::size_t begin = layout.tensor_offset(t), n = layout.tensor_size(t);
          flow_ = flow_ * 0.5F + grid::activation(w.data() + begin, n);
          if (step.op == Op::forward) kept += flow_;
          const std::uint64_t key = grid::gradient_key(mesh_.world.rank(), 0, step.micro_step, unit, t);
          for (std::size_t i = 0; !to.empty() && i < n; ++i) {
            to[begin + i] += grid::gradient(key, i, w[begin + i], kept + flow_, false);
          }
        }
      }
    });
  }

  const Schedule& schedule_;
  const zero::ParameterTable& table_;
  const zero::Mesh<ThreadCommunicator> mesh_;
  const zero::ModuleOptions options_;
  zero::SlotSizes slots_;
  std::vector<Block> memory_;
  zero::Arena arena_;
  Buffers buffers_;
  zero::Control control_;
  float flow_ = 0;
  std::vector<float> activations_;
  std::vector<zero::HostEvent> events_;
  zero::detail::HostStreams streams_;
  Runner runner_;
  zero::Executor<Runner> executor_;
};

struct Setting {
  std::size_t world, replicas;
  zero::ParameterTable table;

  Setting(const grid::Shapes& shapes, std::size_t ranks, std::size_t copies)
      : world(ranks), replicas(copies), table(grid::make_model(shapes), ranks / copies, 4) {}

  /// What all ranks end with; one word if it is an error.
  Bits train(const Schedule& schedule, zero::StreamMode mode, std::size_t seed) const {
    std::vector<Bits> bits(world);
    try {
      zero::run_threads(
          world,
          [&](ThreadCommunicator& comm) {
            Rig rig(schedule, table, zero::mesh(comm, replicas),
                    {.streams = mode,
                     .seed = seed * 31 + comm.rank(),
                     .user_code = zero::UserCode::on_stream,
                     .poison = true});
            bits[comm.rank()] = rig.train();
          },
          {.time_limit = std::chrono::seconds(20)});
    } catch (const zero::Error&) {
      return {0};
    }
    for (std::size_t r = 1; r < world; ++r) bits[0].insert(bits[0].end(), bits[r].begin(), bits[r].end());
    return bits[0];
  }
};

std::string line(const Schedule& schedule, std::size_t step) {
  return zero::detail::line(schedule, step);
}

/// The intact schedule is right in 100 orders; without any one wait it is wrong in some.
void check_waits(const char* stage, const Setting& setting, const Schedule& schedule) {
  const Bits expected = setting.train(schedule, zero::StreamMode::inline_run, 0);
  BOOST_TEST_REQUIRE(expected.size() > 1U);
  std::size_t wrong = 0;
  for (std::size_t seed = 0; seed < 100; ++seed) {
    wrong += setting.train(schedule, zero::StreamMode::shuffled, seed) != expected;
  }
  BOOST_TEST(wrong == 0U);

  std::size_t waits = 0, most = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    for (std::size_t t = 0; t < zero::stream_count; ++t) {
      if (schedule.steps[i].waits[t] == no_wait) continue;
      ++waits;
      Schedule mutated = schedule;
      mutated.steps[i].waits[t] = no_wait;
      BOOST_CHECK_MESSAGE(zero::verify(mutated).rule != zero::Rule::none,
                          stage << ": verify accepts a dropped wait of" << line(schedule, i));
#if !defined(__SANITIZE_THREAD__)  // what such a schedule does is a race
      constexpr std::size_t seeds = 400;
      std::size_t seed = 0;
      while (seed < seeds && setting.train(mutated, zero::StreamMode::shuffled, seed) == expected) ++seed;
      most = std::max(most, seed);
      BOOST_CHECK_MESSAGE(seed < seeds, stage << ": no order shows the dropped wait for step "
                                              << schedule.steps[i].waits[t] << " of" << line(schedule, i));
#endif
    }
  }
  BOOST_TEST_MESSAGE(stage << ": " << waits << " waits, shown after at most " << most + 1 << " orders");
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_wait_of_zero3_is_needed) {
  const Setting setting(grid::models[3], 2, 1);
  check_waits("Zero3", setting,
              make_schedule<zero::Zero3>(setting.table.shape(), zero::training(4, 1)));
  check_waits("Zero3, 2 micro-steps", setting,
              make_schedule<zero::Zero3>(setting.table.shape(), zero::training(4, 2)));
}

BOOST_AUTO_TEST_CASE(each_wait_of_zero3_is_needed_where_tensors_are_tied_and_frozen) {
  const Setting setting(grid::models[4], 2, 1);
  check_waits("Zero3, tied", setting,
              make_schedule<zero::Zero3>(setting.table.shape(), zero::training(5, 1)));
}

BOOST_AUTO_TEST_CASE(each_wait_of_zero1_is_needed) {
  const Setting setting(grid::models[2], 2, 1);
  check_waits("Zero1", setting,
              make_schedule<zero::Zero1>(setting.table.shape(), zero::training(3, 1)));
}

BOOST_AUTO_TEST_CASE(each_wait_of_hybrid_is_needed) {
  const Setting setting(grid::models[3], 2, 2);
  check_waits("Hybrid", setting,
              make_schedule<zero::Hybrid>(setting.table.shape(), zero::training(4, 1)));
}
