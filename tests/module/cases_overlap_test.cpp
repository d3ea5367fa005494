// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Neither delays, nor the number of slots, nor the order of streams changes a bit.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <thread>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_overlap_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};

/// A communicator that writes down each collective of a stream and may delay it.
class Watched {
 public:
  using Stream = zero::HostStream;
  struct Log {
    std::vector<std::string> lines;
    std::chrono::microseconds delay{0};  // before every second collective
  };

  Watched(zero::ThreadCommunicator comm, std::shared_ptr<Log> log)
      : comm_(std::move(comm)), log_(std::move(log)) {}
  std::size_t rank() const { return comm_.rank(); }
  std::size_t size() const { return comm_.size(); }
  zero::Traffic sent() const { return comm_.sent(); }
  Watched split(int color, int key) const { return {comm_.split(color, key), log_}; }
  void abort(std::string_view why) const noexcept { comm_.abort(why); }

  template <class T>
  void all_gather(Stream& s, const T* in, T* out, std::size_t n, zero::Label label = {}) const {
    note<T>(&s, "all_gather", n, label);
    comm_.all_gather(s, in, out, n, label);
  }
  template <class T>
  void reduce_scatter(Stream& s, const T* in, T* out, std::size_t n, zero::Accumulate accumulate,
                      zero::Label label = {}, zero::Reduction reduction = {}) const {
    note<T>(&s, "reduce_scatter", n, label);
    comm_.reduce_scatter(s, in, out, n, accumulate, label, reduction);
  }
  template <class T>
  void all_reduce(Stream& s, T* data, std::size_t n, zero::Label label = {},
                  zero::Reduction reduction = {}) const {
    note<T>(&s, "all_reduce", n, label);
    comm_.all_reduce(s, data, n, label, reduction);
  }
  template <class T>
  void broadcast(Stream& s, T* data, std::size_t n, std::size_t root,
                 zero::Label label = {}) const {
    note<T>(&s, "broadcast", n, label);
    comm_.broadcast(s, data, n, root, label);
  }
  void barrier(Stream& s, zero::Label label = {}) const { comm_.barrier(s, label); }
  template <class T>
  void all_gather(const T* in, T* out, std::size_t n, zero::Label label = {}) const {
    note<T>(nullptr, "all_gather", n, label);
    comm_.all_gather(in, out, n, label);
  }
  template <class T>
  void broadcast(T* data, std::size_t n, std::size_t root, zero::Label label = {}) const {
    note<T>(nullptr, "broadcast", n, label);
    comm_.broadcast(data, n, root, label);
  }

 private:
  template <class T>
  void note(Stream* stream, const char* what, std::size_t n, const zero::Label& label) const {
    log_->lines.push_back(std::string(what) + ' ' + std::string(label.unit) + ' ' +
                          std::to_string(n * sizeof(T)));
    const auto delay = log_->delay;
    if (stream == nullptr || delay.count() == 0 || log_->lines.size() % 2 == 0) return;
    stream->enqueue("delay", [delay] { std::this_thread::sleep_for(delay); });
  }

  zero::ThreadCommunicator comm_;
  std::shared_ptr<Log> log_;
};
static_assert(zero::Communicator<Watched>);

struct WatchedOutcome {
  Outcome outcome;
  std::vector<std::string> lines;
};
std::vector<WatchedOutcome> train_watched(const NamedStage& stage, const Setup& setup,
                                          const Model& model, const Plan& plan,
                                          std::chrono::microseconds delay) {
  std::vector<WatchedOutcome> all(setup.ranks);
  on_threads(setup.ranks, setup.options.time_limit, [&](zero::ThreadCommunicator& comm) {
    const auto log = std::make_shared<Watched::Log>();
    log->delay = delay;
    auto module =
        shard(stage, model, zero::mesh(Watched(comm, log), setup.replicas), sgd, setup.options);
    all[comm.rank()].outcome = train(module, setup.options.user_code, plan);
    all[comm.rank()].lines = log->lines;
  });
  return all;
}

float inexact(const Place& p) {
  return std::sin(static_cast<float>(p.rank * 7 + p.element * 3 + p.unit + p.tensor + 5 * p.step));
}

// B73
BOOST_AUTO_TEST_CASE(all_ranks_issue_the_same_collectives_in_the_same_order_in_every_run) {
  const Model model = model_of({"unit", 16, sizes({9, 2})});
  std::vector<std::string> first;
  for (int run = 0; run < 20; ++run) {
    const Mode& mode = modes()[static_cast<std::size_t>(run) % modes().size()];
    const std::vector<char> shifts_addresses(static_cast<std::size_t>(run) * 4097);
    const Setup setup = Setup{}.in(mode, static_cast<std::uint64_t>(run)).on(2);
    const auto ranks = train_watched(named<zero::Zero3>("3"), setup, model, {.steps = 3},
                                     std::chrono::microseconds(0));
    if (first.empty()) first = ranks[0].lines;
    for (const WatchedOutcome& rank : ranks) BOOST_TEST(rank.lines == first);
  }
  BOOST_TEST(first.size() > 3U * 16U * 2U);
}

// B79 B08
BOOST_AUTO_TEST_CASE(a_slow_transport_loses_no_gradient) {
  const Model model = model_of({"unit", 6, sizes({7, 2})});
  const Plan plan{.steps = 2, .micro_steps = 3, .gradient = [](const Place& p) {
                    return static_cast<float>((p.unit + 1) * (p.micro_step + 1));
                  }};
  const auto check = [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[2], modes()[4]}) {
      for (const auto delay : {std::chrono::microseconds(0), std::chrono::microseconds(1000)}) {
        BOOST_TEST_CONTEXT(stage << ", " << mode.name << ", " << delay.count() << " us") {
          const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
          for (const auto& rank : train_watched(stage, setup, model, plan, delay)) {
            for (std::size_t i = 0; i < rank.outcome.weights.size(); ++i) {
              BOOST_TEST(rank.outcome.weights[i] == -12 * static_cast<float>(i / 9 + 1));
            }
          }
        }
      }
    }
  };
  using OneSlot =
      zero::Stage<zero::ShardOptimizer<>, zero::ShardGrads<zero::GradsOptions{.slots = 1}>>;
  check(named<OneSlot>("stage 2 with one slot"));
  check(named<zero::Zero3>("stage 3"));
  check(named<zero::Hybrid>("hybrid", 2));
}

// B74
BOOST_AUTO_TEST_CASE(slots_and_prefetch_change_no_bit) {
  using zero::GradsOptions, zero::ParamsOptions;
  using zero::ShardGrads, zero::ShardOptimizer, zero::ShardParams, zero::Stage;
  const Model model = model_of({"unit", 5, sizes({9, 2})}, {"last", 1, sizes({33})});
  const Plan plan{.steps = 5, .micro_steps = 2, .gradient = inexact, .finish = {.max_norm = 1}};
  const Outcome plain = train<zero::Zero1>(Setup{}.on(2), model, sgd, plan)[0];
  const auto check = [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        for (const Outcome& rank : train(stage, Setup{}.in(mode, 7).on(2), model, sgd, plan)) {
          BOOST_TEST(same_bits(rank, plain));
        }
      }
    }
  };
  check(named<Stage<ShardOptimizer<>, ShardGrads<GradsOptions{.slots = 3}>>>("three slots"));
  check(named<Stage<ShardOptimizer<>, ShardGrads<GradsOptions{.slots = 1}>,
                    ShardParams<ParamsOptions{
                        .forward_prefetch = 0, .backward_prefetch = 0, .keep_at_turn = 0}>>>(
      "no prefetch"));
  check(named<
        Stage<ShardOptimizer<>, ShardGrads<>,
              ShardParams<ParamsOptions{
                  .forward_prefetch = 3, .backward_prefetch = 2, .keep_at_turn = zero::keep_all}>>>(
      "deep"));
}

// B77 B81
BOOST_AUTO_TEST_CASE(slow_code_on_a_stream_reads_no_released_weights) {
  const Model model = model_of({"unit", 5, sizes({6})});
  for (const Mode& mode : {modes()[4], modes()[5]}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const auto clean =
          on_ranks<zero::Zero3>(Setup{}.in(mode, seed).on(2), model, sgd, [](auto& module) {
            std::atomic<std::size_t> wrong{0};
            module.initialize([](const auto&, std::size_t) { return 1.0F; });
            for (int k = 0; k < 3; ++k) {
              auto step = module.begin_step();
              const auto slow = [&](auto& unit, auto code) {
                unit.stream().enqueue("slow",
                                      [&wrong, code, view = unit.template weights<Parts>().a,
                                       expected = static_cast<float>(1 - k)] {
                                        std::this_thread::sleep_for(std::chrono::microseconds(200));
                                        for (const float x : view) wrong += !(x == expected);
                                        code();
                                      });
              };
              for (auto unit : step.forward()) slow(unit, [] {});
              for (auto unit : step.backward()) {
                slow(unit, [gradient = unit.template gradients<Parts>().a] {
                  for (float& g : gradient) g += 1;
                });
              }
              (void)step.finish();
            }
            module.synchronize();
            return wrong.load();
          });
      for (const std::size_t wrong : clean) BOOST_TEST(wrong == 0U);
    }
  }
}

// B80
BOOST_AUTO_TEST_CASE(a_gradient_from_a_slow_stream_of_the_users_is_complete_when_it_is_reduced) {
  const Model model = model_of({"unit", 3, sizes({6, 2, 5})});
  const auto train = [](auto& module) {
    zero::HostDevice device({.mode = zero::StreamMode::asynchronous});
    zero::HostStream* const own[] = {&device.make_stream("one"), &device.make_stream("two")};
    std::atomic<std::size_t> wrong{0};
    for (int k = 0; k < 3; ++k) {
      auto step = module.begin_step();
      for (auto unit : step.forward()) (void)unit;
      for (auto unit : step.backward()) {
        for (std::size_t i = 0; i < 3; ++i) {
          const auto code = [&wrong, expected = static_cast<float>(-k), slow = i != 0,
                             weights = unit.template weights<Parts>()[i],
                             gradients = unit.template gradients<Parts>()[i]] {
            if (slow) std::this_thread::sleep_for(std::chrono::microseconds(300));
            for (const float w : weights) wrong += w != expected;
            for (float& g : gradients) g += 1;
          };
          if (i != 0) unit.also_on(own[i - 1]);
          (i == 0 ? unit.stream() : *own[i - 1]).enqueue("user", code);
        }
      }
      (void)step.finish();
    }
    for (const float w : weights_of(module)) wrong += w != -3;
    return wrong.load();
  };
  const auto check = [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[4]}) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        for (const std::size_t wrong : on_ranks(stage, setup, model, sgd, train)) {
          BOOST_TEST(wrong == 0U);
        }
      }
    }
  };
  check(named<zero::Ddp>("0"));
  check(named<zero::Zero2>("2"));
  check(named<zero::Zero3>("3"));
}

BOOST_AUTO_TEST_CASE(too_many_streams_of_the_users_are_refused_and_the_step_goes_on) {
  const Model model = model_of({"unit", 1, sizes({3})});
  for (const bool refused : on_ranks<zero::Zero3>(Setup{}.on(2), model, sgd, [](auto& module) {
         zero::HostDevice device;
         zero::HostStream& own = device.make_stream("own");
         auto step = module.begin_step();
         for (auto unit : step.forward()) (void)unit;
         bool threw = false;
         for (auto unit : step.backward()) {
           for (int i = 0; i < 4; ++i) unit.also_on(&own);
           try {
             unit.also_on(&own);
           } catch (const zero::ContractError& error) {
             threw = std::string(error.what()).find("more than 4 streams in unit 'unit'") !=
                     std::string::npos;
           }
         }
         return threw && step.finish().applied;
       })) {
    BOOST_TEST(refused);
  }
}

BOOST_AUTO_TEST_CASE(a_stream_of_the_users_that_is_null_is_refused_and_the_step_goes_on) {
  const Model model = model_of({"unit", 1, sizes({3})});
  using Seen = std::pair<std::string, bool>;
  for (const auto& [text, applied] :
       on_ranks<zero::Zero3>(Setup{}.on(2), model, sgd, [](auto& module) {
         zero::HostStream* const none = nullptr;
         Seen seen;
         auto step = module.begin_step();
         for (auto unit : step.forward()) seen.first = error_of([&] { unit.also_on(none); });
         for (auto unit : step.backward()) (void)unit;
         seen.second = step.finish().applied;
         return seen;
       })) {
    BOOST_TEST(says(text, {"ContractError: zero: also_on", "null"}), text);
    BOOST_TEST(applied);
  }
}

// B86
BOOST_AUTO_TEST_CASE(a_view_that_outlives_its_scope_shows_poison) {
  const Model model = model_of({"unit", 4, sizes({6})});
  for (const float kept : on_ranks<zero::Zero3>(Setup{}.on(2), model, sgd, [](auto& module) {
         auto pass = module.evaluate();
         zero::Tensor<float> old;
         {
           auto unit = pass.forward(3);  // the last one, since another one would reuse the slot
           old = unit.template weights<Parts>().a;
         }
         return old[0];
       })) {
    BOOST_TEST(std::isnan(kept));
  }
}

BOOST_AUTO_TEST_SUITE_END()
