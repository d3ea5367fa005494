// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What communicators over MPI that were split from one share: MPI's communicator, the first
// failure, the limit. Includes base/, mpi.h and comm/{detail,mpi}/.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/detail/text.hpp>
#include <zero/comm/mpi/detail/duplicate.hpp>
#include <zero/comm/mpi/detail/leftovers.hpp>
#include <zero/comm/mpi/detail/notice.hpp>
#include <zero/comm/mpi/options.hpp>

namespace zero::detail {

/// The ranks that MPI connects, as seen by one of them. Each call of MPI is made here, under one
/// lock, so that the threads of several streams may share an MPI that takes one call at a time.
///
/// A rank that fails tells all others, in whatever communicator they wait. Those made by splitting
/// are lists of ranks with message tags of their own on the one communicator of MPI.
class MpiWorld {
 public:
  using Clock = std::chrono::steady_clock;

  MpiWorld(MPI_Comm users, const MpiOptions& options)
      : options_(options), comm_(duplicate(users, options.time_limit)) {
    int number = 0;
    check_mpi(MPI_Comm_rank(comm_, &number), "MPI_Comm_rank");
    rank_ = static_cast<std::size_t>(number);
    check_mpi(MPI_Comm_size(comm_, &number), "MPI_Comm_size");
    ranks_ = static_cast<std::size_t>(number);
    int* most = nullptr;
    check_mpi(MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&most), &number),
              "MPI_Comm_get_attr");
    most_tag_ = number == 0 ? 32767 : *most;
    histories_ = std::make_unique<History[]>(ranks_);
    gone_.resize(ranks_);
    told_failure_.resize(ranks_, MPI_REQUEST_NULL);
    told_end_.resize(ranks_, MPI_REQUEST_NULL);
    notices_ = std::make_unique<Notices>();
    await_notice();
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld() {
    if (close()) return;
    static_cast<void>(notices_.release());  // MPI may still read and write it
    leftovers_.abandon();
  }

  std::size_t rank() const { return rank_; }
  std::size_t ranks() const { return ranks_; }
  const MpiOptions& options() const { return options_; }
  std::chrono::milliseconds limit() const { return options_.time_limit; }
  /// What a rank did last: of others, what this rank has heard.
  History& history(std::size_t rank) const { return histories_[rank]; }
  std::uint64_t note(std::size_t rank, const Call& call) {
    const std::lock_guard lock(mutex_);
    return histories_[rank].issue(call);
  }

  /// Begins to send to a rank; the bytes stay as they are until complete(request).
  void send(const void* from, std::size_t bytes, std::size_t to, int tag, MPI_Request& request) {
    const std::lock_guard lock(mutex_);
    check_mpi(MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to), tag, comm_,
                        &request),
              "MPI_Isend");
  }
  void receive(void* to, std::size_t bytes, std::size_t from, int tag, MPI_Request& request) {
    const std::lock_guard lock(mutex_);
    check_mpi(MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(from), tag, comm_,
                        &request),
              "MPI_Irecv");
  }
  bool complete(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return true;
    const std::lock_guard lock(mutex_);
    return test(request);
  }

  /// Takes what a communicator leaves: its memory is kept until MPI has done with it. What is not
  /// received yet will not be.
  void take_over(MpiMemory memory, std::vector<MPI_Request> sends,
                 const std::vector<MPI_Request>& receives) {
    const std::lock_guard lock(mutex_);
    for (MPI_Request request : receives) {
      if (request == MPI_REQUEST_NULL) continue;
      check_mpi(MPI_Cancel(&request), "MPI_Cancel");
      sends.push_back(request);
    }
    leftovers_.add(std::move(memory), std::move(sends));
    leftovers_.settle();
  }

  /// Hears what ranks that fail have to say.
  void poll() {
    const std::lock_guard lock(mutex_);
    while (listening_ && test(listener_)) {
      const MpiNotice& notice = notices_->in;
      if (notice.is_failure) {
        keep(notice.is_timeout, notice.text());
      } else {
        gone_[notice.rank] = true;
      }
      await_notice();
    }
  }

  bool failed() const { return failed_.load(); }

  /// Keeps the first failure and tells all ranks.
  void fail(bool timeout, std::string_view what) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (failed_.load()) return;
      keep(timeout, what);
      if (!mpi_runs()) return;
      notices_->failure = {.is_failure = true, .is_timeout = timeout};
      notices_->failure.set_text(what);
      tell(notices_->failure, told_failure_);
    } catch (...) { failed_.store(true); }
  }

  /// Throws the failure as seen by one collective. Pre: failed().
  [[noreturn]] void raise(const std::string& where) const {
    const std::lock_guard lock(mutex_);
    const std::string text = what_.starts_with(where) ? what_ : where + " failed: " + what_;
    if (timeout_) throw TimeoutError(text);
    throw CommunicatorError(text);
  }

  /// Communicators are numbered; no number is used twice by ranks that could mistake them.
  std::uint32_t next_group() const { return next_group_.load(); }
  void use_group(std::uint32_t number) {
    if (std::uint64_t{2} * number + 2 > static_cast<std::uint64_t>(most_tag_)) {
      throw CommunicatorError("split: MPI has no tags left after " + std::to_string(number) +
                              " communicators. Split once and keep the parts.");
    }
    next_group_.store(number + 1);
  }

 private:
  static constexpr int notice_tag = 0;

  struct Notices {
    MpiNotice in, failure, end;
  };

  bool test(MPI_Request& request) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  void await_notice() {
    listening_ = false;
    check_mpi(MPI_Irecv(&notices_->in, sizeof(MpiNotice), MPI_BYTE, MPI_ANY_SOURCE, notice_tag,
                        comm_, &listener_),
              "MPI_Irecv");
    listening_ = true;
  }

  void keep(bool timeout, std::string_view what) {
    if (failed_.load()) return;
    timeout_ = timeout;
    failed_.store(true);
    what_.assign(what).append(text_of_histories(*this));
  }

  void tell(MpiNotice& notice, std::vector<MPI_Request>& requests) {
    notice.rank = static_cast<std::uint32_t>(rank_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      // Where this cannot be said, the others' time limit is what is left.
      MPI_Isend(&notice, sizeof(MpiNotice), MPI_BYTE, static_cast<int>(rank), notice_tag, comm_,
                &requests[rank]);
    }
  }

  /// Gives MPI's communicator back when all ranks have done with it: before that, a message that
  /// is on its way could reach whoever gets the same communicator next. It is kept for ever if a
  /// rank does not come within a moment. Whether MPI let go of all memory.
  bool close() noexcept {
    try {
      if (!mpi_runs()) return false;
      {
        const std::lock_guard lock(mutex_);
        gone_[rank_] = true;
        tell(notices_->end, told_end_);
      }
      const auto end =
          Clock::now() + std::min<std::chrono::milliseconds>(limit(), std::chrono::seconds(1));
      while (!closed()) {
        if (Clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      check_mpi(MPI_Cancel(&listener_), "MPI_Cancel");
      check_mpi(MPI_Wait(&listener_, MPI_STATUS_IGNORE), "MPI_Wait");
      MPI_Comm_free(&comm_);
      return true;
    } catch (...) { return false; }
  }
  bool closed() {
    poll();
    const std::lock_guard lock(mutex_);
    const auto all_told = [this](std::vector<MPI_Request>& requests) {
      return std::all_of(requests.begin(), requests.end(), [this](MPI_Request& request) {
        return request == MPI_REQUEST_NULL || test(request);
      });
    };
    const bool all_gone = std::all_of(gone_.begin(), gone_.end(), [](bool gone) { return gone; });
    // What a rank sent before it said so has come, so that after this nothing more can.
    const bool strays = leftovers_.take_strays(comm_);
    return leftovers_.settle() && all_told(told_failure_) && all_told(told_end_) && all_gone &&
           !strays;
  }

  MpiOptions options_;
  MPI_Comm comm_;
  std::size_t rank_ = 0, ranks_ = 0;
  int most_tag_ = 0;
  std::unique_ptr<History[]> histories_;  // [rank]
  mutable std::mutex mutex_;
  std::atomic<bool> failed_{false};
  bool timeout_ = false;
  std::string what_;
  std::atomic<std::uint32_t> next_group_{0};
  std::unique_ptr<Notices> notices_;
  MPI_Request listener_ = MPI_REQUEST_NULL;
  bool listening_ = false;
  MpiLeftovers leftovers_;
  std::vector<bool> gone_;                            // [rank]: it has done with this world
  std::vector<MPI_Request> told_failure_, told_end_;  // [rank]
};

}  // namespace zero::detail
