// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// No wait of a schedule can be left out: some order of the streams then trains something else.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "../share.hpp"
#include "grid.hpp"

BOOST_AUTO_TEST_SUITE(dropped_wait_test)

using zero::Index;
using zero::make_schedule, zero::no_wait, zero::Op;
using zero::Schedule, zero::Space, zero::Step, zero::StreamId;
using zero::ThreadCommunicator;
using zero::detail::HostStore, zero::detail::HostStreams;

using Bits = std::vector<std::uint32_t>;

constexpr std::size_t executions = 3;

/// A rank whose peers hold what it holds, so that it needs none: a collective is a task that is
/// always ready. Nothing but the waits of a schedule then orders the streams, neither peers nor the
/// order in which collectives were issued, and a seed always gives the same order.
class Mirror {
 public:
  using Stream = zero::HostStream;

  Mirror(std::size_t rank, std::size_t size) : rank_(rank), size_(size) {}
  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  zero::Traffic sent() const { return {}; }
  Mirror split(int, int) const { return {0, 1}; }
  void abort(std::string_view) const noexcept {}

  template <class T>
  void all_gather(Stream& stream, const T* in, T* out, std::size_t count, zero::Label = {}) const {
    stream.enqueue("all_gather", [in, out, count, n = size_] {
      for (std::size_t r = 0; r < n; ++r) {
        if (out + r * count != in) std::copy_n(in, count, out + r * count);
      }
    });
  }
  template <class T>
  void reduce_scatter(Stream& stream, const T* in, T* out, std::size_t count,
                      zero::Accumulate accumulate = {}, zero::Label = {},
                      zero::Reduction = {}) const {
    const bool adds = accumulate == zero::Accumulate::yes;
    stream.enqueue("reduce_scatter", [own = in + rank_ * count, out, count, adds, n = size_] {
      for (std::size_t i = 0; i < count; ++i) {
        const Sum<T> sum = static_cast<Sum<T>>(n) * static_cast<Sum<T>>(own[i]);
        out[i] = T(sum + (adds ? static_cast<Sum<T>>(out[i]) : Sum<T>{}));
      }
    });
  }
  template <class T>
  void all_reduce(Stream& stream, T* data, std::size_t count, zero::Label = {},
                  zero::Reduction = {}) const {
    stream.enqueue("all_reduce", [data, count, n = size_] {
      for (std::size_t i = 0; i < count; ++i) {
        data[i] = T(static_cast<Sum<T>>(data[i]) * static_cast<Sum<T>>(n));
      }
    });
  }
  template <class T>
  void broadcast(Stream&, T*, std::size_t, std::size_t, zero::Label = {}) const {}
  void barrier(Stream&, zero::Label = {}) const {}

 private:
  template <class T>
  using Sum = zero::detail::SumType<T>;

  std::size_t rank_, size_;
};

/// What a module is made of, around a schedule of the test's own. The user's code is enqueued, so
/// that the host never waits: all executions are in the queues at once.
template <class Comm>
class Rig {
  using Runner = zero::detail::Runner<zero::AdamW, Comm>;
  using Buffers = typename Runner::Buffers;

 public:
  Rig(const Schedule& schedule, const zero::ParameterTable& table, const zero::Mesh<Comm>& mesh,
      const zero::ModuleOptions& options)
      : schedule_(schedule),
        table_(table),
        mesh_(mesh),
        options_(options),
        slots_(sizes(schedule, table)),
        memory_(needed()),
        arena_(memory_.data(), memory_.size() * sizeof(Block)),
        buffers_(arena_, table, schedule, slots_, mesh.shard.rank(), 0, shape()),
        control_(buffers_.control(), shape()),
        activations_(extent(schedule, Space::activations)),
        events_(schedule.steps.size()),
        streams_(options_, schedule.traits),
        at_rest_(buffers_, schedule_.traits, streams_, store_),
        optimizers_(grid::adam, table),
        runner_(table_, mesh_, buffers_, control_, streams_, options_, &store_),
        executor_(schedule_, runner_) {
    store_.open(schedule.traits.state_home, buffers_.regions().total(), {}, "0");
    initialize();
    for (std::size_t t = 0; t < table.tensors().size(); ++t) control_.has_gradient(t);
    runner_.begin(schedule_, events_);
    zero::detail::list_ranges(control_, table, true, streams_);
    control_.finish(static_cast<double>(mesh.world.size()), 0.5);
    optimizers_.set_coefficients(control_, table, {});
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
    const auto keep = [&](const zero::Array& values) {
      for (std::size_t i = 0; i < values.count; ++i) {
        bits.push_back(std::bit_cast<std::uint32_t>(values.as<float>()[i]));
      }
    };
    for (std::size_t g = 0; g < table_.groups().size(); ++g) {
      const typename Buffers::Group& group = at_rest_.kept(g, false);
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
  zero::ControlShape shape() const {
    return zero::detail::control_shape<zero::AdamW>(table_, mesh_.world.size(), options_);
  }
  std::size_t needed() const {
    zero::Arena counter;
    Buffers(counter, table_, schedule_, slots_, 0, 0, shape());
    return (counter.used() + sizeof(Block) - 1) / sizeof(Block);
  }
  void initialize() {
    for (const zero::TensorInfo& tensor : table_.tensors()) {
      zero::detail::KeptState<zero::AdamW, Comm, Buffers, HostStreams>(table_, mesh_, at_rest_,
                                                                       schedule_, streams_)
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
        const auto* w =
            buffers_.whole_params(Runner::nth_access(step, Space::params_whole, params++).index, g)
                .template as<float>();
        const bool adds = step.op == Op::backward && !table_.groups()[g].frozen;
        auto* to = adds ? buffers_
                              .whole_gradient(
                                  Runner::nth_access(step, Space::grads_whole, grads++).index, g)
                              .template as<float>()
                        : nullptr;
        const zero::FlatLayout& layout = table_.groups()[g].layout;
        for (std::size_t t = 0; t < layout.tensors(); ++t) {
          const std::size_t begin = layout.tensor_offset(t), n = layout.tensor_size(t);
          flow_ = flow_ * 0.5F + grid::activation(w + begin, n);
          if (step.op == Op::forward) kept += flow_;
          const std::uint64_t key =
              grid::gradient_key(mesh_.world.rank(), 0, step.micro_step, unit, t);
          for (std::size_t i = 0; adds && i < n; ++i) {
            to[begin + i] += grid::gradient(key, i, w[begin + i], kept + flow_, false);
          }
        }
      }
    });
  }

  const Schedule& schedule_;
  const zero::ParameterTable& table_;
  const zero::Mesh<Comm> mesh_;
  const zero::ModuleOptions options_;
  zero::SlotSizes slots_;
  std::vector<Block> memory_;
  zero::Arena arena_;
  Buffers buffers_;
  zero::Control control_;
  float flow_ = 0;
  std::vector<float> activations_;
  std::vector<zero::HostEvent> events_;
  HostStore store_;
  HostStreams streams_;
  zero::detail::StateAtRest<Buffers, HostStreams, HostStore> at_rest_;
  zero::detail::Optimizers<zero::AdamW> optimizers_;
  Runner runner_;
  zero::Executor<Runner> executor_;
};

zero::ModuleOptions options(zero::StreamMode mode, std::uint64_t seed) {
  return {.streams = mode, .seed = seed, .user_code = zero::UserCode::on_stream, .poison = true};
}

/// What two ranks end with that are threads.
Bits train_on_threads(const Schedule& schedule, const zero::ParameterTable& table,
                      std::size_t replicas, zero::StreamMode mode, std::size_t seed) {
  Bits bits[2];
  zero::run_threads(2, [&](ThreadCommunicator& comm) {
    Rig rig(schedule, table, zero::mesh(comm, replicas), options(mode, 2 * seed + comm.rank()));
    bits[comm.rank()] = rig.train();
  });
  bits[0].insert(bits[0].end(), bits[1].begin(), bits[1].end());
  return bits[0];
}
Bits train_alone(const Schedule& schedule, const zero::ParameterTable& table, std::size_t replicas,
                 zero::StreamMode mode, std::size_t seed) {
  const std::size_t ranks = 2 / replicas;
  const zero::Mesh<Mirror> mesh{{1, 2}, {1 % ranks, ranks}, {1 % replicas, replicas}};
  return Rig(schedule, table, mesh, options(mode, seed)).train();
}

/// The intact schedule is right in every order that is tried; without any one wait it is wrong in
/// some, and the rules reject it.
template <class StageType>
void check_waits(const char* stage, const grid::Shapes& shapes, std::size_t replicas,
                 std::size_t micro_steps) {
  using zero::StreamMode;
  const zero::ParameterTable table(grid::make_model(shapes), 2 / replicas, {}, 1, {}, nullptr, 16);
  const Schedule schedule =
      make_schedule<StageType>(table.shape(), zero::training(shapes.units(), micro_steps));
  const Bits threads = train_on_threads(schedule, table, replicas, StreamMode::inline_run, 0);
  const Bits alone = train_alone(schedule, table, replicas, StreamMode::inline_run, 0);
  std::size_t wrong = 0;
  for (std::size_t seed = 0; seed < 100 / share; ++seed) {
    wrong += train_on_threads(schedule, table, replicas, StreamMode::shuffled, seed) != threads;
    wrong += train_alone(schedule, table, replicas, StreamMode::shuffled, seed) != alone;
  }
  BOOST_TEST(wrong == 0U);

  std::size_t waits = 0, most = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    for (std::size_t t = 0; t < zero::stream_count; ++t) {
      if (schedule.steps[i].waits[t] == no_wait) continue;
      ++waits;
      Schedule mutated = schedule;
      mutated.steps[i].waits[t] = no_wait;
      const std::string line = zero::detail::line(schedule, i);
      BOOST_CHECK_MESSAGE(zero::verify(mutated).rule != zero::Rule::none,
                          stage << ": the rules accept a dropped wait of" << line);
      constexpr std::size_t seeds = 1000;
      std::size_t seed = 0;
      while (seed < seeds &&
             train_alone(mutated, table, replicas, StreamMode::shuffled, seed) == alone) {
        ++seed;
      }
      BOOST_CHECK_MESSAGE(seed < seeds, stage << ": no order shows the dropped wait for step "
                                              << schedule.steps[i].waits[t] << " of" << line);
      if (seed < seeds) most = std::max(most, seed + 1);
    }
  }
  BOOST_TEST_MESSAGE(stage << ": " << waits << " waits, each shown after at most " << most
                           << " orders");
}

BOOST_AUTO_TEST_CASE(each_wait_of_zero3_is_needed) {
  check_waits<zero::Zero3>("Zero3", grid::models[3], 1, 1);
  check_waits<zero::Zero3>("Zero3, two micro-steps", grid::models[3], 1, 2);
}
BOOST_AUTO_TEST_CASE(each_wait_of_zero3_is_needed_where_tensors_are_tied_and_frozen) {
  check_waits<zero::Zero3>("Zero3, tied", grid::models[4], 1, 1);
}
BOOST_AUTO_TEST_CASE(each_wait_of_zero2_and_zero1_is_needed) {
  check_waits<zero::Zero2>("Zero2", grid::models[2], 1, 2);
  check_waits<zero::Zero1>("Zero1", grid::models[2], 1, 1);
}
BOOST_AUTO_TEST_CASE(each_wait_of_ddp_is_needed) {
  check_waits<zero::Ddp>("Ddp", grid::models[2], 1, 1);
}
BOOST_AUTO_TEST_CASE(each_wait_of_hybrid_is_needed) {
  check_waits<zero::Hybrid>("Hybrid", grid::models[3], 2, 1);
}
BOOST_AUTO_TEST_CASE(each_wait_of_offloaded_state_is_needed) {
  check_waits<zero::OffloadOf<zero::Zero2, zero::InHostMemory>>("Offload", grid::models[3], 1, 1);
}

BOOST_AUTO_TEST_SUITE_END()
