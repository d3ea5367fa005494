// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Measurements that others have published.
#pragma once

#include <cstddef>
#include <string_view>

namespace published {

struct Throughput {
  std::string_view model, device;
  std::size_t devices, sequences, micro_steps;
  bool recompute, reduced_bf16;
  std::size_t parameters;
  double tokens_per_second;  // a device
};
inline constexpr Throughput mpt[] = {
#include "data/mpt_throughput.inc"
};

}  // namespace published
