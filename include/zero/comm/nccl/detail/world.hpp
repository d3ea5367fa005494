// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the communicators of one rank over NCCL share: the first failure, who drives them, the end
// of all together. Includes comm/detail/, comm/nccl/ and device/cuda/.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/detail/text.hpp>
#include <zero/comm/detail/world.hpp>
#include <zero/comm/nccl/detail/captured.hpp>
#include <zero/comm/nccl/detail/handle.hpp>
#include <zero/comm/nccl/detail/pending.hpp>
#include <zero/comm/nccl/options.hpp>
#include <zero/device/cuda/device.hpp>

namespace zero::detail {

/// The communicators of one rank that were split from one another.
///
/// One thread issues their collectives; any thread may wait, or abort. Every call of NCCL is made
/// under one lock, since a failure ends all communicators and frees what they were.
class NcclWorld final : public HostWatch, public std::enable_shared_from_this<NcclWorld> {
 public:
  using Clock = std::chrono::steady_clock;

  NcclWorld(const NcclOptions& options, std::size_t rank, std::size_t ranks)
      : options_(options),
        shares_(options.board != nullptr),
        board_(shares_ ? options.board->world()
                       : std::make_shared<World>(1, std::chrono::milliseconds(0))),
        rank_(rank),
        pending_(options.followed) {
    if (options.time_limit.count() <= 0 || (shares_ && board_->ranks() < ranks)) {
      throw ContractError(
          "NcclOptions: time_limit must be positive and the board large enough, "
          "time_limit is " +
          std::to_string(options.time_limit.count()) + " ms, the board for " +
          std::to_string(board_->ranks()) + " ranks of " + std::to_string(ranks));
    }
    options_.config.blocking = 0;
    options_.board = nullptr;
    handles_.reserve(8);
  }

  const NcclOptions& options() const { return options_; }
  NcclPending& pending() { return pending_; }

  /// Makes the calling thread the one that issues collectives.
  void drive_from_this_thread() { driver_ = std::this_thread::get_id(); }

  void add(NcclHandle& handle) {
    const std::lock_guard lock(mutex_);
    handles_.push_back(&handle);
  }
  void remove(NcclHandle& handle) noexcept {
    const std::lock_guard lock(mutex_);
    handles_.erase_if([&](const NcclHandle* one) { return one == &handle; });
  }
  void destroy_operators(const NcclHandle& handle,
                         std::span<const ncclRedOp_t> operators) noexcept {
    const std::lock_guard lock(mutex_);
    if (handle.comm == nullptr) return;
    for (const ncclRedOp_t& operation : operators) ncclRedOpDestroy(operation, handle.comm);
  }
  /// Ends one communicator; the peers' may go on.
  void close(NcclHandle& handle) noexcept {
    if (!handle.owned || handle.comm == nullptr) return;
    try {
      // Lets what was enqueued end, and then frees it; without the first, ncclCommDestroy waits.
      call(handle, "ncclCommFinalize", handle, [&] { return ncclCommFinalize(handle.comm); });
    } catch (...) {}  // a failure has ended the handle
    const std::lock_guard lock(mutex_);
    if (ncclComm_t comm = std::exchange(handle.comm, nullptr); comm != nullptr) {
      failed() ? ncclCommAbort(comm) : ncclCommDestroy(comm);
    }
  }

  /// f() returns an ncclResult_t, of a call of NCCL named `api`. Waits until NCCL has taken it.
  /// `what.text()` says for what.
  ///
  /// Errors:  CommunicatorError, TimeoutError: then all communicators of the world have ended.
  template <class What, class F>
  void call(NcclHandle& handle, const char* api, const What& what, const F& f) {
    std::unique_lock lock(mutex_);
    if (board_->failed()) give_up(what);
    ncclResult_t code = f();
    if (code == ncclInProgress && group_depth_ == 0) {
      const Clock::time_point deadline = Clock::now() + options_.time_limit;
      for (unsigned turn = 0; code == ncclInProgress; ++turn) {
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(turn < 20 ? 0 : 50));
        lock.lock();
        if (board_->failed()) give_up(what);
        if (Clock::now() >= deadline) {
          note_failure(true, what.text() + ": " + api + " did not end within " + limit_text() +
                                 behind_text() + why_late);
          give_up(what);
        }
        code = async_state(handle.comm);
      }
    }
    if (code == ncclSuccess || code == ncclInProgress) return;
    note_failure(false, what.text() + ": " + text_of(code, api, handle.comm));
    give_up(what);
  }

  /// All collectives that f() issues become one of NCCL's.
  template <class F>
  void grouped(NcclHandle& handle, const F& f) {
    if (group_depth_ != 0) return f();
    check_thread(handle);
    call(handle, "ncclGroupStart", handle, [] { return ncclGroupStart(); });
    set_group_depth(1);
    try {
      f();
    } catch (...) {
      ncclGroupEnd();  // starts what was collected, which the peers may lack
      set_group_depth(0);
      fail(false, handle.text() + ": a group was left by an exception before its end");
      throw;
    }
    const ncclResult_t code = ncclGroupEnd();
    set_group_depth(0);
    call(handle, "ncclGroupEnd", handle, [&] { return code; });
    for (NcclHandle* other : handles_) {
      call(*other, "ncclGroupEnd", *other, [&] { return async_state(other->comm); });
    }
    const std::lock_guard lock(mutex_);
    follow();
  }
  bool in_group() const { return group_depth_ != 0; }

  /// One collective. f(comm, stream) calls NCCL.
  template <class F>
  void issue(NcclHandle& handle, const Call& call, const char* api, CudaStream& stream,
             const F& f) {
    const NcclWhere where{call, handle};
    check_thread(where);
    stream.attach(shared_from_this());
    const bool captured = stream.capturing();
    const std::uint64_t number = history().issue(call);
    this->call(handle, api, where, [&] { return f(handle.comm, stream.native()); });
    const std::lock_guard lock(mutex_);
    if (captured) {
      handle.captured->add(call, stream);
      history().end(number);
    } else {
      pending_.add(call, handle.rank, handle.size, number, stream);
    }
    if (group_depth_ == 0) follow();
  }

  /// Throws unless the calling thread is the one that issues collectives.
  template <class What>
  void check_thread(const What& what) {
    const std::thread::id me = std::this_thread::get_id();
    std::thread::id driver{};
    if (driver_.compare_exchange_strong(driver, me) || driver == me) return;
    throw ContractError(what.text() +
                        ": another thread issues the collectives of this rank, and two would "
                        "deadlock on the device. Issue all of them from one thread, or call "
                        "drive_from_this_thread() when the other has ended.");
  }

  // HostWatch
  std::uint64_t look(bool waiting) override {
    const std::lock_guard lock(mutex_);
    if (!board_->failed()) ask();
    if (board_->failed()) {
      if (where_.empty()) where_ = late_text();
      stop();
      if (!waiting || !std::exchange(told_, true)) board_->raise(where_);
    }
    return life_;
  }
  void expire(const std::string& what) noexcept override {
    const std::lock_guard lock(mutex_);
    try {
      where_ = late_text();
      note_failure(true, where_ + " did not end within " + limit_text() + ", during " + what +
                             behind_text() + why_late);
    } catch (...) { board_->fail(true, "a collective did not end within the time limit"); }
    stop();
  }

  /// Makes all present and later collectives fail and ends the communicators; keeps the first
  /// reason. By any thread.
  void fail(bool timeout, std::string_view why) noexcept {
    board_->fail(timeout, why);
    // Who issues holds the lock for a moment only, unless a communicator of the user's blocks.
    for (int turn = 0; turn < 1000; ++turn) {
      if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) return stop();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  bool failed() const { return board_->failed(); }

 private:
  History& history() const { return board_->history(shares_ ? rank_ : 0); }
  std::string behind_text() const { return shares_ ? text_of_ranks_behind(*board_) : ""; }
  std::string limit_text() const { return std::to_string(options_.time_limit.count()) + " ms"; }

  void set_group_depth(int depth) {
    const std::lock_guard lock(mutex_);
    group_depth_ = depth;
  }
  /// Looks after everything once. Pre: locked.
  void ask() {
    life_ = pending_.advance(history());
    for (const NcclHandle* handle : handles_) life_ += handle->captured->done();
    for (NcclHandle* handle : handles_) {
      const ncclResult_t code = async_state(handle->comm);
      if (code == ncclSuccess || code == ncclInProgress) continue;
      where_ = late_text();
      return note_failure(false,
                          where_ + ": " + text_of(code, "ncclCommGetAsyncError", handle->comm));
    }
  }

  /// Lets the streams tell when what they were given has ended. Pre: locked.
  void follow() {
    pending_.record();
    for (NcclHandle* handle : handles_) handle->captured->mark();
  }
  /// The collective that is waited for, as far as this rank knows.
  std::string late_text() const {
    if (!pending_.empty()) return pending_.text();
    // Which communicator the device waits in is not known; it is none of one rank.
    std::string text;
    for (const NcclHandle* handle : handles_) {
      if (handle->captured->empty() || handle->size == 1) continue;
      text += (text.empty() ? "" : ", or ") + handle->captured->next_text() + " " + handle->text() +
              " in a graph";
    }
    return text.empty() ? "the communicators on rank " + std::to_string(rank_) : text;
  }
  /// Pre: locked.
  void note_failure(bool timeout, const std::string& what) {
    if (board_->failed()) return;
    board_->fail(timeout, what + (shares_ ? text_of_histories(*board_)
                                          : "\nLast operations of this rank, the latest at the "
                                            "end: " +
                                                history().text(History::length)));
  }
  /// Ends all communicators and throws. Pre: locked.
  template <class What>
  [[noreturn]] void give_up(const What& what) {
    stop();
    told_ = true;
    board_->raise(what.text());
  }
  /// Ends all communicators together: one after the other, the first would wait for work that is
  /// queued behind the second's. Within a group, at its end. Pre: locked.
  void stop() noexcept {
    if (group_depth_ != 0 || std::exchange(stopped_, true)) return;
    ncclGroupStart();
    for (NcclHandle* handle : handles_) {
      if (handle->comm == nullptr) continue;
#if NCCL_VERSION_CODE >= 22809
      if (!handle->owned || options_.on_failure == NcclFailure::revoke) {
        ncclCommRevoke(handle->comm, NCCL_REVOKE_DEFAULT);
        continue;
      }
#endif
      if (handle->owned) ncclCommAbort(std::exchange(handle->comm, nullptr));
    }
    ncclGroupEnd();
  }

  NcclOptions options_;
  const bool shares_;
  const std::shared_ptr<World> board_;
  const std::size_t rank_;  // of the communicator that all were split from
  std::atomic<std::thread::id> driver_{};
  std::mutex mutex_;
  List<NcclHandle*> handles_;
  NcclPending pending_;
  std::string where_;  // what this rank waited for when it learned of the failure
  std::uint64_t life_ = 0;
  int group_depth_ = 0;
  bool stopped_ = false, told_ = false;
};

}  // namespace zero::detail
