// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// One rank's call of a collective as its peers receive it. Includes comm/detail/call.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <zero/comm/detail/call.hpp>

namespace zero::detail {

/// What all ranks of a communicator exchange before a collective moves its first element. Names
/// are cut to what has room here.
struct MpiHeader {
  std::uint64_t count = 0, message_elements = 0;
  std::uint32_t root = 0, position = no_position, micro_step = no_position;
  Collective collective = Collective::barrier;
  DataType type = DataType::fp32;
  Reduction reduction = Reduction::sum;
  bool leaves = false;              // instead of a call: this rank has left the communicator
  std::int32_t color = 0, key = 0;  // of split
  std::uint32_t next_group = 0;     // of split: the first number that this rank has not used
  std::uint32_t unit_bytes = 0, operation_bytes = 0;
  std::array<char, 96> unit{};
  std::array<char, 32> operation{};  // ends with a 0

  void set(const Call& call) {
    count = call.count;
    root = call.root;
    position = call.position;
    micro_step = call.micro_step;
    collective = call.collective;
    type = call.type;
    reduction = call.reduction;
    unit_bytes = static_cast<std::uint32_t>(std::min(call.unit.size(), unit.size()));
    std::copy_n(call.unit.data(), unit_bytes, unit.data());
    const std::string_view name = call.operation == nullptr ? "" : call.operation;
    operation_bytes = static_cast<std::uint32_t>(std::min(name.size(), operation.size() - 1));
    std::copy_n(name.data(), operation_bytes, operation.data());
    operation[operation_bytes] = '\0';
  }

  /// The call, without its buffers. Its names live as long as this header.
  Call call() const {
    Call call;
    call.collective = collective;
    call.type = type;
    call.reduction = reduction;
    call.root = root;
    call.count = count;
    call.unit = {unit.data(), unit_bytes};
    call.position = position;
    call.micro_step = micro_step;
    call.operation = operation_bytes == 0 ? nullptr : operation.data();
    return call;
  }
};

}  // namespace zero::detail
