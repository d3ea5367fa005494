// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The streams of a schedule on a CUDA device. May include device/ and schedule/.
#pragma once
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <zero/base/array.hpp>
#include <zero/base/list.hpp>
#include <zero/device/cuda/device.hpp>
#include <zero/device/cuda/graph.hpp>
#include <zero/module/options.hpp>
#include <zero/schedule/schedule.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// One stream for each StreamId, the caller's or its own, and copies between host and device.
class CudaStreams {
 public:
  /// A stream that the stage does not use is the compute stream.
  CudaStreams(const ModuleOptions& options, const StageTraits& stage)
      : device_({.time_limit = options.time_limit}),
        rooms_{Block<PinnedMemory>({}, room_bytes), Block<PinnedMemory>({}, room_bytes)} {
    for (std::size_t s = 0; s < stream_count; ++s) {
      const auto id = static_cast<StreamId>(s);
      if (!stage.uses(id)) {
        streams_[s] = &(*this)[StreamId::compute];
        continue;
      }
      // What others wait for goes first.
      const auto priority = id == StreamId::compute ? StreamPriority::normal : StreamPriority::high;
      streams_[s] = options.cuda_streams[s] != nullptr
                        ? &device_.adopt_stream(options.cuda_streams[s], name_of(id))
                        : &device_.make_stream(name_of(id), priority);
    }
    prepare(fence_events_);
    prepare({&beside_, 1});
  }

  CudaStream& operator[](StreamId id) { return *streams_[static_cast<std::size_t>(id)]; }
  /// Makes events now, so that a step makes none.
  void prepare(std::span<CudaEvent> events) {
    for (CudaEvent& event : events) {
      (*this)[StreamId::compute].record(event);
      event.forget();
    }
  }
  /// Waits for all streams; throws the first error.
  void synchronize() { device_.synchronize(); }
  void settle() noexcept {
    capture_.reset();
    try {
      synchronize();
    } catch (...) {}
  }
  /// Orders everything that comes after everything that was enqueued, without waiting on the host.
  void fence() {
    for (std::size_t s = 0; s < stream_count; ++s) streams_[s]->record(fence_events_[s]);
    for (CudaStream* stream : streams_) {
      for (CudaEvent& event : fence_events_) stream->wait(event);
    }
  }
  using Other = cudaStream_t;  // a stream of the user's
  /// Work that comes to `other` begins after what was enqueued for the compute stream so far.
  void fork(Other other) {
    (*this)[StreamId::compute].record(beside_);
    check_cuda(cudaStreamWaitEvent(other, beside_.native(), 0), "cudaStreamWaitEvent");
  }
  /// Work that comes to the compute stream begins after what was enqueued on `other`.
  void join(Other other) {
    check_cuda(cudaEventRecord(beside_.native(), other), "cudaEventRecord");
    (*this)[StreamId::compute].wait(beside_);
  }
  /// Throws an error of the device so far, as far as the runtime tells without being asked for it.
  void check() const { check_cuda(cudaPeekAtLastError(), "an earlier call or kernel"); }

  /// What is enqueued from now on becomes a graph.
  void begin_capture() {
    synchronize();
    List<CudaStream*> others;
    for (CudaStream* stream : streams_) {
      if (stream != &(*this)[StreamId::compute]) others.push_back(stream);
    }
    capture_ = std::make_unique<CudaCapture>((*this)[StreamId::compute], std::move(others));
  }
  CudaGraph end_capture() {
    CudaGraph graph = capture_->end();
    capture_.reset();
    for (CudaEvent& event : fence_events_) event.forget();
    return graph;
  }
  bool capturing() const { return capture_ != nullptr; }

  /// A range on the host's time line in a profiler.
  void push_range(const char* name) const { nvtxRangePushA(name); }
  void pop_range() const { nvtxRangePop(); }

  // Access of the host to arrays while nothing runs, in parts.
  void fill_now(void* data, int byte, std::size_t bytes) {
    check_cuda(cudaMemsetAsync(data, byte, bytes, copies().native()), "cudaMemsetAsync");
    copies().synchronize();
  }
  template <class F>
  void read(const Array& array, F f) {
    in_parts(array, [&](const Array& part, std::size_t begin) {
      const Array room = this->room_for(part, 0);
      this->copy(room, part, cudaMemcpyDeviceToHost);
      f(room, begin);
    });
  }
  template <class F>
  void write(const Array& array, F f) {
    in_parts(array, [&](const Array& part, std::size_t begin) {
      const Array room = this->room_for(part, 0);
      f(room, begin);
      this->copy(part, room, cudaMemcpyHostToDevice);
    });
  }
  template <class F>
  void change(const Array& one, const Array& other, F f) {
    in_parts(one, [&](const Array& part, std::size_t begin) {
      const Array second = other.part(begin, part.count);
      const Array rooms[] = {this->room_for(part, 0), this->room_for(second, 1)};
      this->copy(rooms[0], part, cudaMemcpyDeviceToHost);
      this->copy(rooms[1], second, cudaMemcpyDeviceToHost);
      f(rooms[0], rooms[1]);
      this->copy(part, rooms[0], cudaMemcpyHostToDevice);
      this->copy(second, rooms[1], cudaMemcpyHostToDevice);
    });
  }

 private:
  static constexpr std::size_t room_bytes = 256 * 1024, room_elements = room_bytes / 4;

  CudaStream& copies() { return (*this)[StreamId::gather]; }
  template <class F>
  void in_parts(const Array& array, F f) {
    for (std::size_t begin = 0; begin < array.count; begin += room_elements) {
      f(array.part(begin, std::min(room_elements, array.count - begin)), begin);
    }
  }
  Array room_for(const Array& part, std::size_t room) {
    return {rooms_[room].data(), part.count, part.type};
  }
  void copy(const Array& to, const Array& from, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), kind, copies().native()),
               "cudaMemcpyAsync");
    copies().synchronize();
  }

  CudaEvent fence_events_[stream_count], beside_;
  CudaDevice device_;
  CudaStream* streams_[stream_count] = {};
  Block<PinnedMemory> rooms_[2];
  std::unique_ptr<CudaCapture> capture_;
};

}  // namespace zero::detail
