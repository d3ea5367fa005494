// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The concepts Event, Stream and Device. Includes device/memory.hpp for the concept Memory.
#pragma once

#include <concepts>
#include <string>
#include <zero/device/memory.hpp>

namespace zero {

/// A point in a stream.
///
///   E()            complete, as long as it was never recorded
///   complete()     whether the work before the latest record has ended; does not wait
///   synchronize()  the host waits until complete(), at most for the device's time limit
///
/// May be destroyed while work waits for it.
template <class E>
concept Event = std::default_initializable<E> && requires(const E& event) {
  { event.complete() } -> std::same_as<bool>;
  event.synchronize();
};

/// A queue of work that runs in order. How work gets into it is the device's own matter (callables
/// on the host, kernels on a GPU), so that no requirement names it.
///
///   record(event)  the event now stands for all work enqueued here so far
///   wait(event)    work enqueued here later begins after what the latest record before this call
///                  stands for; no matter when, or whether, the event is recorded again; nothing
///                  happens if it was never recorded
///   synchronize()  the host waits until all work enqueued here has ended, and gets its first error
///
/// None of these allocates.
template <class S, class E>
concept Stream = Event<E> && requires(S& stream, E& event) {
  stream.record(event);
  stream.wait(event);
  stream.synchronize();
};

/// The streams and the memory of one rank.
///
///   make_stream(name)  a new stream, which lives as long as the device
///   synchronize()      the host waits for all streams
///   destruction        never throws, whatever is queued
///
/// Proved by tests/device/conformance.hpp.
template <class D>
concept Device = Stream<typename D::Stream, typename D::Event> && Memory<typename D::Memory> &&
    requires(D& device, std::string name) {
  { device.make_stream(name) } -> std::same_as<typename D::Stream&>;
  device.synchronize();
};

}  // namespace zero
