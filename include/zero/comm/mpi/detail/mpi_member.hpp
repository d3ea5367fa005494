// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// One rank of a communicator over MPI. Includes comm/mpi/detail/{header,mpi_transfer}.hpp.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/comm/mpi/detail/header.hpp>
#include <zero/comm/mpi/detail/mpi_transfer.hpp>

namespace zero::detail {

/// A communicator as its rank sees it. Its end tells the peers that this rank has left.
class MpiMember {
 public:
  /// `ranks` are those of the world, by rank of the communicator; `number` is the communicator's.
  MpiMember(std::shared_ptr<MpiWorld> world, std::vector<std::size_t> ranks, std::size_t rank,
            std::uint32_t number)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        rank_(rank),
        tag_(static_cast<int>(2 * number + 1)),
        memory_(header_bytes(ranks_.size()) + MpiTransfer::bytes_for(*world_, ranks_.size())),
        headers_(::new (memory_.get()) MpiHeader[ranks_.size()]),
        sends_(ranks_.size(), MPI_REQUEST_NULL),
        receives_(ranks_.size(), MPI_REQUEST_NULL),
        heard_(ranks_.size()),
        noted_(ranks_.size()),
        transfer_(*world_, ranks_, rank, tag_ + 1, memory_.get() + header_bytes(ranks_.size())) {}
  MpiMember(const MpiMember&) = delete;
  MpiMember& operator=(const MpiMember&) = delete;
  ~MpiMember() {
    try {
      if (!world_->failed() && mpi_runs()) {
        headers_[rank_] = {};
        headers_[rank_].leaves = true;
        send_header();
      }
      transfer_.requests(sends_, receives_);
      world_->take_over(std::move(memory_), std::move(sends_), receives_);
    } catch (...) { memory_.abandon(); }
  }

  MpiWorld& world() const { return *world_; }
  const std::shared_ptr<MpiWorld>& shared_world() const { return world_; }
  std::size_t rank() const { return rank_; }
  std::size_t size() const { return ranks_.size(); }
  std::size_t world_rank(std::size_t rank) const { return ranks_[rank]; }
  Traffic sent() const { return transfer_.sent(); }
  void fail(bool timeout, std::string_view what) noexcept { world_->fail(timeout, what); }
  /// "on rank 1 of 4"
  std::string text() const {
    return "on rank " + std::to_string(rank_) + " of " + std::to_string(size());
  }

  MpiTransfer& transfer() { return transfer_; }
  const MpiHeader& header(std::size_t rank) const { return headers_[rank]; }
  Call call(std::size_t rank) const { return headers_[rank].call(); }

  /// Sends this rank's header to all peers and begins to receive theirs.
  void exchange(MpiHeader header) {
    header.message_elements = world_->options().message_elements;
    headers_[rank_] = header;
    heard_.assign(size(), false);
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      world_->receive(&headers_[r], sizeof(MpiHeader), ranks_[r], tag_, receives_[r]);
    }
    send_header();
  }
  /// Whether the headers have gone to and come from a rank; what it does is then in its history.
  bool exchanged(std::size_t r) {
    if (r == rank_) return true;
    const bool sent = world_->complete(sends_[r]);
    if (!world_->complete(receives_[r])) return false;
    if (!heard_[r] && !headers_[r].leaves) noted_[r] = world_->note(ranks_[r], call(r));
    heard_[r] = true;
    return sent;
  }
  bool all_exchanged() {
    std::size_t count = 0;
    for (std::size_t r = 0; r < size(); ++r) count += exchanged(r) ? 1U : 0U;
    return count == size();
  }

  /// Notes that this collective, which has that number in this rank's history, is done on all.
  void note_end(std::uint64_t own) {
    noted_[rank_] = own;
    for (std::size_t r = 0; r < size(); ++r) world_->history(ranks_[r]).end(noted_[r]);
  }

  // Collectives take a ticket when they are issued and run in the order of tickets.
  std::atomic<std::uint64_t> issued{0};
  std::atomic<std::uint64_t> turn{0};

 private:
  static std::size_t header_bytes(std::size_t ranks) {
    return (ranks * sizeof(MpiHeader) + 63) / 64 * 64;
  }

  void send_header() {
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      world_->send(&headers_[rank_], sizeof(MpiHeader), ranks_[r], tag_, sends_[r]);
    }
  }

  std::shared_ptr<MpiWorld> world_;
  std::vector<std::size_t> ranks_;
  std::size_t rank_;
  int tag_;
  MpiMemory memory_;
  MpiHeader* headers_;                         // [rank]
  std::vector<MPI_Request> sends_, receives_;  // [rank]: of headers
  std::vector<bool> heard_;                    // [rank]
  std::vector<std::uint64_t> noted_;           // [rank]: in its history
  MpiTransfer transfer_;
};

}  // namespace zero::detail
