// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What errors of NCCL say, and zero's words in NCCL's. Includes base/, comm/detail/call.hpp and
// NCCL.
#pragma once

#include <nccl.h>

#include <string>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>

namespace zero::detail {

/// What to do about an error of NCCL.
inline const char* nccl_remedy(ncclResult_t code) {
  switch (code) {
    case ncclRemoteError:
      return "another rank ended or the network failed: look at what the other ranks report";
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return "every rank must issue the same collectives in the same order; run with "
             "NCCL_DEBUG=WARN for NCCL's own words";
    default:
      return "run with NCCL_DEBUG=WARN for NCCL's own words; the communicators must be made again";
  }
}

/// "ncclAllGather: expected ncclSuccess, came 'remote process exited' (...); remedy". `comm` may be
/// null.
inline std::string text_of(ncclResult_t code, const char* call, ncclComm_t comm) {
  std::string text =
      std::string(call) + ": expected ncclSuccess, came '" + ncclGetErrorString(code) + "'";
  const char* last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text.append(" (").append(last).append(")");
  return text + "; " + nccl_remedy(code);
}

constexpr ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::fp64: return ncclFloat64;
    case DataType::bf16: return ncclBfloat16;
    case DataType::fp16: return ncclFloat16;
    case DataType::u64: return ncclUint64;
    default: return ncclFloat32;
  }
}

}  // namespace zero::detail
