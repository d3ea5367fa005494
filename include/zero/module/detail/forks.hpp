// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Streams of the user's on which a unit computes too. Includes the standard library and base/.
#pragma once
#include <cstddef>
#include <iterator>
#include <string>
#include <zero/base/error.hpp>

namespace zero::detail {

/// The streams of the user's that were forked from the compute stream and are not joined yet.
template <class Streams>
class Forks {
 public:
  using Other = typename Streams::Other;

  /// Errors:  ContractError if there are too many.
  void fork(Streams& streams, Other other, const std::string& unit) {
    if (count_ == std::size(others_)) {
      throw ContractError("zero: also_on was called for more than " + std::to_string(count_) +
                          " streams in unit '" + unit +
                          "'; join some of them on one stream before");
    }
    streams.fork(other);
    others_[count_++] = other;
  }
  /// The compute stream goes on after all of them.
  void join(Streams& streams) {
    while (count_ != 0) streams.join(others_[--count_]);
  }
  /// The same for those who clean up after an error.
  void settle(Streams& streams) noexcept {
    try {
      join(streams);
    } catch (...) {}
  }

 private:
  Other others_[4] = {};
  std::size_t count_ = 0;
};

}  // namespace zero::detail
