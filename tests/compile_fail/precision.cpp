// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Types that a module cannot have.
#include <zero/policy/precision.hpp>

#ifndef WRONG
#define WRONG 0
#endif
using zero::DataType;
using zero::Precision;

#if WRONG == 0
constexpr Precision tried{.compute = DataType::bf16, .reduce = DataType::fp16, .master = false};
#elif WRONG == 1  // expect: zero::Precision: weights compute, and gradients travel, as fp32, bf16
constexpr Precision tried{.reduce = DataType::fp64};
#elif WRONG == 2  // expect: zero::Precision: weights are gathered in the type in which they compute
constexpr Precision tried{.compute = DataType::bf16, .gather = DataType::fp32};
#elif WRONG == 3  // expect: zero::Precision: gradients are summed, and moments are kept, in fp32 or
constexpr Precision tried{.accumulate = DataType::fp16};
#elif WRONG == 4  // expect: zero::Precision: weights without fp32 masters must be bf16; set
constexpr Precision tried{.compute = DataType::fp16, .master = false};
#endif

constexpr zero::WithPrecision<tried> made{};
