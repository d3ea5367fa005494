// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What an error says that each rank did last.
#include <boost/test/unit_test.hpp>
#include <string>
#include <zero/comm/run_threads.hpp>

BOOST_AUTO_TEST_SUITE(history_test)

using zero::Label;
using zero::detail::Call;
using zero::detail::History;

Call call(const char* operation, std::string_view unit, std::uint32_t position,
          std::uint32_t micro_step = zero::no_position) {
  return Call{.collective = zero::Collective::all_gather}.labelled(
      Label{operation, unit, position, micro_step});
}

BOOST_AUTO_TEST_CASE(the_latest_come_last_and_those_under_way_are_marked) {
  History history;
  BOOST_TEST(history.text(4) == "nothing");
  const std::uint64_t first = history.issue(call("gather", "block.3", 17, 1));
  const std::uint64_t second = history.issue(call(nullptr, "", zero::no_position));
  BOOST_TEST(history.text(4) ==
             "gather of block.3 at 17 in micro-step 1 (not done), all_gather (not done)");
  history.end(second);
  BOOST_TEST(history.text(1) == "all_gather");
  history.end(first);
  BOOST_TEST(history.text(4) == "gather of block.3 at 17 in micro-step 1, all_gather");
}

BOOST_AUTO_TEST_CASE(the_ring_forgets_the_oldest_and_an_end_that_comes_too_late) {
  History history;
  std::uint64_t numbers[3 * History::length] = {};
  for (std::uint32_t i = 0; i < 3 * History::length; ++i)
    numbers[i] = history.issue(call("op", "u", i));
  history.end(numbers[0]);
  const std::string text = history.text(100);
  BOOST_TEST(text.starts_with("op of u at 16 (not done), "), text);
  BOOST_TEST(text.ends_with("op of u at 23 (not done)"), text);
  history.end(numbers[16]);
  BOOST_TEST(history.text(100).starts_with("op of u at 16, "));
}

BOOST_AUTO_TEST_CASE(long_names_are_cut) {
  History history;
  history.issue(call("an operation of many words", std::string(50, 'x'), 3));
  BOOST_TEST(history.text(1) == "an operation of  of " + std::string(32, 'x') + " at 3 (not done)");
}

// On whatever communicators: those that were split from the first one share its histories.
BOOST_AUTO_TEST_CASE(an_error_shows_what_every_rank_did_last) {
  std::vector<std::string> texts(4);
  zero::run_threads(4, [&](zero::ThreadCommunicator& comm) {
    const auto pair = comm.split(static_cast<int>(comm.rank() / 2), 0);
    float data[2] = {};
    pair.all_reduce(data, 1, Label{"a sum", "pair", 5, 2});
    try {
      if (comm.rank() != 3) comm.all_reduce(data, 2, Label{"the total", "all", 6});
      if (comm.rank() == 3) comm.barrier(Label{"a pause", "all", 7});
    } catch (const zero::CommunicatorError& error) { texts[comm.rank()] = error.what(); }
  });
  for (const std::string& text : texts) {
    for (const char* part :
         {"\nLast operations, the latest at the end:",
          "\n  rank 0: split, a sum of pair at 5 in micro-step 2, the total of all at 6 (not done)",
          "\n  rank 3: split, a sum of pair at 5 in micro-step 2, a pause of all at 7 (not "
          "done)"}) {
      BOOST_TEST(text.find(part) != std::string::npos, text << " lacks " << part);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
