// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// One rank's call of a collective as plain data. Includes base/ and comm/collective.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <zero/base/element.hpp>
#include <zero/comm/collective.hpp>

namespace zero::detail {

struct Slot;

/// What a rank publishes to its peers. They read all but the last two fields, which with the state
/// of the rank fill one cache line.
struct Call {
  Collective collective = Collective::barrier;
  DataType type = DataType::fp32;
  Accumulate accumulate = Accumulate::no;
  Reduction reduction = Reduction::sum;
  std::uint32_t root = 0;
  std::size_t count = 0;
  const void* in = nullptr;
  void* out = nullptr;
  std::string_view unit = {};
  std::uint32_t position = no_position, micro_step = no_position;
  const char* operation = nullptr;
  void (*sum)(const Call&, const Slot*, std::size_t ranks, std::size_t begin, std::size_t count,
              void* out) = nullptr;

  std::size_t bytes() const { return count * size_of(type); }

  /// Whether two ranks mean the same collective.
  bool agrees(const Call& other) const {
    return collective == other.collective && type == other.type && count == other.count &&
           root == other.root && reduction == other.reduction && position == other.position &&
           unit == other.unit;
  }

  Call labelled(const Label& label) const {
    Call call = *this;
    call.unit = label.unit;
    call.position = label.position;
    call.micro_step = label.micro_step;
    call.operation = label.operation;
    return call;
  }
};

}  // namespace zero::detail
