// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The rule by which stored numbers become numbers of another type. May include base/.
#pragma once

#include <string>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/text.hpp>
#include <zero/checkpoint/stored_type.hpp>

namespace zero::detail {

/// Errors:  CheckpointError if numbers of type `from` do not become `to`, or lose bits and
///          `narrowing` was not asked for. `what` begins the text: the call and the tensor.
inline void check_conversion(const std::string& what, DataType from, DataType to, bool narrowing) {
  const Conversion how = conversion(from, to);
  if (how == Conversion::same || how == Conversion::exact) return;
  if (how == Conversion::rounds && narrowing) return;
  throw CheckpointError(
      what + " is " + name_of(from) + " in the checkpoint and " + name_of(to) + " here" +
      (how == Conversion::none ? ", which are not converted"
                               : ", which may lose bits; pass .narrowing = true to round it"));
}

}  // namespace zero::detail
