// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What every Device promises. The includer defines `Makers`, a std::tuple of types with
//   static Device& make(std::optional<Device>&, std::size_t queue_capacity, milliseconds limit)
//   static void enqueue(stream, callable)  // puts it on the stream as the device's work
//   static void gate(stream, const std::atomic<bool>& open)  // work that ends when it is open
//   static constexpr bool deferred  // enqueue returns before the work has run
// and `DeferredMakers`, those that are deferred. At most one gate is closed at a time, and nothing
// that another stream runs opens it: a device may run callables of all streams on one thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/device/stream.hpp>

#include "../counting_new.hpp"

namespace conformance {

using std::chrono::milliseconds;
constexpr milliseconds long_limit{20'000};
constexpr milliseconds short_limit{80};

template <class Maker>
struct Fixture {
  using Device = typename Maker::Device;
  using Event = typename Device::Event;

  std::optional<Device> storage;
  Device& device;

  explicit Fixture(std::size_t capacity = 64, milliseconds limit = long_limit)
      : device(Maker::make(storage, capacity, limit)) {}
};

inline bool mentions(const std::exception& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

/// Counts its constructions and destructions; cannot be copied.
class Tracked {
 public:
  struct Count {
    std::atomic<int> alive{0};
    std::atomic<int> runs{0};
  };

  explicit Tracked(Count& count) : count_(&count) { ++count_->alive; }
  Tracked(Tracked&& other) noexcept : count_(other.count_) { ++count_->alive; }
  ~Tracked() { --count_->alive; }
  void operator()() { ++count_->runs; }

 private:
  Count* count_;
};

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace conformance
