// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Arrays in device memory, for tests.
#pragma once

#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <utility>
#include <vector>

namespace on_device {

inline void check(cudaError_t error) {
  BOOST_REQUIRE_MESSAGE(error == cudaSuccess, cudaGetErrorString(error));
}

/// A copy in device memory of a vector, which may begin some elements behind an aligned address.
template <class T>
class Copy {
 public:
  explicit Copy(const std::vector<T>& values, std::size_t shift = 0)
      : count_(values.size()), shift_(shift) {
    check(cudaMalloc(reinterpret_cast<void**>(&memory_), (count_ + shift_ + 1) * sizeof(T)));
    check(cudaMemcpy(data(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Copy(Copy&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        count_(other.count_),
        shift_(other.shift_) {}
  Copy& operator=(Copy&&) = delete;
  ~Copy() { cudaFree(memory_); }

  T* data() const { return memory_ + shift_; }
  /// The elements, once all work before has been done.
  std::vector<T> get() const {
    std::vector<T> values(count_);
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* memory_ = nullptr;
  std::size_t count_, shift_;
};

}  // namespace on_device
