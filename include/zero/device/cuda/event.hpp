// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A point in a CUDA stream. Includes base/, device/detail/ and the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/device/cuda/detail/host_wait.hpp>
#include <zero/device/detail/counter.hpp>

namespace zero {

/// A cudaEvent_t without timing, made by its first record.
///
/// It may be recorded any number of times, on any stream of one device: it then stands for the
/// latest record. Never recorded, it is complete. It may be destroyed while work waits for it.
/// All calls may come from any thread.
class CudaEvent {
 public:
  CudaEvent() = default;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  /// Whether the work before the latest record has ended. Does not wait.
  ///
  /// Errors:  CudaError if that work failed, or if the latest record was captured.
  bool complete() const {
    const cudaEvent_t event = native();
    return event == nullptr || detail::ended(cudaEventQuery(event), "cudaEventQuery");
  }

  /// Waits on the host until complete().
  ///
  /// Errors:  as of CudaStream::synchronize.
  void synchronize() const {
    const std::shared_ptr<detail::CudaState> state = this->state();
    if (state == nullptr) return;
    state->wait([this] { return complete(); }, [] { return "the wait of the host for an event"; });
  }

  /// Makes it an event that was never recorded: what a capture recorded means nothing outside of
  /// it, and the other way round.
  void forget() {
    const std::lock_guard guard(lock_);
    state_.reset();
  }

  /// The event, or null if it was never recorded.
  cudaEvent_t native() const {
    const std::lock_guard guard(lock_);
    return state_ == nullptr ? nullptr : event_;
  }

 private:
  friend class CudaStream;

  std::shared_ptr<detail::CudaState> state() const {
    const std::lock_guard guard(lock_);
    return state_;
  }

  void record(const std::shared_ptr<detail::CudaState>& state, cudaStream_t stream) {
    const std::lock_guard guard(lock_);
    if (event_ == nullptr) {
      const detail::CurrentDevice device(state->ordinal());
      detail::check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                         "cudaEventCreateWithFlags");
    }
    detail::check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
    if (state_ != state) state_ = state;
  }

  mutable detail::SpinLock lock_;
  cudaEvent_t event_ = nullptr;
  std::shared_ptr<detail::CudaState> state_;  // of the latest record
};

}  // namespace zero
