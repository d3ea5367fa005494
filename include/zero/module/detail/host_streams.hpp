// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The streams of a schedule on a host device. May include device/ and schedule/.
#pragma once
#include <cstddef>
#include <cstring>
#include <span>
#include <zero/base/array.hpp>
#include <zero/base/error.hpp>
#include <zero/device/host_stream.hpp>
#include <zero/module/options.hpp>
#include <zero/schedule/schedule.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// One stream for each StreamId. The compute stream runs inline where the user's code runs on the
/// calling thread.
class HostStreams {
 public:
  /// A stream that the stage does not use is the compute stream.
  HostStreams(const ModuleOptions& options, const StageTraits& stage)
      : device_({.mode = options.streams, .seed = options.seed, .time_limit = options.time_limit}) {
    for (std::size_t s = 0; s < stream_count; ++s) {
      const auto id = static_cast<StreamId>(s);
      if (!stage.uses(id)) {
        streams_[s] = &(*this)[StreamId::compute];
        continue;
      }
      const bool on_caller = id == StreamId::compute && options.user_code == UserCode::on_caller;
      streams_[s] =
          on_caller ? &device_.make_inline_stream(name_of(id)) : &device_.make_stream(name_of(id));
    }
  }

  HostStream& operator[](StreamId id) { return *streams_[static_cast<std::size_t>(id)]; }
  /// Waits for all streams; throws the first error.
  void synchronize() { device_.synchronize(); }
  /// The same without the error, which was or will be reported where work is enqueued or waited
  /// for.
  void settle() noexcept {
    try {
      synchronize();
    } catch (...) {}
  }
  /// Orders everything that comes after everything that was enqueued, without waiting on the host.
  void fence() {
    for (std::size_t s = 0; s < stream_count; ++s) streams_[s]->record(fence_events_[s]);
    for (HostStream* stream : streams_) {
      for (HostEvent& event : fence_events_) stream->wait(event);
    }
  }
  using Other = HostStream*;  // a stream of the user's
  /// Work that comes to `other` begins after what was enqueued for the compute stream so far.
  ///
  /// Errors:  ContractError if it is null.
  void fork(Other other) {
    if (other == nullptr) {
      throw ContractError(
          "zero: also_on was called with a null pointer; pass the address of a HostStream");
    }
    (*this)[StreamId::compute].record(beside_);
    other->wait(beside_);
  }
  /// Work that comes to the compute stream begins after what was enqueued on `other`, whose errors
  /// are its own then.
  void join(Other other) {
    other->record(beside_);
    (*this)[StreamId::compute].wait(beside_);
    (*this)[StreamId::compute].enqueue("check", other->checker());
  }
  /// Throws the first error so far. Does not wait.
  void check() const {
    for (const HostStream* stream : streams_) stream->check();
  }
  bool failed() const {
    try {
      check();
    } catch (...) { return true; }
    return false;
  }

  void prepare(std::span<HostEvent>) {}
  bool capturing() const { return false; }
  void push_range(const char*) const {}
  void pop_range() const {}

  // Access of the host to arrays while nothing runs; what is called may see them in several parts.
  /// Fills bytes of the device.
  void fill_now(void* data, int byte, std::size_t bytes) { std::memset(data, byte, bytes); }
  /// Calls f(part of the array, where it begins), which only reads.
  template <class F>
  void read(const Array& array, F f) {
    f(array, std::size_t{0});
  }
  /// The same for f that writes every element.
  template <class F>
  void write(const Array& array, F f) {
    f(array, std::size_t{0});
  }
  /// Calls f(part of one, the same part of the other), which may change both.
  template <class F>
  void change(const Array& one, const Array& other, F f) {
    f(one, other);
  }

 private:
  HostEvent fence_events_[stream_count], beside_;
  HostDevice device_;
  HostStream* streams_[stream_count] = {};
};

}  // namespace zero::detail
