// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The streams of one rank on a CUDA device. Includes device/cuda/{memory,stream}.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/device/cuda/memory.hpp>
#include <zero/device/cuda/stream.hpp>
#include <zero/device/detail/synchronize_all.hpp>
#include <zero/device/stream.hpp>

namespace zero {

/// What a caller may choose of a device.
struct CudaDeviceOptions {
  /// Of the device; -1 for the one that is current in the thread that constructs.
  int ordinal = -1;
  /// How long the host waits without a sign of life: without a collective that ends, so that it
  /// must exceed the longest time between two of them.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
};

/// Streams on one CUDA device. The current device of the calling threads is left as it is.
///
/// Destruction never throws; it waits for work that is still queued on its own streams, at most for
/// some time limits, and makes late collectives end: memory that they use must outlive it.
class CudaDevice {
 public:
  using Stream = CudaStream;  // a queue of work
  using Event = CudaEvent;    // a point in a queue
  using Memory = CudaMemory;  // of the device

  /// The device with the number in the options.
  explicit CudaDevice(CudaDeviceOptions options = {})
      : state_(std::make_shared<detail::CudaState>(
            options.ordinal < 0 ? detail::current_device() : options.ordinal, options.time_limit)) {
    if (options.time_limit.count() <= 0) {
      throw ContractError("CudaDevice: time_limit must be positive, it is " +
                          std::to_string(options.time_limit.count()) + " ms");
    }
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() {
    for (auto& stream : streams_) {
      if (stream->owned_) stream->settle();
    }
  }

  /// Makes a stream that lives as long as the device and waits for no other. `name` is for errors.
  CudaStream& make_stream(std::string name, StreamPriority priority = StreamPriority::normal) {
    const detail::CurrentDevice device(ordinal());
    int least = 0, greatest = 0;
    detail::check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                       "cudaDeviceGetStreamPriorityRange");
    streams_.reserve(streams_.size() + 1);
    cudaStream_t stream = nullptr;
    detail::check_cuda(
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == StreamPriority::high ? greatest : least),
        "cudaStreamCreateWithPriority");
    return add(stream, true, std::move(name));
  }

  /// Uses a stream of the user's, on this device, which must outlive the device.
  ///
  /// Errors:  ContractError for null and cudaStreamPerThread: what they mean depends on the thread,
  ///          and on how the caller was compiled.
  CudaStream& adopt_stream(cudaStream_t stream, std::string name) {
    if (stream == nullptr || stream == cudaStreamPerThread) {
      throw ContractError("CudaDevice::adopt_stream: stream '" + name + "' is " +
                          (stream == nullptr ? "null" : "cudaStreamPerThread") +
                          ", which means another stream elsewhere; pass one that "
                          "cudaStreamCreateWithFlags made, or cudaStreamLegacy");
    }
    return add(stream, false, std::move(name));
  }

  /// Waits for all streams, then throws the first error of the first stream that has one.
  void synchronize() { detail::synchronize_all(streams_); }

  /// The number of the device.
  int ordinal() const { return state_->ordinal(); }
  /// How long the host waits at most.
  std::chrono::milliseconds time_limit() const { return state_->limit(); }
  /// Memory of this device, whichever is current.
  CudaMemory memory() const { return CudaMemory(ordinal()); }

 private:
  CudaStream& add(cudaStream_t stream, bool owned, std::string name) {
    streams_.emplace_back(new CudaStream(state_, stream, owned, std::move(name)));
    return *streams_.back();
  }

  const std::shared_ptr<detail::CudaState> state_;
  List<std::unique_ptr<CudaStream>> streams_;
};

static_assert(Device<CudaDevice>);

}  // namespace zero
