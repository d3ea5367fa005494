// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Where the collectives of communicators in host memory act: the Place of conformance.hpp.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>
#include <zero/device/host_stream.hpp>

namespace conformance {

class HostPlace {
 public:
  using Stream = zero::HostStream;

  /// How collectives are issued: on the calling thread, or on a stream of some mode.
  enum class Way { blocking, inline_stream, asynchronous, shuffled };
  static constexpr std::array ways = {Way::blocking, Way::inline_stream, Way::asynchronous,
                                      Way::shuffled};

  template <class T>
  class Held {
   public:
    explicit Held(std::vector<T> elements) : elements_(std::move(elements)) {}
    T* data() { return elements_.data(); }
    const std::vector<T>& values() const { return elements_; }

   private:
    std::vector<T> elements_;
  };

  HostPlace(Way way, std::size_t rank)
      : way_(way),
        device_({.mode = mode_of(way), .seed = rank * 7919 + 1}),
        stream_(device_.make_stream("collectives")) {}

  template <class F>
  void issue(F f) {
    if (way_ == Way::blocking) return f();
    f(stream_);
    stream_.synchronize();
  }

  template <class T>
  Held<T> hold(std::vector<T> elements) {
    return Held<T>(std::move(elements));
  }

  /// Calls f(device) with devices whose streams run later than they are given work.
  template <class F>
  static void on_devices(std::size_t rank, F f) {
    using zero::StreamMode;
    for (const StreamMode mode : {StreamMode::asynchronous, StreamMode::shuffled}) {
      zero::HostDevice device({.mode = mode, .seed = rank + 17});
      f(device);
    }
  }
  /// Elements for the streams of such devices.
  template <class T>
  static Held<T> hold_on_device(std::vector<T> elements) {
    return Held<T>(std::move(elements));
  }
  /// Enqueues a copy, from or to memory of the host, after a while.
  static void copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
    stream.enqueue([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::memcpy(to, from, bytes);
    });
  }

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

/// What a World in host memory says of itself.
struct HostWorld {
  using Place = HostPlace;
  static constexpr bool in_rank_order = true;
  static constexpr bool accumulates = true;
};

}  // namespace conformance
