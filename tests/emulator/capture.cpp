// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stream capture, with what CUDA refuses meanwhile.
#include "capture.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "call.hpp"
#include "graph.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* const active = new std::vector<std::shared_ptr<Capture>>;
  return *active;
}
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

[[noreturn]] void spoil(Capture& capture, cudaError_t error) {
  capture.valid = false;
  throw CudaFailure{error};
}

void need_valid(const Capture& capture) {
  if (!capture.valid) throw CudaFailure{cudaErrorStreamCaptureInvalidated};
}

void add_all(std::vector<Node*>& to, const std::vector<Node*>& nodes) {
  for (Node* node : nodes) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

/// Whether everything that was captured comes before what the origin's next work would come after.
bool all_joined(const Capture& capture) {
  std::set<const Node*> before;
  std::vector<Node*> open = capture.origin->frontier;
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (before.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return before.size() == capture.graph->nodes.size();
}

/// Takes all streams out of the capture.
void end_capture(const std::shared_ptr<Capture>& capture) {
  for (const auto& stream : capture->streams) {
    stream->capture = nullptr;
    stream->frontier.clear();
  }
  capture->streams.clear();
  std::erase(captures(), capture);
}

}  // namespace

void capture_work(Lock&, Stream& stream, Work work) {
  need_valid(*stream.capture);
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_unique<Node>(
      Node{std::move(work), stream.device, nodes.size(), std::move(stream.frontier)}));
  stream.frontier = {nodes.back().get()};
}

void record_in_capture(Lock&, Event& event, Stream& stream) {
  need_valid(*stream.capture);
  event.record = nullptr;
  event.capture = stream.capture;
  event.frontier = stream.frontier;
}

void wait_in_capture(Lock&, const StreamPointer& stream, const Event& event) {
  if (!event.capture) {
    need_valid(*stream->capture);
    if (!event.record) return;  // Never recorded: nothing to wait for.
    spoil(*stream->capture, cudaErrorStreamCaptureIsolation);
  }
  need_valid(*event.capture);
  const bool active =
      std::find(captures().begin(), captures().end(), event.capture) != captures().end();
  if (!active) throw CudaFailure{cudaErrorCapturedEvent};
  if (stream->capture && stream->capture != event.capture) {
    event.capture->valid = false;
    spoil(*stream->capture, cudaErrorStreamCaptureMerge);
  }
  if (!stream->capture) {
    if (stream == state().devices[stream->device].legacy) {
      spoil(*event.capture, cudaErrorStreamCaptureImplicit);
    }
    stream->capture = event.capture;
    stream->capture->streams.push_back(stream);
  }
  add_all(stream->frontier, event.frontier);
}

void refuse_unsafe_call(Lock&) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return;
  bool refused = false;
  for (const auto& capture : captures()) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool others =
        capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (capture->mode == cudaStreamCaptureModeRelaxed || !(own || others)) continue;
    capture->valid = false;
    refused = true;
  }
  if (refused) throw CudaFailure{cudaErrorStreamCaptureUnsupported};
}

void refuse_while_capturing(Lock& held, Stream& stream) {
  if (stream.capture) spoil(*stream.capture, cudaErrorStreamCaptureUnsupported);
  refuse_unsafe_call(held);
}

void refuse_captured_event(Lock& held, const Event& event) {
  if (event.capture) spoil(*event.capture, cudaErrorCapturedEvent);
  refuse_unsafe_call(held);
}

void refuse_legacy_while_capturing(Lock&, int device) {
  bool refused = false;
  for (const auto& capture : captures()) {
    for (const auto& stream : capture->streams) {
      if (stream->device != device || !stream->blocking()) continue;
      capture->valid = false;
      refused = true;
    }
  }
  if (refused) throw CudaFailure{cudaErrorStreamCaptureImplicit};
}

void abandon_capture(Lock&, Stream& stream) {
  if (!stream.capture) return;
  stream.capture->valid = false;
  if (stream.capture->origin == &stream) end_capture(std::shared_ptr<Capture>(stream.capture));
}

}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", Kind::uses, [&] {
    static unsigned long long captures_made = 0;
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    if (stream == state().devices[stream->device].legacy) {
      return cudaErrorStreamCaptureUnsupported;
    }
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>(Capture{.id = ++captures_made,
                                                        .mode = mode,
                                                        .thread = std::this_thread::get_id(),
                                                        .origin = stream.get(),
                                                        .streams = {stream},
                                                        .graph = std::make_shared<Graph>()});
    captures().push_back(stream->capture);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", Kind::destroys, [&] {
    if (!graph) return cudaErrorInvalidValue;
    *graph = nullptr;
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != stream.get()) spoil(*capture, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool joined = all_joined(*capture);
    end_capture(capture);
    need_valid(*capture);
    if (!joined) spoil(*capture, cudaErrorStreamCaptureUnjoined);
    *graph = add_graph(held, capture->graph);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", Kind::uses, [&] {
    if (!status) return cudaErrorInvalidValue;
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    *status = !stream->capture         ? cudaStreamCaptureStatusNone
              : stream->capture->valid ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, std::size_t* count) {
  return call("cudaStreamGetCaptureInfo", Kind::uses, [&] {
    // Graphs are not edited here while they are captured.
    if (!status || graph || dependencies || edges) return cudaErrorInvalidValue;
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    *status = !stream->capture         ? cudaStreamCaptureStatusNone
              : stream->capture->valid ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
    if (id) *id = stream->capture ? stream->capture->id : 0;
    if (count) *count = stream->frontier.size();
    return cudaSuccess;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", Kind::uses, [&] {
    if (!mode) return cudaErrorInvalidValue;
    std::swap(*mode, thread_mode);
    return cudaSuccess;
  });
}
}
