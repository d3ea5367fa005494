// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What every Communicator promises. The includer defines a struct `World` with
//   static constexpr std::array ranks  // the numbers of ranks to try, at most 8
//   static void run(ranks, f)  // calls f(communicator) as each rank, returns when all are done
// Ranks return what they found wrong; only the main thread asserts.
#pragma once

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/device/host_stream.hpp>

namespace conformance {

using zero::Accumulate;
using zero::Reduction;

/// How collectives are issued: on the calling thread, or on a stream of some mode.
enum class Way { blocking, inline_stream, asynchronous, shuffled };
constexpr std::array ways = {Way::blocking, Way::inline_stream, Way::asynchronous, Way::shuffled};

// 128 elements are a block of the sums.
constexpr std::array<std::size_t, 8> counts = {0, 1, 3, 127, 128, 129, 1000, 5003};

/// One rank of a test.
template <class Comm>
class Rank {
 public:
  Rank(Comm& communicator, Way way)
      : comm(communicator),
        way_(way),
        device_({.mode = mode_of(way), .seed = comm.rank() * 7919 + 1}),
        stream_(device_.make_stream("collectives")) {}

  /// Calls f() or f(stream), and waits.
  template <class F>
  void issue(F f) {
    if (way_ == Way::blocking) return f();
    f(stream_);
    stream_.synchronize();
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
  static zero::StreamMode mode_of(Way way) {
    return way == Way::asynchronous ? zero::StreamMode::asynchronous
           : way == Way::shuffled   ? zero::StreamMode::shuffled
                                    : zero::StreamMode::inline_run;
  }

  Way way_;
  zero::HostDevice device_;
  zero::HostStream& stream_;
};

/// Runs f(rank) on all ranks of a World, in all ways; returns what they found wrong.
template <class World, class F>
std::string run(F f) {
  std::mutex mutex;
  std::string findings;
  for (const std::size_t ranks : World::ranks) {
    for (const Way way : ways) {
      World::run(ranks, [&](auto& comm) {
        Rank rank(comm, way);
        f(rank);
        const std::lock_guard lock(mutex);
        findings += rank.findings;
      });
    }
  }
  return findings;
}

template <class F>
void for_each_type(F f) {
  f(float{});
  f(double{});
  f(zero::bf16{});
  f(zero::fp16{});
  f(std::uint64_t{});
}

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Element i of what a rank holds: any number, so that an order of summation shows in the bits.
template <class T>
T element(std::size_t rank, std::size_t i) {
  const std::uint64_t bits = mix(rank * 1'000'003 + i + 1);
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return bits;
  } else {
    const double value = static_cast<double>(static_cast<std::int64_t>(bits)) / (1ULL << 60);
    if constexpr (std::is_same_v<T, double>) return value;
    return T(static_cast<float>(value));
  }
}

template <class T>
std::vector<T> elements(std::size_t rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = element<T>(rank, i);
  return all;
}

/// The definition: a sum in rank order, in fp32 for narrow types, rounded once.
template <class T>
T reduced(std::size_t ranks, std::size_t i, Reduction reduction, Accumulate accumulate = {},
          T old = {}) {
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  Sum sum = static_cast<Sum>(element<T>(0, i));
  for (std::size_t r = 1; r < ranks; ++r) sum = sum + static_cast<Sum>(element<T>(r, i));
  if (reduction == Reduction::average) sum = sum / static_cast<Sum>(ranks);
  if (accumulate == Accumulate::yes) sum = static_cast<Sum>(old) + sum;
  return T(sum);
}

}  // namespace conformance
