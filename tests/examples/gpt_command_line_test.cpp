// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The command line, the text and the micro-batches of the GPT example.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gpt/options.hpp"
#include "gpt/text.hpp"

BOOST_AUTO_TEST_SUITE(gpt_command_line_test)

gpt::Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return gpt::parse_options(static_cast<int>(arguments.size()), arguments.data());
}

/// The sentence that the arguments are refused with; empty if they are accepted.
std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
    return "";
  } catch (const gpt::UsageError& error) { return error.what(); }
}

std::string refusal_of_text(const std::string& path) {
  try {
    gpt::read_text(path, 65);
    return "";
  } catch (const gpt::UsageError& error) { return error.what(); }
}

/// A folder that is removed at the end.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("zero_gpt_text_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

BOOST_AUTO_TEST_CASE(values_stand_after_a_space_or_an_equals_sign) {
  const gpt::Options o = parse({"--ranks", "3", "--micro-steps=5", "--streams", "shuffled",
                                "--text=a=b", "--learning-rate", "1e-3"});
  BOOST_TEST(o.ranks == 3);
  BOOST_TEST(o.micro_steps == 5);
  BOOST_TEST((o.streams == zero::StreamMode::shuffled));
  BOOST_TEST(o.text == "a=b");
  BOOST_TEST(o.learning_rate == 1e-3);
  BOOST_TEST(o.layers == gpt::Options{}.layers);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_trained_is_refused_in_one_sentence) {
  BOOST_TEST(refusal({}) == "");
  BOOST_TEST(refusal({"--ranks", "0"}) == "--ranks takes a whole number from 1 to 64, not '0'.");
  BOOST_TEST(refusal({"--ranks", "-1"}) == "--ranks takes a whole number from 1 to 64, not '-1'.");
  BOOST_TEST(refusal({"--steps", "5x"}) ==
             "--steps takes a whole number from 1 to 1000000000, not '5x'.");
  BOOST_TEST(refusal({"--seed", "99999999999999999999"}).starts_with("--seed takes"));
  BOOST_TEST(refusal({"--stage=4"}) == "--stage takes a whole number from 0 to 3, not '4'.");
  BOOST_TEST(
      refusal({"--width", "130", "--heads", "4"}) ==
      "--width 130 is not divisible by --heads 4: each head has an equal part of the width.");
  BOOST_TEST(refusal({"--learning-rate", "nan"}).starts_with("--learning-rate takes"));
  BOOST_TEST(refusal({"--streams", "fast"}) ==
             "--streams takes inline, asynchronous or shuffled, not 'fast'.");
  BOOST_TEST(refusal({"--depth", "3"}) == "--depth is not an option: --help lists them.");
  BOOST_TEST(refusal({"--ranks"}) == "--ranks needs a value after it.");
  BOOST_TEST(refusal({"ranks"}) == "'ranks' is not an option: --help lists them.");
}

BOOST_AUTO_TEST_CASE(help_names_every_option) {
  BOOST_TEST(parse({"--help"}).help);
  const std::string text = gpt::usage("train");
  for (const auto& option : gpt::detail::integer_options)
    BOOST_TEST(text.find("--" + std::string(option.name)) != text.npos);
  for (const char* name : {"--learning-rate", "--streams", "--text"})
    BOOST_TEST(text.find(name) != text.npos);
}

BOOST_AUTO_TEST_CASE(the_demo_has_a_folder_for_its_results_where_the_training_has_a_stage) {
  const auto parsed = [](const char* name, const char* value, gpt::Program program) {
    const char* arguments[] = {"program", name, value};
    return gpt::parse_options(3, arguments, program);
  };
  BOOST_TEST(parsed("--output", "there", gpt::Program::demo).output == "there");
  BOOST_TEST(parsed("--stage", "1", gpt::Program::train).stage == 1);
  BOOST_CHECK_THROW(parsed("--output", "there", gpt::Program::train), gpt::UsageError);
  BOOST_CHECK_THROW(parsed("--stage", "1", gpt::Program::demo), gpt::UsageError);
  BOOST_TEST(gpt::usage("demo", gpt::Program::demo).find("--stage") == std::string::npos);
  BOOST_TEST(parsed("--losses", "there", gpt::Program::mpi).losses == "there");
  BOOST_CHECK_THROW(parsed("--losses", "there", gpt::Program::demo), gpt::UsageError);
  BOOST_CHECK_THROW(parsed("--ranks", "2", gpt::Program::mpi), gpt::UsageError);
  BOOST_TEST(parsed("--id-file", "there", gpt::Program::cuda).id_file == "there");
  for (const gpt::Program other : {gpt::Program::train, gpt::Program::demo, gpt::Program::mpi})
    BOOST_CHECK_THROW(parsed("--id-file", "there", other), gpt::UsageError);
  BOOST_TEST(gpt::usage("train").find("--output") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(on_gpus_a_step_may_be_captured_and_the_number_of_ranks_has_another_default) {
  const char* arguments[] = {"program", "--captured", "--stage", "0"};
  gpt::Options defaults;
  defaults.ranks = 0;
  const gpt::Options o = gpt::parse_options(4, arguments, gpt::Program::cuda, defaults);
  BOOST_TEST(o.captured);
  BOOST_TEST(o.stage == 0);
  BOOST_TEST(o.ranks == 0);
  BOOST_CHECK_THROW(gpt::parse_options(4, arguments, gpt::Program::train), gpt::UsageError);
  const std::string text = gpt::usage("cuda", gpt::Program::cuda);
  BOOST_TEST(text.find("--captured") != text.npos);
  BOOST_TEST(text.find("(one for each GPU or process)") != text.npos);
  BOOST_TEST(text.find("--streams") == text.npos);
  BOOST_TEST(gpt::usage("train").find("--captured") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_text_that_is_missing_empty_or_short_is_refused_in_one_sentence) {
  const Folder folder;
  const std::string missing = (folder.path / "missing").string();
  const std::string empty = folder.write("empty", "");
  BOOST_TEST(refusal_of_text(missing) ==
             "The text " + missing + " cannot be read: choose another with --text FILE.");
  BOOST_TEST(refusal_of_text(empty) ==
             "The text " + empty + " is empty: choose another with --text FILE.");
  BOOST_TEST(refusal_of_text(folder.path.string()) ==
             "The text " + folder.path.string() + " is empty: choose another with --text FILE.");
  const std::string text = folder.write("short", std::string(64, 'x'));
  BOOST_TEST(refusal_of_text(text) ==
             "The text " + text +
                 " has 64 bytes, fewer than a sequence and the byte after it (65): choose a longer "
                 "one or a smaller --context.");
}

BOOST_AUTO_TEST_CASE(the_files_of_a_folder_are_read_once_in_the_order_of_their_names) {
  const Folder folder;
  folder.write("b", "second ");
  folder.write("a", "first ");
  folder.write("c", "third");
  std::filesystem::create_symlink(folder.path / "a", folder.path / "d");
  BOOST_TEST(gpt::read_text(folder.path.string(), 1) == "first second third");
}

BOOST_AUTO_TEST_CASE(a_batch_depends_on_its_position_only_and_targets_are_one_byte_ahead) {
  std::string text;
  for (std::uint64_t i = 0; i < 10000; ++i) text += static_cast<char>(gpt::mix(1, i) & 0xff);
  const auto batch = [&](const gpt::BatchPosition& position) {
    gpt::Batch made(4, 32);
    made.fill(text, position);
    return made;
  };
  const gpt::BatchPosition position{.seed = 1, .step = 7, .micro_step = 1, .rank = 2};
  const gpt::Batch first = batch(position);
  BOOST_TEST((first.inputs == batch(position).inputs));
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t i = 0; i + 1 < 32; ++i)
      BOOST_TEST(first.targets[row * 32 + i] == first.inputs[row * 32 + i + 1]);
  for (const gpt::BatchPosition& other :
       {gpt::BatchPosition{2, 7, 1, 2}, {1, 8, 1, 2}, {1, 7, 0, 2}, {1, 7, 1, 3}, {1, 1, 7, 2}})
    BOOST_TEST((first.inputs != batch(other).inputs));
}

BOOST_AUTO_TEST_CASE(the_shortest_text_that_is_accepted_makes_a_batch) {
  const std::string text = "abcde";
  gpt::Batch batch(3, 4);
  batch.fill(text, {.seed = 1, .step = 0, .micro_step = 0, .rank = 0});
  BOOST_TEST(std::string(batch.inputs.begin(), batch.inputs.begin() + 4) == "abcd");
  BOOST_TEST(std::string(batch.targets.end() - 4, batch.targets.end()) == "bcde");
}

BOOST_AUTO_TEST_CASE(a_byte_is_drawn_with_its_chance) {
  const auto draw = [](float uniform) {
    float logits[4] = {0.0f, 0.0f, -80.0f, 0.0f};
    return int(gpt::draw_byte(logits, 4, 1.0f, uniform));
  };
  BOOST_TEST(draw(0.0f) == 0);
  BOOST_TEST(draw(0.3f) == 0);
  BOOST_TEST(draw(0.35f) == 1);
  BOOST_TEST(draw(0.65f) == 1);
  BOOST_TEST(draw(0.68f) == 3);
  BOOST_TEST(draw(0.99999994f) == 3);
}

BOOST_AUTO_TEST_SUITE_END()
