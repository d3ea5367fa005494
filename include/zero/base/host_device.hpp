// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What functions need that both the host and kernels call. Includes nothing.
#pragma once

/// Before a function that kernels call as well: nothing unless nvcc compiles.
#if defined(__CUDACC__)
#define ZERO_HOST_DEVICE __host__ __device__
#else
#define ZERO_HOST_DEVICE
#endif

namespace zero::detail {

/// std::bit_cast, which kernels cannot call.
template <class To, class From>
ZERO_HOST_DEVICE constexpr To bits_as(From value) {
  return __builtin_bit_cast(To, value);
}

}  // namespace zero::detail
