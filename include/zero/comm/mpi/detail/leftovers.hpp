// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Memory that MPI may still touch when its owner has gone. Includes mpi.h and
// comm/mpi/detail/duplicate.hpp.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>
#include <zero/comm/mpi/detail/duplicate.hpp>

namespace zero::detail {

/// Memory for messages, in cache lines.
class MpiMemory {
 public:
  explicit MpiMemory(std::size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(bytes, alignment))) {}
  MpiMemory(MpiMemory&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  MpiMemory& operator=(MpiMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MpiMemory() { ::operator delete(memory_, alignment); }

  std::byte* get() const { return memory_; }
  /// It is never freed: MPI has not let go of it.
  void abandon() { memory_ = nullptr; }

 private:
  static constexpr std::align_val_t alignment{64};

  std::byte* memory_;
};

/// What communicators that have ended left: messages that have not gone out, or come in. One call
/// at a time.
class MpiLeftovers {
 public:
  /// The memory is kept until MPI has done all of the requests.
  void add(MpiMemory memory, std::vector<MPI_Request> requests) {
    left_.push_back({std::move(memory), std::move(requests)});
  }

  /// Takes in, to be forgotten, what peers have sent and nobody waits for any more: their memory
  /// is then free. Returns whether there was something.
  bool take_strays(MPI_Comm comm) {
    bool any = false;
    for (;;) {
      int found = 0, bytes = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &status), "MPI_Iprobe");
      if (found == 0) return any;
      any = true;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      left_.push_back({MpiMemory(static_cast<std::size_t>(bytes)), {MPI_REQUEST_NULL}});
      check_mpi(MPI_Irecv(left_.back().memory.get(), bytes, MPI_BYTE, status.MPI_SOURCE,
                          status.MPI_TAG, comm, &left_.back().requests.front()),
                "MPI_Irecv");
    }
  }

  /// Frees what MPI has done with. Returns whether that is all.
  bool settle() {
    std::erase_if(left_, [](Left& left) {
      int done = 0;
      check_mpi(MPI_Testall(static_cast<int>(left.requests.size()), left.requests.data(), &done,
                            MPI_STATUSES_IGNORE),
                "MPI_Testall");
      return done != 0;
    });
    return left_.empty();
  }

  void abandon() {
    for (Left& left : left_) left.memory.abandon();
  }

 private:
  struct Left {
    MpiMemory memory;
    std::vector<MPI_Request> requests;
  };

  std::vector<Left> left_;
};

}  // namespace zero::detail
