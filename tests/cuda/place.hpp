// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Memory and work of a CUDA device for tests, and where collectives over NCCL act: the Place of
// tests/comm/conformance.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#include <zero/device/cuda/device.hpp>

namespace cuda_tests {

using zero::detail::check_cuda;

/// Enqueues a callable of the host. Callables of all streams may share one thread.
template <class F>
void enqueue(zero::CudaStream& stream, F&& callable) {
  using Callable = std::decay_t<F>;
  auto owned = std::make_unique<Callable>(std::forward<F>(callable));
  const auto run = [](void* data) {
    const std::unique_ptr<Callable> work(static_cast<Callable*>(data));
    (*work)();
  };
  check_cuda(cudaLaunchHostFunc(stream.native(), run, owned.get()), "cudaLaunchHostFunc");
  static_cast<void>(owned.release());
}

/// Work that ends when `open` is true.
inline void gate(zero::CudaStream& stream, const std::atomic<bool>& open) {
  enqueue(stream, [&open] {
    while (!open) std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
}

inline void copy(zero::CudaStream& stream, void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.native()),
             "cudaMemcpyAsync");
}

/// Elements in memory of the current device.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& elements)
      : count_(elements.size()), block_(zero::CudaMemory(), elements.size() * sizeof(T)) {
    move(data(), elements.data());
  }
  OnDevice(std::size_t count, T value) : OnDevice(std::vector<T>(count, value)) {}
  T* data() { return reinterpret_cast<T*>(block_.data()); }
  std::vector<T> values() {
    std::vector<T> elements(count_);
    move(elements.data(), data());
    return elements;
  }

 private:
  void move(T* to, const T* from) {
    if (count_ == 0) return;
    check_cuda(cudaMemcpy(to, from, count_ * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
  }

  std::size_t count_;
  zero::detail::Block<zero::CudaMemory> block_;
};

class Place {
 public:
  using Stream = zero::CudaStream;

  /// How collectives are issued: on memory of the host, or of the device by a stream.
  enum class Way { blocking, stream };
  static constexpr std::array ways = {Way::blocking, Way::stream};

  template <class T>
  class Held {
   public:
    Held(std::vector<T> elements, bool on_device) : elements_(std::move(elements)) {
      if (on_device) device_ = std::make_unique<OnDevice<T>>(elements_);
    }
    T* data() { return device_ != nullptr ? device_->data() : elements_.data(); }
    std::vector<T> values() { return device_ != nullptr ? device_->values() : elements_; }

   private:
    std::vector<T> elements_;
    std::unique_ptr<OnDevice<T>> device_;
  };

  Place(Way way, std::size_t) : way_(way), stream_(device_.make_stream("collectives")) {}

  template <class F>
  void issue(F f) {
    if (way_ == Way::blocking) return f();
    f(stream_);
    stream_.synchronize();
  }
  template <class T>
  Held<T> hold(std::vector<T> elements) {
    return Held<T>(std::move(elements), way_ == Way::stream);
  }

  template <class F>
  static void on_devices(std::size_t, F f) {
    zero::CudaDevice device;
    f(device);
  }
  template <class T>
  static Held<T> hold_on_device(std::vector<T> elements) {
    return Held<T>(std::move(elements), true);
  }
  static void copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
    enqueue(stream, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
    cuda_tests::copy(stream, to, from, bytes);
  }

 private:
  Way way_;
  zero::CudaDevice device_;
  zero::CudaStream& stream_;
};

}  // namespace cuda_tests
