// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whole trainings of a tiny GPT: the same bits in all stages, and what the report says of them.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "../counting_new.hpp"
#include "gpt/report.hpp"
#include "gpt/trainer.hpp"

BOOST_AUTO_TEST_SUITE(gpt_training_test)

gpt::Options tiny(zero::StreamMode streams) {
  gpt::Options o;
  o.ranks = 2;
  o.layers = 2;
  o.width = 16;
  o.heads = 2;
  o.context = 8;
  o.steps = 6;
  o.streams = streams;
  return o;
}

const std::string& text() {
  static const std::string made = [] {
    std::string all;
    for (int i = 0; i < 40; ++i) all += "the quick brown fox jumps over the lazy dog, and ";
    return all;
  }();
  return made;
}

template <class StageType, class T = float>
gpt::Training train(const char* name, const gpt::Options& o) {
  gpt::use_one_thread_for_math();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"),
                                                                std::fclose);
  return gpt::train<StageType, T>(name, o, text(), o.sample, nowhere.get());
}
/// In all four stages, which differ only in where numbers lie.
template <class T, class Two, class Three>
std::vector<gpt::Training> train_all(const gpt::Options& o) {
  return {train<zero::Ddp, T>("Ddp", o), train<zero::Zero1, T>("Zero1", o),
          train<Two, T>("Zero2", o), train<Three, T>("Zero3", o)};
}

constexpr zero::StreamMode modes[] = {zero::StreamMode::inline_run, zero::StreamMode::asynchronous,
                                      zero::StreamMode::shuffled};

BOOST_AUTO_TEST_CASE(
    losses_have_the_same_bits_and_bytes_are_as_predicted_in_all_stages_and_streams) {
  gpt::Options o = tiny(zero::StreamMode::inline_run);
  o.sample = 20;
  std::vector<gpt::Training> all;
  for (const zero::StreamMode mode : modes) {
    o.streams = mode;
    for (gpt::Training& t : train_all<float, zero::Zero2, zero::Zero3>(o))
      all.push_back(std::move(t));
  }
  BOOST_TEST(gpt::complaint(all) == "");
  for (const gpt::Training& t : all) {
    BOOST_TEST(t.losses.size() == 6U);
    BOOST_TEST(t.sample == all.front().sample);
  }
  BOOST_TEST(all.front().sample.size() == 20U);
  BOOST_TEST(all.front().losses.back() < all.front().losses.front());
}

BOOST_AUTO_TEST_CASE(with_micro_steps_losses_are_the_same_bits_if_gradients_are_kept_to_the_last) {
  for (const zero::StreamMode mode : modes) {
    gpt::Options o = tiny(mode);
    o.micro_steps = 3;
    o.sequences = 1;
    o.sample = 0;
    o.ranks = 3;
    BOOST_TEST((gpt::complaint(train_all<float, gpt::LateZero2, gpt::LateZero3>(o)) == ""));
  }
}

BOOST_AUTO_TEST_CASE(with_bf16_weights_the_loss_falls_and_is_the_same_in_all_stages) {
  gpt::Options o = tiny(zero::StreamMode::asynchronous);
  o.steps = 40;
  o.sample = 0;
  const auto all = train_all<zero::bf16, zero::Zero2, zero::Zero3>(o);
  BOOST_TEST(gpt::complaint(all) == "");
  BOOST_TEST(all.front().losses.front() > 5.0);
  BOOST_TEST(gpt::final_loss(all.front()) < 4.5);
}

BOOST_AUTO_TEST_CASE(the_training_loop_allocates_nothing_after_its_construction) {
  gpt::use_one_thread_for_math();
  for (const zero::StreamMode mode : modes) {
    const gpt::Options o = tiny(mode);
    std::size_t made = 1;
    zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
      gpt::Trainer<zero::Zero3> trainer(o, text(), comm, gpt::module_options(o));
      comm.barrier();
      const std::size_t before = allocations;
      for (gpt::Size step = 0; step < 3; ++step) trainer.step(step);
      trainer.module().synchronize();
      comm.barrier();
      if (comm.rank() == 0) made = allocations - before;
      comm.barrier();
    });
    BOOST_TEST(made == 0U);
  }
}

BOOST_AUTO_TEST_CASE(an_interrupt_ends_all_ranks_after_the_same_step) {
  gpt::interrupted = true;
  std::string said;
  try {
    train<zero::Zero3>("Zero3", tiny(zero::StreamMode::asynchronous));
  } catch (const gpt::Interrupted& error) { said = error.what(); }
  gpt::interrupted = false;
  BOOST_TEST(said == "Interrupted after step 1.");
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_ends_the_training_with_a_sentence) {
  gpt::Options o = tiny(zero::StreamMode::inline_run);
  o.ranks = 1;
  std::string said;
  try {
    zero::run_threads(1, [&](zero::ThreadCommunicator& comm) {
      gpt::Trainer<zero::Ddp> trainer(o, text(), comm, {});
      trainer.module().initialize([](const zero::TensorInfo&, std::size_t) { return 1e38f; });
      trainer.step(0);
    });
  } catch (const std::runtime_error& error) { said = error.what(); }
  BOOST_TEST(said.starts_with("Step 1 was skipped, as a gradient is not finite"));
}

BOOST_AUTO_TEST_CASE(the_report_says_what_differs_and_shows_every_figure_twice) {
  gpt::Training a;
  a.name = "Ddp";
  a.losses = {3.0, 2.5};
  a.predicted_held =
      a.held = {.weights = 11, .gradients = 12, .optimizer = 13, .slots = 14, .control = 15};
  a.predicted_sent = a.sent = {.all_gather = 21, .reduce_scatter = 22, .all_reduce = 23};
  gpt::Training b = a;
  b.name = "Zero3";
  BOOST_TEST(gpt::complaint(std::vector{a, b}) == "");
  b.held.slots = 9;
  BOOST_TEST(gpt::complaint(std::vector{a, b}) ==
             "Zero3: bytes held by a rank, slots: 14 predicted, but 9 measured.");
  b = a;
  b.name = "Zero1";
  b.sent.all_reduce = 24;
  BOOST_TEST(gpt::complaint(std::vector{a, b}) ==
             "Zero1: bytes sent, all_reduce: 23 predicted, but 24 measured.");
  b.sent = a.sent;
  b.losses[1] = 2.5000000000000004;
  BOOST_TEST(gpt::complaint(std::vector{a, b}) ==
             "The loss of step 2 is 0x1.4000000000001p+1 in Zero1, but 0x1.4p+1 in Ddp.");

  std::ostringstream json;
  gpt::print_json(json, 4, std::vector{a, b});
  for (const char* part :
       {"\"ranks\": 4", "\"final_loss\": 2.75", "\"losses_hex\": [\"0x1.8p+1\", \"0x1.4p+1\"]",
        "\"weights\": {\"predicted\": 11, \"measured\": 11}",
        "\"all_reduce\": {\"predicted\": 23, \"measured\": 23}", "\"step_ms\": 0"})
    BOOST_TEST(json.str().find(part) != std::string::npos, part);
}

BOOST_AUTO_TEST_SUITE_END()
