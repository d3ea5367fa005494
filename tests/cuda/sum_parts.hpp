// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The sum of what several ranks hold in the memory of one device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <zero/base/array.hpp>
#include <zero/comm/collective.hpp>

namespace cuda_tests {

inline constexpr std::size_t most_parts = 8;
using Parts = std::array<const void*, most_parts>;

/// Enqueues zero::detail::sum_over_ranks of the first `ranks` parts, each as large as `out`, which
/// may be one of them.
void sum_parts(cudaStream_t stream, const Parts& parts, std::size_t ranks, const zero::Array& out,
               zero::Accumulate accumulate, zero::Reduction reduction);

}  // namespace cuda_tests
