// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A schedule as text, graph and trace.
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <zero/schedule/print.hpp>

#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(print_test)

using namespace tested;

const Schedule two = make_schedule<Zero3>(ModelShape(2), evaluation(2));
std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

BOOST_AUTO_TEST_CASE(text_has_one_line_a_step_with_operands_waits_and_events) {
  std::ostringstream out;
  print(out, two);
  BOOST_TEST(out.str() ==
             "    0  gather     gather 0                 m0   P/[0] =P[0]  <- 3'  *\n"
             "    1  gather     gather 1                 m0   P/[1] =P[1]  <- 5'  *\n"
             "    2  compute    forward 0                m0   P[0] =A[0] +=F[0]  <- 0\n"
             "    3  compute    release 0                m0  =P[0]  *\n"
             "    4  compute    forward 1                m0   P[1] =A[1] +=F[0]  <- 1\n"
             "    5  compute    release 1                m0  =P[1]  *\n");
}

BOOST_AUTO_TEST_CASE(a_graph_has_a_node_a_step_and_an_edge_a_wait) {
  std::ostringstream out;
  print_dot(out, two);
  const std::string dot = out.str();
  BOOST_TEST(dot.starts_with("digraph schedule {\n"));
  BOOST_TEST(dot.ends_with("}\n"));
  BOOST_TEST(times(dot, "[label=") == 6u);
  BOOST_TEST(times(dot, "[color=grey]") == 4u);  // 1 after 0; 3, 4, 5 after 2
  BOOST_TEST(times(dot, "style=dashed") == 2u);  // of the previous execution
  BOOST_TEST(times(dot, "  s0 -> s2;\n") == 1u);
}

BOOST_AUTO_TEST_CASE(a_trace_has_an_event_a_step_named_by_its_unit) {
  std::ostringstream out;
  const auto spans = timeline(
      two, [](const Step&) { return 1.5; }, 2);
  print_trace(out, two, spans, [](std::size_t unit) { return "block \"" + std::to_string(unit); });
  const std::string trace = out.str();
  BOOST_TEST(times(trace, "\"ph\":\"X\"") == 12u);
  BOOST_TEST(times(trace, "thread_name") == stream_count);
  BOOST_TEST(times(trace, R"({"name":"forward block \"1","ph":"X","pid":0,"tid":0,"ts":)") == 2u);
  BOOST_TEST(times(trace, R"("ts":0.000000,"dur":1.500000,"args":{"step":0,"micro_step":0}})") ==
             1u);
  BOOST_TEST(times(trace, "{") == times(trace, "}"));
  BOOST_TEST(times(trace, "[") == times(trace, "]"));
}

BOOST_AUTO_TEST_CASE(a_group_is_named_by_the_unit_that_owns_it) {
  std::ostringstream out;
  const Schedule s = make_schedule<Zero1>(two_groups(1), training(1));
  print_trace(out, s, timeline(s, [](const Step&) { return 1.0; }));
  BOOST_TEST(times(out.str(), "\"name\":\"reduce_scatter 0\"") == 1u);
  BOOST_TEST(times(out.str(), "\"name\":\"combine\"") == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
