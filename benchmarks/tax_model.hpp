// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The GPT whose sharding tax is measured. Includes the standard library only.
#pragma once

#include <cstdint>

/// Sizes as in examples/gpt; `sequences` is the batch of a rank.
struct TaxModel {
  std::int64_t layers = 4, width = 256, heads = 4, context = 64, sequences = 8;
};
inline TaxModel tax_model;  // set before the benchmarks run
