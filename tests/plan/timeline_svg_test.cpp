// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The picture of a schedule is well-formed XML with one box for each step that took time.
#include <boost/test/unit_test.hpp>
#include <cctype>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>
#include <zero/plan/timeline_svg.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/stages.hpp>

BOOST_AUTO_TEST_SUITE(timeline_svg_test)

/// What is wrong with the text as XML, as far as these pictures need it; empty if nothing is.
std::string fault(std::string_view xml) {
  std::vector<std::string> open;
  std::size_t at = 0, roots = 0;
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-';
  };
  const auto take_name = [&] {
    const std::size_t begin = at;
    while (at < xml.size() && is_name(xml[at])) ++at;
    return std::string(xml.substr(begin, at - begin));
  };
  while (at < xml.size()) {
    const char c = xml[at];
    if (c == '&') {
      const std::string_view rest = xml.substr(at);
      if (!rest.starts_with("&lt;") && !rest.starts_with("&gt;") && !rest.starts_with("&amp;") &&
          !rest.starts_with("&quot;"))
        return "a bare & at " + std::to_string(at);
      ++at;
    } else if (c != '<') {
      if (c == '>') return "a bare > at " + std::to_string(at);
      if (open.empty() && !std::isspace(static_cast<unsigned char>(c))) return "text outside";
      ++at;
    } else if (xml.substr(at).starts_with("</")) {
      at += 2;
      const std::string name = take_name();
      if (open.empty() || open.back() != name) return "an end of '" + name + "' that was not begun";
      open.pop_back();
      if (at == xml.size() || xml[at++] != '>') return "an end tag that does not end";
    } else {
      ++at;
      const std::string name = take_name();
      if (name.empty()) return "a bare < at " + std::to_string(at);
      roots += open.empty();
      open.push_back(name);
      std::vector<std::string> attributes;
      while (at < xml.size() && xml[at] == ' ') {
        ++at;
        attributes.push_back(take_name());
        for (std::size_t i = 0; i + 1 < attributes.size(); ++i)
          if (attributes[i] == attributes.back())
            return name + " has " + attributes.back() + " twice";
        if (!xml.substr(at).starts_with("=\""))
          return "an attribute of " + name + " without a value";
        const std::size_t end = xml.find('"', at + 2);
        if (end == xml.npos) return "an attribute of " + name + " does not end";
        if (xml.substr(at, end - at).find_first_of("<>") != xml.npos)
          return "a tag in an attribute";
        at = end + 1;
      }
      if (xml.substr(at).starts_with("/>")) {
        open.pop_back();
        at += 2;
      } else if (at == xml.size() || xml[at++] != '>') {
        return "a tag " + name + " that does not end";
      }
    }
  }
  return !open.empty() ? "'" + open.back() + "' does not end" : roots == 1 ? "" : "not one root";
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

double duration(const zero::Step& step) {
  return step.op == zero::Op::release ? 0 : step.op == zero::Op::backward ? 2000 : 700;
}

template <class StageType>
zero::Schedule schedule(std::size_t micro_steps = 1) {
  return zero::make_schedule<StageType>(zero::ModelShape(3), zero::training(3, micro_steps));
}
template <class UnitName>
std::string draw(const zero::Schedule& made, std::span<const zero::Span> spans, UnitName name,
                 const char* title = "A step") {
  std::ostringstream out;
  zero::print_timeline_svg(out, made, spans, title, name);
  return out.str();
}
std::string number(std::size_t unit) { return "unit " + std::to_string(unit); }

BOOST_AUTO_TEST_CASE(the_checker_of_this_test_finds_faults) {
  BOOST_TEST(fault("<a><b c=\"1\"/>x &lt; y</a>\n") == "");
  for (const char* wrong : {"<a>", "<a></b>", "<a>&</a>", "<a b=1/>", "<a b=\"<\"/>", "<a/><b/>",
                            "<a b=\"1\" b=\"2\"/>", "<a", "</a>", "<a>></a>", ""})
    BOOST_TEST(fault(wrong) != "", wrong);
}

BOOST_AUTO_TEST_CASE(each_step_with_a_duration_has_one_box_that_names_it) {
  const auto check = [](const zero::Schedule& made) {
    const auto spans = zero::timeline(made, duration);
    const std::string svg = draw(made, spans, number);
    BOOST_TEST(fault(svg) == "");
    std::size_t boxes = 0;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const bool took_time = duration(made.steps[i]) > 0;
      BOOST_TEST(count(svg, "<title>" + std::to_string(i) + ": ") == (took_time ? 1U : 0U));
      boxes += took_time;
    }
    BOOST_TEST(count(svg, "<title>") == boxes);
    BOOST_TEST(boxes > made.model.units());
  };
  check(schedule<zero::Ddp>());
  check(schedule<zero::Zero1>());
  check(schedule<zero::Zero3>());
  check(schedule<zero::Hybrid>(2));
}

BOOST_AUTO_TEST_CASE(a_lane_is_drawn_for_each_stream_that_is_used_with_its_share_of_the_time) {
  const zero::Schedule made = schedule<zero::Zero3>();
  const std::string svg = draw(made, zero::timeline(made, duration), number);
  BOOST_TEST(count(svg, ">compute<") == 1U);
  BOOST_TEST(count(svg, ">gather<") == 2U);  // the lane and the legend
  BOOST_TEST(count(svg, ">reduce<") == 1U);
  BOOST_TEST(count(svg, ">replicate<") == 0U);
  BOOST_TEST(count(svg, " % busy<") == 3U);
  BOOST_TEST(count(svg, ">0 ms<") == 1U);
  BOOST_TEST(count(svg, ">idle<") == 1U);
  const zero::Schedule hybrid = schedule<zero::Hybrid>();
  BOOST_TEST(count(draw(hybrid, zero::timeline(hybrid, duration), number), ">replicate<") == 1U);
}

BOOST_AUTO_TEST_CASE(the_phases_of_the_compute_stream_are_named_above_it) {
  const zero::Schedule made = schedule<zero::Zero3>(2);
  const std::string svg = draw(made, zero::timeline(made, duration), number);
  BOOST_TEST(count(svg, ">forward<") == 3U);  // two micro-steps and the legend
  BOOST_TEST(count(svg, ">backward<") == 3U);
  BOOST_TEST(count(svg, ">update<") == 2U);
}

BOOST_AUTO_TEST_CASE(a_legend_that_is_wider_than_the_picture_goes_on_in_another_row) {
  const auto last_entry = [](const zero::Schedule& made) {
    const std::string svg = draw(made, zero::timeline(made, duration), number);
    const std::size_t text = svg.rfind("<text x=\"", svg.find(">idle<"));
    return std::stod(svg.substr(text + 9));
  };
  const double one_row = last_entry(schedule<zero::Zero3>());
  const double two_rows = last_entry(schedule<zero::Hpz>());
  BOOST_TEST(one_row < 1300);
  BOOST_TEST(one_row > 600);
  BOOST_TEST(two_rows < 600);
}

BOOST_AUTO_TEST_CASE(names_are_escaped_whatever_they_hold_and_however_long_they_are) {
  const zero::Schedule made = schedule<zero::Zero2>();
  const auto spans = zero::timeline(made, duration);
  const std::string hostile = "<block> & \"quotes\" \x01\n";
  const std::string svg = draw(
      made, spans, [&](std::size_t) { return hostile; }, "a < b & \"c\" > d");
  BOOST_TEST(fault(svg) == "");
  BOOST_TEST(count(svg, "&lt;block&gt; &amp; &quot;quotes&quot;") >= 3U);
  BOOST_TEST(count(svg, "a &lt; b &amp; &quot;c&quot; &gt; d") == 1U);
  const std::string large = draw(made, spans, [](std::size_t) { return std::string(5000, 'n'); });
  BOOST_TEST(fault(large) == "");
  BOOST_TEST(count(large, std::string(5000, 'n')) >= 3U);
}

BOOST_AUTO_TEST_CASE(a_schedule_that_did_not_run_and_steps_of_any_length_make_a_picture) {
  const zero::Schedule made = schedule<zero::Zero3>();
  zero::List<zero::Span> spans(made.steps.size());
  const std::string empty = draw(made, spans, number);
  BOOST_TEST(fault(empty) == "");
  BOOST_TEST(count(empty, "<title>") == 0U);
  BOOST_TEST(fault(draw(made, {}, number)) == "");
  for (const double length : {1e-3, 1e9}) {
    spans[0] = {1e12, 1e12 + length};
    const std::string svg = draw(made, spans, number);
    BOOST_TEST(fault(svg) == "");
    BOOST_TEST(count(svg, "<title>") == 1U);
    BOOST_TEST(count(svg, " ms</text>") >= 5U);
    BOOST_TEST(count(svg, " ms</text>") <= 20U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
