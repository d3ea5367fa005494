// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A CUDA stream, the library's own or the user's. Includes device/cuda/event.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/device/cuda/event.hpp>
#include <zero/device/stream.hpp>

namespace zero {

/// How soon a device turns to the work of a stream when others have some too.
enum class StreamPriority : unsigned char { normal, high };

/// A cudaStream_t. Made by CudaDevice::make_stream or CudaDevice::adopt_stream.
///
/// Work is put on native() by whatever launches on a cudaStream_t. record() and wait() may be
/// captured into a graph; what asks or waits on the host may not. All calls may come from any
/// thread.
class CudaStream {
 public:
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() {
    if (owned_) cudaStreamDestroy(stream_);
  }

  /// Makes the event stand for all work enqueued so far.
  void record(CudaEvent& event) { event.record(state_, stream_); }

  /// Later work of this stream begins after the work that the latest record of the event stands
  /// for. A later record of the event does not matter.
  ///
  /// Errors:  CudaError if one of the two is captured and the other is not: what was captured, or
  ///          came before the capture, is no work to wait for (see CudaEvent::forget).
  void wait(const CudaEvent& event) {
    const cudaEvent_t native = event.native();
    if (native == nullptr) return;
    detail::check_cuda(cudaStreamWaitEvent(stream_, native, 0), "cudaStreamWaitEvent");
  }

  /// Waits on the host until all work enqueued so far has ended. Communicators whose collectives
  /// run on this device are watched meanwhile.
  ///
  /// Errors:  CudaError if work of the device failed, then or before; what a communicator reports;
  ///          TimeoutError if nothing shows a sign of life within the device's time limit.
  void synchronize() {
    state_->wait([this] { return ended(); },
                 [this] { return "the wait of the host for stream '" + name_ + "'"; });
  }
  /// The same without the errors, for those who clean up after one.
  void settle() noexcept {
    state_->settle([this] { return ended(); });
  }

  /// Throws what synchronize() would throw so far, and keeps it. Does not wait. May be called
  /// during a capture, when it asks the communicators only.
  void check() const {
    state_->look(false);
    if (!capturing()) ended();
  }

  /// Whether work enqueued now goes into a graph.
  bool capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    detail::check_cuda(cudaStreamIsCapturing(stream_, &status), "cudaStreamIsCapturing");
    return status == cudaStreamCaptureStatusActive;
  }

  /// As errors say it.
  const std::string& name() const { return name_; }
  /// For kernels and calls of CUDA.
  cudaStream_t native() const { return stream_; }
  /// The device that it belongs to.
  int ordinal() const { return state_->ordinal(); }

  /// Who is asked while the host waits for this stream's device.
  void attach(const std::shared_ptr<detail::HostWatch>& watch) { state_->attach(watch); }

 private:
  friend class CudaDevice;

  CudaStream(std::shared_ptr<detail::CudaState> state, cudaStream_t stream, bool owned,
             std::string name)
      : state_(std::move(state)), stream_(stream), owned_(owned), name_(std::move(name)) {}

  bool ended() const { return detail::ended(cudaStreamQuery(stream_), "cudaStreamQuery"); }

  const std::shared_ptr<detail::CudaState> state_;
  const cudaStream_t stream_;
  const bool owned_;
  const std::string name_;
};

static_assert(Stream<CudaStream, CudaEvent>);

}  // namespace zero
