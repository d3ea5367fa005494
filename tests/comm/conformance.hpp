// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What every Communicator promises. The includer defines a struct `World` with
//   static constexpr std::array ranks  // the numbers of ranks to try, at most 8
//   static void run(ranks, f)  // calls f(communicator) as each rank, returns when all are done
//   using Place = ...  // where the collectives of a rank act, as HostPlace of host_place.hpp
//   static constexpr bool in_rank_order  // sums are formed in rank order and rounded once
//   static constexpr bool accumulates    // otherwise Accumulate::yes is refused
// and, where ranks are processes, each of which runs all cases,
//   static std::array<std::size_t, 8>& shared()  // memory that all of them see
//   static void meet(ranks)  // returns when all ranks have called it
//   static std::string all_of(findings)  // the findings of all of them, on the one that asserts
// Ranks return what they found wrong; only the main thread asserts.
#pragma once

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/comm/communicator.hpp>

#include "../share.hpp"

namespace conformance {

using zero::Accumulate;
using zero::Reduction;

// 128 elements are a block of the sums.
#if ZERO_TEST_SHARE == 1
constexpr std::array<std::size_t, 8> counts = {0, 1, 3, 127, 128, 129, 1000, 5003};
#else
constexpr std::array<std::size_t, 3> counts = {0, 3, 1000};
#endif

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// One rank of a test.
template <class World, class Comm>
class Rank {
 public:
  using Place = typename World::Place;

  Rank(Comm& communicator, typename Place::Way way)
      : comm(communicator), place_(way, communicator.rank()) {}

  /// Calls f() or f(stream), and waits.
  template <class F>
  void issue(F f) {
    place_.issue(f);
  }
  /// Elements where collectives act: data() for them, values() to look at.
  template <class T>
  auto hold(std::vector<T> elements) {
    return place_.hold(std::move(elements));
  }

  /// Element i of what a rank holds: any number, so that an order of summation shows in the bits;
  /// or one whose sums and averages are exact in any order.
  template <class T>
  T element(T, std::size_t rank, std::size_t i) const {
    const std::uint64_t bits = mix(rank * 1'000'003 + i + 1);
    if constexpr (!World::in_rank_order) {
      return T(static_cast<Wide<T>>(bits % 8 * comm.size()));
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return bits;
    } else {
      const double value = static_cast<double>(static_cast<std::int64_t>(bits)) / (1ULL << 60);
      return T(static_cast<Wide<T>>(value));
    }
  }
  template <class T>
  std::vector<T> elements(T type, std::size_t rank, std::size_t count) const {
    std::vector<T> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = element(type, rank, i);
    return all;
  }
  /// The definition: a sum in rank order, in fp32 for narrow types, rounded once.
  template <class T>
  T reduced(T type, std::size_t i, Reduction reduction, Accumulate accumulate = {},
            T old = {}) const {
    Wide<T> sum = static_cast<Wide<T>>(element(type, 0, i));
    for (std::size_t r = 1; r < comm.size(); ++r) {
      sum = sum + static_cast<Wide<T>>(element(type, r, i));
    }
    if (reduction == Reduction::average) sum = sum / static_cast<Wide<T>>(comm.size());
    if (accumulate == Accumulate::yes) sum = static_cast<Wide<T>>(old) + sum;
    return T(sum);
  }

  void expect(bool ok, const std::string& what) {
    if (!ok)
      findings += "rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()) +
                  ": " + what + "\n";
  }

  template <class T>
  void expect_bits(const std::vector<T>& got, const std::vector<T>& wanted,
                   const std::string& what) {
    const bool same =
        got.size() == wanted.size() &&
        (got.empty() || std::memcmp(got.data(), wanted.data(), got.size() * sizeof(T)) == 0);
    expect(same, what + " of " + std::to_string(wanted.size()) + " x " +
                     zero::name_of(zero::data_type<T>));
  }

  Comm& comm;
  std::string findings;

 private:
  template <class T>
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

  Place place_;
};

/// Runs f(rank) on all ranks of a World, in all ways; returns what they found wrong.
template <class World, class F>
std::string run(F f) {
  std::mutex mutex;
  std::string findings;
  for (const std::size_t ranks : World::ranks) {
    for (const auto way : World::Place::ways) {
      World::run(ranks, [&](auto& comm) {
        Rank<World, std::remove_cvref_t<decltype(comm)>> rank(comm, way);
        f(rank);
        const std::lock_guard lock(mutex);
        findings += rank.findings;
      });
    }
  }
  if constexpr (requires { World::all_of(findings); }) return World::all_of(findings);
  return findings;
}

/// Returns when all ranks have returned from what they called before: what one of them does next
/// cannot end it. Ranks that are threads return together.
template <class World>
void meet(std::size_t ranks) {
  if constexpr (requires { World::meet(ranks); }) {
    World::meet(ranks);
  } else {
    static std::mutex mutex;
    static std::condition_variable all_came;
    static std::size_t came = 0, meetings = 0;
    std::unique_lock lock(mutex);
    const std::size_t meeting = meetings;
    if (++came == ranks) {
      came = 0;
      ++meetings;
      all_came.notify_all();
    } else if (!all_came.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return meetings != meeting; })) {
      throw zero::CommunicatorError("not all ranks of a test met");
    }
  }
}

/// A number for each rank that all ranks see.
template <class World>
auto& shared_numbers() {
  if constexpr (requires { World::shared(); }) {
    return World::shared();
  } else {
    static std::array<std::size_t, 8> numbers;
    return numbers;
  }
}

template <class F>
void for_each_type(F f) {
  f(float{});
  f(double{});
  f(zero::bf16{});
  f(zero::fp16{});
  f(std::uint64_t{});
}

}  // namespace conformance
