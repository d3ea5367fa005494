// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <cstdint>
#include <type_traits>
#include <zero/base/element.hpp>
#include <zero/device/cuda/memory.hpp>

#include "sum_parts.hpp"

namespace cuda_tests {

struct Sources {
  const void* of[most_parts];
};

/// In rank order, in fp32 for narrow types, rounded once.
template <class T>
__global__ void sum(Sources sources, unsigned ranks, T* out, std::size_t count, bool accumulates,
                    bool averages) {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto element = [&](unsigned r) {
    return static_cast<Wide>(static_cast<const T*>(sources.of[r])[i]);
  };
  Wide all = element(0);
  for (unsigned r = 1; r < ranks; ++r) all = all + element(r);
  if (averages) all = all / static_cast<Wide>(ranks);
  if (accumulates) all = static_cast<Wide>(out[i]) + all;
  out[i] = T(all);
}

void sum_parts(cudaStream_t stream, const Parts& parts, std::size_t ranks, const zero::Array& out,
               zero::Accumulate accumulate, zero::Reduction reduction) {
  if (out.count == 0) return;
  Sources sources{};
  for (std::size_t r = 0; r < ranks; ++r) sources.of[r] = parts[r];
  const auto launch = [&]<class T>(T*) {
    const auto blocks = static_cast<unsigned>((out.count + 127) / 128);
    sum<T><<<blocks, 128, 0, stream>>>(sources, static_cast<unsigned>(ranks), out.as<T>(),
                                       out.count, accumulate == zero::Accumulate::yes,
                                       reduction == zero::Reduction::average);
  };
  switch (out.type) {
    case zero::DataType::fp32: launch(static_cast<float*>(nullptr)); break;
    case zero::DataType::fp64: launch(static_cast<double*>(nullptr)); break;
    case zero::DataType::bf16: launch(static_cast<zero::bf16*>(nullptr)); break;
    case zero::DataType::fp16: launch(static_cast<zero::fp16*>(nullptr)); break;
    case zero::DataType::u64: launch(static_cast<std::uint64_t*>(nullptr)); break;
  }
  zero::detail::check_cuda(cudaGetLastError(), "the launch of sum");
}

}  // namespace cuda_tests
