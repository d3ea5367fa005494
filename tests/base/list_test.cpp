// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// List against std::vector: the same elements after any operations; nothing copied or kept.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>
#include <zero/base/list.hpp>

BOOST_AUTO_TEST_SUITE(list_test)

using zero::List;

// Fails to compile if constant expressions cannot have a list, or one loses an element.
constexpr std::size_t sum_of(std::size_t count) {
  List<std::size_t> numbers{1, 2, 3};
  for (std::size_t i = 4; i <= count; ++i) numbers.push_back(i);
  const List<std::size_t> copy = numbers;
  numbers = List<std::size_t>(count, 7);
  numbers.assign(copy.begin(), copy.end());
  numbers.erase_if([](std::size_t n) { return n % 2 == 0; });
  std::size_t sum = numbers == copy ? 1000000 : 0;
  for (const std::size_t n : numbers) sum += n;
  return sum;
}
static_assert(sum_of(100) == 2500);

template <class T>
void check_equal(const List<T>& list, const std::vector<T>& expected) {
  BOOST_TEST(list.size() == expected.size());
  BOOST_TEST(list.empty() == expected.empty());
  BOOST_TEST(list.capacity() >= list.size());
  BOOST_TEST(std::equal(list.begin(), list.end(), expected.begin(), expected.end()));
  if (!list.empty() && !expected.empty()) {
    BOOST_TEST(list.front() == expected.front());
    BOOST_TEST(list.back() == expected.back());
  }
}

BOOST_AUTO_TEST_CASE(any_operations_leave_what_they_leave_in_a_vector) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 dice(seed);
    List<std::string> list;
    std::vector<std::string> expected;
    for (unsigned i = 0; i < 200; ++i) {
      const std::string text = "a string that has memory of its own " + std::to_string(i);
      const auto below = [&](std::size_t n) { return dice() % n; };
      const std::size_t at = below(expected.size() + 1), count = below(8);
      const std::vector<std::string> others(count, text);
      const auto where = expected.begin() + static_cast<std::ptrdiff_t>(at);
      switch (below(12)) {
        case 0: list.push_back(text), expected.push_back(text); break;
        case 1: list.emplace_back(count, 'x'), expected.emplace_back(count, 'x'); break;
        case 2: list.insert(list.begin() + at, text), expected.insert(where, text); break;
        case 3:
          list.insert(list.begin() + at, others.begin(), others.end());
          expected.insert(where, others.begin(), others.end());
          break;
        case 4: list.resize(at + count), expected.resize(at + count); break;
        case 5: list.resize(at, text), expected.resize(at, text); break;
        case 6:
          if (expected.empty()) break;
          list.pop_back(), expected.pop_back();
          break;
        case 7: list.reserve(count * 10), expected.reserve(count * 10); break;
        case 8: {
          const auto unwanted = [&](const std::string& s) { return s.size() % 8 == count; };
          list.erase_if(unwanted), std::erase_if(expected, unwanted);
          break;
        }
        case 9:
          if (expected.empty()) break;  // an element of its own, which moves when it grows
          list.push_back(list.front()), expected.push_back(expected.front());
          break;
        case 10:
          if (expected.empty()) break;
          list.emplace_back(list.back()), expected.emplace_back(expected.back());
          break;
        default:
          if (count == 0) list.clear(), expected.clear();
          if (count == 1) list.assign(at, text), expected.assign(at, text);
          if (count == 2) list = List<std::string>(expected);
          if (count == 3) list = List(list);
          if (count == 4) list = others, expected = others;
      }
      check_equal(list, expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(new_elements_are_zero_though_others_were_there) {
  List<int> list(5, 9);
  list.clear();
  list.resize(5);
  check_equal(list, {0, 0, 0, 0, 0});
  check_equal(List<int>(3), {0, 0, 0});
  check_equal(List<bool>(2, true), {true, true});
}

BOOST_AUTO_TEST_CASE(a_list_that_was_moved_from_is_empty) {
  List<int> list{1, 2, 3};
  const int* const data = list.data();
  List<int> other = std::move(list);
  BOOST_TEST(other.data() == data);
  check_equal(list, {});
  list = {4};
  list = std::move(other);
  BOOST_TEST(list.data() == data);
  check_equal(list, {1, 2, 3});
  check_equal(other, {});
  list = *&list;
  check_equal(list, {1, 2, 3});
}

// What an element holds is released when the element goes, not when the list does.
BOOST_AUTO_TEST_CASE(elements_that_are_dropped_release_what_they_hold) {
  const auto held = std::make_shared<int>(1);
  List<std::shared_ptr<int>> list(6, held);
  list.pop_back();
  BOOST_TEST(held.use_count() == 6);
  list.resize(3);
  BOOST_TEST(held.use_count() == 4);
  list.erase_if([&, i = 0](const auto&) mutable { return ++i == 1; });
  BOOST_TEST(held.use_count() == 3);
  list.insert(list.begin(), nullptr);
  list.clear();
  BOOST_TEST(held.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(elements_may_be_movable_only_or_not_even_that) {
  List<std::unique_ptr<int>> owners;
  for (int i = 0; i < 20; ++i) owners.push_back(std::make_unique<int>(i));
  for (int i = 0; i < 20; ++i) BOOST_TEST(*owners[static_cast<std::size_t>(i)] == i);
  List<std::atomic<int>> counters(4);
  counters[3] = 5;
  BOOST_TEST(counters.back().load() == 5);
}

BOOST_AUTO_TEST_CASE(a_list_is_a_range_of_contiguous_elements) {
  const List<int> list{1, 2, 3};
  const std::span<const int> all = list;
  BOOST_TEST(all.data() == list.data());
  BOOST_TEST(all.size() == 3U);
  BOOST_TEST((list == List<int>{1, 2, 3}));
  BOOST_TEST((list != List<int>{1, 2, 4}));
  BOOST_TEST((list != List<int>{1, 2}));
}

struct Refusing {
  Refusing() { count(); }
  Refusing(const Refusing& other) : memory(other.memory) { count(); }
  Refusing(Refusing&&) noexcept = default;
  Refusing& operator=(Refusing&&) noexcept = default;
  static void count() {
    if (left == 0) throw std::bad_alloc();
    --left;
  }
  std::shared_ptr<int> memory = std::make_shared<int>(7);
  static inline int left = 100;
};

BOOST_AUTO_TEST_CASE(elements_stay_when_one_more_cannot_be_made) {
  List<Refusing> list(3);
  Refusing::left = 2;
  BOOST_CHECK_THROW(list.resize(9), std::bad_alloc);
  BOOST_TEST(list.size() == 4U);
  for (const Refusing& element : list) BOOST_TEST(*element.memory == 7);
  Refusing::left = 2;
  BOOST_CHECK_THROW(List<Refusing>(3), std::bad_alloc);
  BOOST_CHECK_THROW(list.reserve(static_cast<std::size_t>(-1) / 2), std::bad_alloc);
  BOOST_TEST(list.size() == 4U);
}

BOOST_AUTO_TEST_SUITE_END()
