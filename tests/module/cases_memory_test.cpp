// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a rank holds is a formula: no allocation after construction, no growth with depth or steps.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "../counting_new.hpp"
#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_memory_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};

/// Memory of a caller, with a few bytes behind it that must stay as they are.
class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes) {
    data_ = static_cast<std::byte*>(zero::HostMemory().allocate(bytes + guard));
    std::memset(data_, 0xA5, bytes + guard);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { zero::HostMemory().deallocate(data_, bytes_ + guard); }
  std::span<std::byte> span() const { return {data_, bytes_}; }
  bool intact() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + guard,
                       [](std::byte b) { return b == std::byte{0xA5}; });
  }

 private:
  static constexpr std::size_t guard = 64;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// One training step without any allocation of its own.
template <class Module>
void plain_step(Module& module, std::size_t micro_steps) {
  auto step = module.begin_step({.micro_steps = micro_steps});
  for (std::size_t m = 0; m < micro_steps; ++m) {
    for (auto unit : step.forward()) (void)unit.template weights<Parts>();
    for (auto unit : step.backward()) {
      unit.stream().enqueue("user code", [a = unit.template gradients<Parts>().a] {
        for (float& g : a) g += 1;
      });
    }
  }
  (void)step.finish();
}

// B87
BOOST_AUTO_TEST_CASE(the_temporary_part_does_not_grow_with_the_depth_of_the_model) {
  constexpr std::size_t elements = 128'000;
  const auto slots = [&](const NamedStage& stage, std::size_t units) {
    const Model model = model_of({"unit", units, sizes({elements})});
    Setup setup = Setup{}.on(4);
    setup.options.poison = false;
    return on_ranks(stage, setup, model, sgd, [](auto& module) {
      plain_step(module, 2);
      return module.bytes_held().slots;
    })[0];
  };
  const std::size_t unit_bytes = elements * sizeof(float);
  const NamedStage zero2 = named<zero::Zero2>("2"), zero3 = named<zero::Zero3>("3");
  BOOST_TEST(slots(zero3, 8) == slots(zero3, 32));
  BOOST_TEST(slots(zero3, 8) <= 5 * unit_bytes);
  BOOST_TEST(slots(zero2, 8) == slots(zero2, 32));
  BOOST_TEST(slots(zero2, 8) <= 2 * unit_bytes);
}

// B88
BOOST_AUTO_TEST_CASE(a_host_that_runs_ahead_gathers_no_more_than_it_may) {
  const Model model = model_of({"unit", 32, sizes({64})});
  for (const Mode& mode : tried_modes()) {
    BOOST_TEST_CONTEXT(mode.name) {
      const Setup setup = Setup{}.in(mode).on(4);
      for (const auto& [most, end] : on_ranks<zero::Zero3>(setup, model, sgd, [](auto& module) {
             std::size_t top = 0;
             const auto look_at = [&] { top = std::max(top, module.gathered_bytes()); };
             for (int k = 0; k < 2; ++k) {
               auto step = module.begin_step();
               for (auto unit : step.forward()) look_at();
               look_at();
               for (auto unit : step.backward()) look_at();
               (void)step.finish();
             }
             {
               auto pass = module.evaluate();
               for (auto unit : pass.forward()) look_at();
             }
             return std::pair(top, module.gathered_bytes());
           })) {
        BOOST_TEST(most == 2 * 64 * sizeof(float));  // one, and one ahead
        BOOST_TEST(end == 0U);
      }
    }
  }
}

// B89
BOOST_AUTO_TEST_CASE(leaving_a_pass_early_leaves_nothing_gathered) {
  const Model model = model_of({"unit", 6, sizes({64})});
  for (const Mode& mode : tried_modes()) {
    for (std::size_t last = 0; last < 6; ++last) {
      const Setup setup = Setup{}.in(mode).on(2);
      for (const auto& left : on_ranks<zero::Zero3>(setup, model, sgd, [&](auto& module) {
             std::vector<std::size_t> bytes;
             {
               auto pass = module.evaluate();
               for (auto unit : pass.forward()) {
                 if (unit.index() == last) break;
               }
             }
             bytes.push_back(module.gathered_bytes());
             {
               auto step = module.begin_step();
               for (auto unit : step.forward()) {
                 if (unit.index() == last) break;
               }
             }
             bytes.push_back(module.gathered_bytes());
             {
               auto step = module.begin_step();
               for (auto unit : step.forward()) (void)unit;
               for (auto unit : step.backward()) {
                 if (unit.index() == last) break;
               }
               step.abandon();
               bytes.push_back(module.gathered_bytes());
             }
             const Outcome after = train(module, mode.user_code, {});
             bytes.push_back(after.gathered_bytes);
             bytes.push_back(all_are(after.weights, -1) ? 0 : 1);
             return bytes;
           })) {
        BOOST_TEST_CONTEXT(mode.name << ", left at unit " << last) {
          for (const std::size_t bytes : left) BOOST_TEST(bytes == 0U);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_allocated_after_construction) {
  const Model model = model_of({"unit", 5, sizes({40})}, {"other", 1, sizes({3, 5})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        std::array<std::size_t, 2> counted{};
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
          auto module = shard(stage, model, zero::mesh(comm, setup.replicas), sgd, setup.options);
          module.initialize([](const auto&, std::size_t) { return 0.0F; });
          comm.barrier();
          const std::size_t before = allocations;
          comm.barrier();
          for (const std::size_t micro_steps : {1, 3, 16, 2, 1}) {
            plain_step(module, micro_steps);
            auto pass = module.evaluate();
            for (auto unit : pass.forward()) (void)unit.template weights<Parts>();
          }
          {
            auto step = module.begin_step({.micro_steps = 2});
            for (auto unit : step.forward()) (void)unit;
          }  // abandoned
          module.synchronize();
          comm.barrier();
          counted[comm.rank()] = allocations - before;
          comm.barrier();
        });
        BOOST_TEST(counted[0] == 0U);
        BOOST_TEST(counted[1] == 0U);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(bytes_held_and_sent_are_those_of_the_formula) {
  const Model model = model_of({"unit", 4, sizes({37, 3}).frozen({1})}, {"wide", 1, sizes({200})},
                               {}, {"head", 1, {}, {"wide"}});
  for (const std::size_t ranks : {1, 2, 3, 4}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks") {
        Setup setup = Setup{}.on(ranks, stage.replicas);
        if (ranks > 1) setup.options.norm = static_cast<double>(ranks - 1);  // 1, 2, 3
        for (const auto& [held, sent] : on_ranks(stage, setup, model, sgd, [](auto& module) {
               bool as_predicted = true;
               for (const std::size_t micro_steps : {1, 3}) {
                 const zero::Traffic before = module.sent();
                 plain_step(module, micro_steps);
                 module.synchronize();
                 module.mesh().world.barrier();  // peers have read what this rank sent
                 const zero::Traffic after = module.sent();
                 const auto predicted = module.predicted_bytes_sent(micro_steps);
                 as_predicted =
                     as_predicted && after.all_gather - before.all_gather == predicted.all_gather &&
                     after.reduce_scatter - before.reduce_scatter == predicted.reduce_scatter &&
                     after.all_reduce - before.all_reduce == predicted.all_reduce;
                 module.mesh().world.barrier();
               }
               return std::pair(module.bytes_held() == module.predicted_bytes_held(), as_predicted);
             })) {
          BOOST_TEST(held);
          BOOST_TEST(sent);
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(a_module_lives_in_the_memory_of_the_caller) {
  const Model model = model_of({"unit", 3, sizes({37, 3}).frozen({1})}, {"wide", 1, sizes({200})});
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      const Setup setup = Setup{}.on(2, stage.replicas);
      const std::size_t bytes =
          zero::bytes_needed(stage.value, model, 2, sgd, setup.options, stage.replicas);
      const Block blocks[2] = {Block(bytes), Block(bytes)};
      std::vector<Outcome> outcomes(2);
      on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
        zero::ModuleOptions options = setup.options;
        options.memory = blocks[comm.rank()].span();
        for (int twice = 0; twice < 2; ++twice) {  // the memory can be used again
          auto module = shard(stage, model, zero::mesh(comm, stage.replicas), sgd, options);
          outcomes[comm.rank()] = train(module, options.user_code, {.steps = 2, .micro_steps = 2});
        }
      });
      const auto own = train(stage, setup, model, sgd, {.steps = 2, .micro_steps = 2});
      for (std::size_t r = 0; r < 2; ++r) {
        BOOST_TEST(same_bits(outcomes[r], own[r]));
        BOOST_TEST(blocks[r].intact());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(memory_that_is_too_small_or_not_aligned_is_refused) {
  const Model model = model_of({"unit", 3, sizes({37})});
  const std::size_t bytes = zero::bytes_needed<zero::Zero3>(model, 1, sgd);
  const Block block(bytes + 64);
  const auto error_with = [&](std::span<std::byte> memory) {
    Setup setup;
    setup.options.memory = memory;
    return error_of([&] { train<zero::Zero3>(setup, model, sgd, {}); });
  };
  for (const std::size_t less : {bytes - 1, std::size_t{1}}) {
    const std::string text = error_with(block.span().first(less));
    BOOST_TEST(says(text, {"ContractError: ", std::to_string(bytes).c_str(), "bytes_needed"}),
               text);
  }
  const std::string text = error_with(block.span().subspan(4));
  BOOST_TEST(says(text, {"ContractError: ", "multiple of 64 bytes", "align it"}), text);
}

BOOST_AUTO_TEST_CASE(bytes_are_not_told_for_replicas_that_do_not_divide_the_ranks) {
  const Model model = model_of({"unit", 1, sizes({3})});
  for (const std::size_t replicas : {0, 3}) {
    const std::string text =
        error_of([&] { (void)zero::bytes_needed<zero::Hybrid>(model, 4, sgd, {}, replicas); });
    BOOST_TEST(says(text, {"ContractError: ", "4 ranks"}), text);
  }
}

BOOST_AUTO_TEST_CASE(a_model_beyond_all_counting_is_refused) {
  const Model model = model_of({"unit", 1, sizes({std::size_t{1} << 58, 1})});
  const std::string text = error_of([&] { train<zero::Zero2>(Setup{}, model, sgd, {}); });
  BOOST_TEST(says(text, {"ContractError: ", "2^58"}), text);
}

BOOST_AUTO_TEST_SUITE_END()
