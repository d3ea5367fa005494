// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Calls of CUDA that are checked, and the current device for a while. Includes base/ and the CUDA
// runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <zero/base/error.hpp>

namespace zero::detail {

/// What to do about an error of CUDA.
inline const char* cuda_remedy(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "use more ranks, a stage that shards more, or a smaller model";
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
      return "look with nvidia-smi for devices and for a driver that is as new as the runtime, and "
             "check CUDA_VISIBLE_DEVICES";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorCapturedEvent:
      return "while a stream is captured, wait neither on the host nor for what was recorded "
             "before, and name all of its streams to CudaCapture";
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
      return "check that streams, events and pointers belong to this device and still live";
    default:
      return "if it comes from earlier work, run the program under compute-sanitizer with "
             "CUDA_LAUNCH_BLOCKING=1; the process must then be started again";
  }
}

[[noreturn]] inline void raise_cuda(cudaError_t code, const std::string& call) {
  cudaGetLastError();  // it is reported here, not by the user's next look
  throw CudaError(call + ": expected cudaSuccess, came " + cudaGetErrorName(code) + " (" +
                      cudaGetErrorString(code) + "); " + cuda_remedy(code),
                  static_cast<int>(code));
}

/// Throws a CudaError unless `code` is cudaSuccess. `call` names what returned it.
inline void check_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) [[unlikely]]
    raise_cuda(code, call);
}

/// Whether the work that a query asked for has ended.
inline bool ended(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return true;
  if (code != cudaErrorNotReady) raise_cuda(code, call);
  cudaGetLastError();
  return false;
}

inline int current_device() {
  int ordinal = 0;
  check_cuda(cudaGetDevice(&ordinal), "cudaGetDevice");
  return ordinal;
}

/// Makes a device the current one of this thread until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) : before_(current_device()), changed_(ordinal != before_) {
    if (changed_) check_cuda(cudaSetDevice(ordinal), "cudaSetDevice");
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_;
  bool changed_;
};

}  // namespace zero::detail
