// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A named range for profilers. Includes NVTX, which is headers only.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace zero {

/// Shows the scope under a name in Nsight Systems. Off, it costs one branch.
class NvtxRange {
 public:
  /// Pre:     `name` ends with a zero.
  NvtxRange(bool on, const char* name) : on_(on) {
    if (on_) nvtxRangePushA(name);
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
  ~NvtxRange() {
    if (on_) nvtxRangePop();
  }

 private:
  bool on_;
};

}  // namespace zero
