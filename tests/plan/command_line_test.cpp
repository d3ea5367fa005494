// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The command line of zero-plan, its model files, and its answers as table, JSON and
// page.
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "../../examples/plan/page.hpp"
#include "../../examples/plan/usage.hpp"

BOOST_AUTO_TEST_SUITE(command_line_test)

using zero_plan::UsageError;

zero_plan::Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "zero-plan");
  return zero_plan::parse_options(static_cast<int>(arguments.size()), arguments.data());
}
/// What an error says, or nothing.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const UsageError& error) { return error.what(); }
  return "";
}

BOOST_AUTO_TEST_CASE(options_describe_model_machine_and_training) {
  const zero_plan::Options options = parse({"--model",
                                            "llama3-70b",
                                            "--devices=512",
                                            "--device",
                                            "a100-80",
                                            "--batch",
                                            "1024",
                                            "--stage",
                                            "3",
                                            "--recompute",
                                            "full",
                                            "--network",
                                            "hdr",
                                            "--nics",
                                            "4",
                                            "--bytes",
                                            "fp32-gradients-18",
                                            "--context",
                                            "4096",
                                            "--efficiency",
                                            "0.5"});
  const zero::plan::Question& q = options.question;
  BOOST_TEST(q.model.parameters() == 70'553'706'496U);
  BOOST_TEST(q.model.dims.context == 4096U);
  BOOST_TEST(q.devices == 512U);
  BOOST_TEST(q.global_batch == 1024U);
  BOOST_TEST(q.stage == "zero3");
  BOOST_TEST(!q.recompute_all);
  BOOST_TEST(q.bytes.total() == 18U);
  BOOST_TEST(q.machine.device.name == "a100-80");
  BOOST_TEST(q.machine.nics_per_node == 4U);
  BOOST_TEST(q.machine.nic_bandwidth == 25e9);
  BOOST_TEST(q.machine.efficiency == 0.5);
}

BOOST_AUTO_TEST_CASE(a_model_by_dimensions_is_the_model_of_that_name) {
  BOOST_TEST(parse({"--layers",
                    "80",
                    "--width",
                    "8192",
                    "--heads",
                    "64",
                    "--kv-heads",
                    "8",
                    "--inner",
                    "28672",
                    "--vocabulary",
                    "128256",
                    "--gated",
                    "yes",
                    "--tied",
                    "no",
                    "--biases",
                    "no",
                    "--learned-positions",
                    "no"})
                 .question.model.parameters() == 70'553'706'496U);
  // A name, and what is different.
  BOOST_TEST(parse({"--model", "gpt2", "--layers", "24"}).question.model.parameters() ==
             124'439'808U + 12U * (12 * 768 * 768 + 13 * 768));
  const zero::plan::Transformer read = zero_plan::read_model(
      R"( { "layers" : 32,"width":4096 , "heads":32, "kv_heads": 8, "inner": 14336,
           "vocabulary": 128256, "gated": true, "tied": false, "biases": false,
           "learned_positions": false, "name": "llama" } )");
  BOOST_TEST(zero::plan::ModelDescription("", read).parameters() == 8'030'261'248U);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_planned_for_is_refused_with_one_sentence) {
  const std::vector<std::vector<const char*>> wrong{
      {"--devices", "-1"},
      {"--devices", "1e3"},
      {"--devices", "1000001"},
      {"--devices", ""},
      {"--batch", "0"},
      {"--stage", "4"},
      {"--stage", ""},
      {"--recompute", "some"},
      {"--attention", "fast"},
      {"--bytes", "17"},
      {"--format", "xml"},
      {"--efficiency", "nan"},
      {"--memory", "inf"},
      {"--contention", "1"},
      {"--top", "0"},
      {"--layers", "100000"},
      {"--layers", "4"},
      {"--gated", "maybe"},
      {"--kv-heads", "3"},
      {"--heads", "0"},
      {"--speed", "1"},
      {"model"},
      {"--model"},
      {"--context", "0"},
      {"--stage", "hybrid", "--devices", "1"},
      {"--stage", "hpz", "--devices", "7"},
      {"--device", "a100"},
      {"--layers", "4096", "--width", "1048576", "--heads", "1"}};
  for (const auto& arguments : wrong) {
    const std::string error = error_of([&] { parse(arguments); });
    BOOST_TEST(!error.empty(), arguments.front());
    if (!error.empty()) BOOST_TEST(error.back() == '.', error);
  }
  for (const char* text :
       {"", "{", "[]", "{\"layers\": 2", "{\"layers\" 2}", "{\"layers\": 2,}", "{\"layers\": 2} x",
        "{\"layers\": {}}", "{\"layers\": 2, \"width\": 64, \"heads\": 8, \"layers\": 2}",
        "{\"layers\": -2}", "{\"layers\": \"2\\\"\"}", "{\"depth\": 2}", "{\"width\": 2}",
        "{\"layers\": 2, \"tied\": 1}", "{layers: 2}"}) {
    BOOST_TEST(!error_of([&] { zero_plan::read_model(text); }).empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(a_machine_in_a_file_is_read_as_it_was_written) {
  zero::plan::Machine machine;
  machine.device = {"", 1e11, 8e9, 2e10, 5e9};
  machine.devices_per_node = machine.nics_per_node = 2;
  machine.latency_us = 0.5, machine.skew_us = 0, machine.host_us_per_step = 0.125;
  std::ostringstream out;
  zero_plan::print_machine(out, "mine", machine);
  const zero_plan::NamedMachine read = zero_plan::read_machine(out.str());
  BOOST_TEST(read.name == "mine");
  BOOST_TEST(read.machine.device.link_bandwidth == 5e9);
  BOOST_TEST(read.machine.devices_per_node == 2U);
  BOOST_TEST(read.machine.host_us_per_step == 0.125);
  // Its latency is that of its collectives; NCCL's does not matter.
  BOOST_TEST(gather_us(read.machine, {2, 1}, 1e6) == 0.5 + 100);
  BOOST_TEST(all_reduce_us(read.machine, {2, 1}, 1e6) == 0.5 + 200);
  BOOST_TEST(gather_us(read.machine, {2, 2}, 1e6) > 0.5 + 150 + 6.6);
  std::ostringstream again;
  zero_plan::print_machine(again, "mine", read.machine);
  BOOST_TEST(again.str() == out.str());
  const std::string needed =
      "{\"peak_flops\": 1e11, \"memory_bytes\": 8e9, \"memory_bandwidth\": 2e10";
  BOOST_TEST(zero_plan::read_machine(needed + ", \"link_bandwidth\": 5e9, \"devices_per_node\": 4}")
                 .machine.nics_per_node == 4U);
  for (const char* more : {"", "}", ", \"link_bandwidth\": 0}", ", \"link_bandwidth\": nan}",
                           ", \"link_bandwidth\": 5e9, \"latency_us\": -1}",
                           ", \"link_bandwidth\": 5e9, \"links\": 2}",
                           ", \"link_bandwidth\": 5e9, \"devices_per_node\": 1.5}"}) {
    const std::string error = error_of([&] { zero_plan::read_machine(needed + more); });
    BOOST_TEST(!error.empty(), more);
    if (!error.empty()) BOOST_TEST(error.back() == '.', error);
  }
}

BOOST_AUTO_TEST_CASE(answers_in_json_have_each_candidate_with_its_bytes_and_reason) {
  zero_plan::Options options = parse({"--model", "gpt2-xl", "--devices", "16", "--batch", "64"});
  const zero::plan::Advice advice = zero::plan::advise(options.question);
  std::ostringstream out;
  zero_plan::print_json(out, options, advice);
  const std::string text = out.str();
  const auto count = [&](const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  BOOST_TEST(count("\"stage\": ") == advice.candidates.size());
  BOOST_TEST(count("\"reason\": ") == advice.candidates.size());
  BOOST_TEST(count("\"step_seconds\": ") == advice.fitting);
  BOOST_TEST(count("{") == count("}"));
  BOOST_TEST(count("[") == 1U);
  BOOST_TEST(count("\"") % 2 == 0U);
  BOOST_TEST(count("\"device_bytes\": " +
                   zero_plan::json(advice.candidates.front().prediction.device_bytes())) >= 1U);
  BOOST_TEST(zero_plan::json(std::string_view("a \"b\" \\ \n")) == "\"a \\\"b\\\" \\\\  \"");
}

BOOST_AUTO_TEST_CASE(a_table_has_a_line_for_each_candidate_up_to_as_many_as_asked) {
  zero_plan::Options options = parse({"--model", "gpt2", "--devices", "4", "--top", "3"});
  const zero::plan::Advice advice = zero::plan::advise(options.question);
  std::ostringstream out;
  zero_plan::print_table(out, options, advice);
  BOOST_TEST(out.str().find("and " + std::to_string(advice.candidates.size() - 3) + " more") !=
             std::string::npos);
  BOOST_TEST(out.str().find(advice.conclusion) != std::string::npos);
  BOOST_TEST(zero_plan::usage().find("--devices-per-node") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_page_needs_nothing_else_and_carries_what_the_program_answers) {
  zero_plan::Options options = parse({"--model", "gpt2", "--devices", "8", "--batch", "32"});
  std::ostringstream out;
  zero_plan::print_page(out, options, zero::plan::advise(options.question));
  const std::string page = out.str();
  for (const char* other : {"http:", "https:", "src=", "href=", "@import", "fetch("}) {
    BOOST_TEST(page.find(other) == std::string::npos, other);
  }
  const zero_plan::PageAxes axes = zero_plan::page_axes(options.question, 4);
  BOOST_TEST((axes.devices == std::vector<std::size_t>{1, 2, 4, 8, 16, 32}));
  BOOST_TEST((axes.batches == std::vector<std::size_t>{1, 2, 4, 8, 16}));
  std::size_t cells = 0;
  for (const std::size_t devices : axes.devices) {
    for (const std::size_t batch : axes.batches) {
      const std::string n = std::to_string(devices), all = std::to_string(batch * devices);
      for (const zero::plan::NamedStage& stage : zero::plan::known_stages) {
        zero::plan::Question asked =
            parse({"--model", "gpt2", "--devices", n.c_str(), "--batch", all.c_str()}).question;
        asked.stage = stage.name;
        const zero::plan::Advice answer = zero::plan::advise(asked);
        if (answer.candidates.empty()) continue;
        const std::string cell = "{\"answer\":" + zero_plan::json(answer.candidates.front());
        cells += page.find(cell) != std::string::npos;
      }
    }
  }
  // One device has no replicas, nor has a pair: a group is at least two.
  BOOST_TEST(cells == axes.batches.size() * (6 * 6 + 4 * 2));
}
BOOST_AUTO_TEST_CASE(a_name_cannot_end_the_element_of_the_data) {
  zero_plan::Options options = parse({"--model", "gpt2", "--devices", "1", "--stage", "0"});
  options.question.model.name = "</script><b>";
  std::ostringstream out;
  zero_plan::print_page(out, options, zero::plan::advise(options.question));
  BOOST_TEST(out.str().find("</script><b>") == std::string::npos);
  BOOST_TEST(out.str().find("u003c/script>") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
