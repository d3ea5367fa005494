// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What each collective sends, receives and sums, seen from one rank, once all ranks agree. Includes
// comm/detail/reduce.hpp and comm/mpi/detail/row.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>
#include <zero/comm/detail/call.hpp>
#include <zero/comm/detail/reduce.hpp>
#include <zero/comm/mpi/detail/row.hpp>

namespace zero::detail {

/// Phases of work; a rank ends one before it begins the next.
constexpr unsigned mpi_phases(Collective collective) {
  return collective == Collective::all_reduce                                   ? 2
         : collective == Collective::barrier || collective == Collective::split ? 0
                                                                                : 1;
}

/// The transfers of one rank. Parts are summed by the rank that they belong to, message by message
/// in rank order, as threads do.
class MpiTransfer {
 public:
  /// `ranks` are those of the world, by rank of the communicator; `memory` has bytes_for(...).
  MpiTransfer(MpiWorld& world, const std::vector<std::size_t>& ranks, std::size_t rank, int tag,
              std::byte* memory)
      : world_(world), rank_(rank), peers_(ranks.size()) {
    const std::size_t slot_bytes = slot_bytes_for(world);
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      for (MpiRow* row : {&peers_[r].out, &peers_[r].in}) {
        row->peer = ranks[r];
        row->tag = tag;
        row->message_elements = world.options().message_elements;
        if (r == rank_) continue;
        for (std::byte*& slot : row->slots) {
          slot = memory;
          memory += slot_bytes;
        }
      }
    }
  }

  static std::size_t bytes_for(const MpiWorld& world, std::size_t ranks) {
    return (ranks - 1) * 2 * MpiRow::slot_count * slot_bytes_for(world);
  }

  /// Pre:     the transfer before is done(). `phase` counts from 1.
  void begin(const Call& call, unsigned phase) {
    call_ = call;
    sums_ = false;
    summed_ = 0;
    const auto all = static_cast<const std::byte*>(call.in);
    auto* const out = static_cast<std::byte*>(call.out);
    const std::size_t size = size_of(call.type);
    const std::size_t ranks = peers_.size();
    for (std::size_t r = 0; r < ranks; ++r) {
      switch (call.collective) {
        case Collective::all_gather:
          move(r, all, call.count, out + r * call.bytes(), call.count);
          break;
        case Collective::reduce_scatter:
          move(r, all + r * call.bytes(), call.count, nullptr, call.count);
          break;
        case Collective::all_reduce:
          if (phase == 1) {
            move(r, all + begin_of(r) * size, length_of(r), nullptr, length_of(rank_));
          } else {
            move(r, all + begin_of(rank_) * size, length_of(rank_), out + begin_of(r) * size,
                 length_of(r));
          }
          break;
        case Collective::broadcast:
          move(r, all, rank_ == call.root ? call.count : 0, out, r == call.root ? call.count : 0);
          break;
        default: move(r, nullptr, 0, nullptr, 0);
      }
    }
    if (call.collective == Collective::all_gather && call.count != 0) {
      std::byte* const mine = out + rank_ * call.bytes();
      if (mine != all) std::memcpy(mine, all, call.bytes());
    } else if (call.collective == Collective::reduce_scatter) {
      sum_into(all + rank_ * call.bytes(), out, call.count);
    } else if (call.collective == Collective::all_reduce && phase == 1) {
      sum_into(all + begin_of(rank_) * size, out + begin_of(rank_) * size, length_of(rank_));
    }
  }

  /// Goes as far as the peers allow. Returns whether anything has moved.
  bool advance() {
    bool moved = false;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (r == rank_) continue;
      Peer& peer = peers_[r];
      moved |= peer.out.collect(world_);
      if (const std::size_t bytes = peer.out.send(world_, peer.from); bytes != 0) {
        auto& total = sent_[static_cast<std::size_t>(call_.collective)];
        total.store(total.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
        moved = true;
      }
      moved |= peer.in.collect(world_);
      if (!sums_) copy(peer);
      peer.in.receive(world_);
    }
    if (sums_) moved |= sum();
    return moved;
  }

  bool done() const {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (!done(r)) return false;
    }
    return !sums_ || summed_ == own_row().messages();
  }
  /// Whether nothing is on its way to or from a rank.
  bool done(std::size_t r) const {
    const auto& [from, to, out, in] = peers_[r];
    return r == rank_ || (out.ended == out.messages() && in.used == in.messages());
  }

  Traffic sent() const {
    const auto of = [&](Collective collective) {
      return sent_[static_cast<std::size_t>(collective)].load(std::memory_order_relaxed);
    };
    return {of(Collective::all_gather), of(Collective::reduce_scatter), of(Collective::all_reduce),
            of(Collective::broadcast)};
  }

  /// Moves what MPI has not done to the lists.
  void requests(std::vector<MPI_Request>& sends, std::vector<MPI_Request>& receives) const {
    for (const Peer& peer : peers_) {
      sends.insert(sends.end(), peer.out.requests.begin(), peer.out.requests.end());
      receives.insert(receives.end(), peer.in.requests.begin(), peer.in.requests.end());
    }
  }

 private:
  struct Peer {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    MpiRow out, in;
  };

  static std::size_t slot_bytes_for(const MpiWorld& world) {
    return (world.options().message_elements * 8 + 63) / 64 * 64;
  }

  // The part of an all_reduce that a rank sums.
  std::size_t begin_of(std::size_t r) const {
    return r * (call_.count / peers_.size()) + std::min(r, call_.count % peers_.size());
  }
  std::size_t length_of(std::size_t r) const { return begin_of(r + 1) - begin_of(r); }

  void move(std::size_t r, const std::byte* from, std::size_t send, std::byte* to,
            std::size_t receive) {
    Peer& peer = peers_[r];
    peer.from = from;
    peer.to = to;
    peer.out.begin(send, size_of(call_.type));
    peer.in.begin(receive, size_of(call_.type));
  }

  void sum_into(const std::byte* own, std::byte* out, std::size_t count) {
    sums_ = true;
    own_ = own;
    sum_ = out;
    peers_[rank_].in.begin(count, size_of(call_.type));
  }
  const MpiRow& own_row() const { return peers_[rank_].in; }

  void copy(Peer& peer) const {
    MpiRow& in = peer.in;
    for (; in.used < in.ended; ++in.used) {
      std::memcpy(peer.to + in.offset(in.used), in.slot(in.used), in.bytes(in.used));
    }
  }

  /// Sums the messages that have come from all ranks.
  bool sum() {
    const std::size_t before = summed_;
    for (; summed_ < own_row().messages(); ++summed_) {
      for (std::size_t r = 0; r < peers_.size(); ++r) {
        if (r != rank_ && peers_[r].in.ended == summed_) return summed_ != before;
      }
      sum_message();
      for (Peer& peer : peers_) ++peer.in.used;
    }
    return summed_ != before;
  }
  void sum_message() {
    switch (call_.type) {
      case DataType::fp32: return sum_message<float>();
      case DataType::fp64: return sum_message<double>();
      case DataType::bf16: return sum_message<bf16>();
      case DataType::fp16: return sum_message<fp16>();
      case DataType::u64: return sum_message<std::uint64_t>();
    }
  }
  template <class T>
  void sum_message() {
    const std::size_t offset = own_row().offset(summed_);
    const auto source = [&](std::size_t r) {
      return reinterpret_cast<const T*>(r == rank_ ? own_ + offset : peers_[r].in.slot(summed_));
    };
    sum_over_ranks(source, peers_.size(), reinterpret_cast<T*>(sum_ + offset),
                   own_row().bytes(summed_) / sizeof(T), call_.accumulate, call_.reduction);
  }

  MpiWorld& world_;
  std::size_t rank_;
  std::vector<Peer> peers_;  // [rank]
  Call call_;
  bool sums_ = false;
  std::size_t summed_ = 0;  // messages
  const std::byte* own_ = nullptr;
  std::byte* sum_ = nullptr;
  std::array<std::atomic<std::uint64_t>, 4> sent_{};  // bytes, by collective
};

}  // namespace zero::detail
