// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stream capture: work becomes nodes of a graph. Private to the emulator; with the lock held.
#pragma once

#include <thread>

#include "state.hpp"

namespace emulator {

/// Work in a graph.
struct Node {
  Work work;
  int device;
  std::size_t index;         ///< In the order of the host's calls.
  std::vector<Node*> after;  ///< Nodes that come before it.
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  Stream* origin;
  std::vector<StreamPointer> streams;  ///< All that take part.
  std::shared_ptr<Graph> graph;
  bool valid = true;
};

/// Adds work of a stream that is being captured.
void capture_work(Lock&, Stream& stream, Work work);
void record_in_capture(Lock&, Event& event, Stream& stream);
/// Lets `stream` come after an event, of which at least one is in a capture.
void wait_in_capture(Lock&, const StreamPointer& stream, const Event& event);

// What CUDA refuses while it captures: each spoils the captures concerned and throws CudaFailure.

/// Synchronising with a stream that is being captured; also what refuse_unsafe_call refuses.
void refuse_while_capturing(Lock&, Stream& stream);
/// Calls that may synchronise, as the modes of captures and of the calling thread say.
void refuse_unsafe_call(Lock&);
void refuse_captured_event(Lock&, const Event& event);
/// The legacy stream, while a stream that it orders with is being captured.
void refuse_legacy_while_capturing(Lock&, int device);
/// The stream is destroyed.
void abandon_capture(Lock&, Stream& stream);

}  // namespace emulator
