// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs a function on ranks that are threads. Includes comm/thread_communicator.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>
#include <zero/base/list.hpp>
#include <zero/comm/thread_communicator.hpp>

namespace zero {

namespace detail {

/// Keeps the error that caused the others: the first one that is not a CommunicatorError, since
/// those are how the other ranks learn of it; if there is no other kind, the first of all.
class FirstError {
 public:
  /// Pre: called in a handler.
  void keep(bool is_communicator_error) noexcept {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && (is_communicator_error || !replaceable_)) return;
    // The rank of the old one may still look at it: it ends when all ranks have ended.
    replaced_ = std::exchange(error_, std::current_exception());
    replaceable_ = is_communicator_error;
  }
  void rethrow_if_any() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_, replaced_;
  bool replaceable_ = false;
};

template <class F>
void run_rank(F& f, ThreadCommunicator comm, FirstError& error) noexcept {
  try {
    f(comm);
  } catch (const CommunicatorError& e) {
    error.keep(true);
    comm.abort(e.what());
  } catch (const std::exception& e) {
    error.keep(false);
    comm.abort(e.what());
  } catch (...) {
    error.keep(false);
    comm.abort("an exception that is not a std::exception");
  }
}

}  // namespace detail

/// Runs f(comm) on `ranks` threads, one for each rank, and returns when all of them have ended.
///
/// An exception on one rank makes the collectives of the others fail; the one that came first is
/// thrown again here. A function that never returns is waited for: threads cannot be ended.
///
/// Errors: ContractError if `ranks` is 0; what f throws.
template <std::invocable<ThreadCommunicator&> F>
void run_threads(std::size_t ranks, F&& f, ThreadOptions options = {}) {
  std::vector<ThreadCommunicator> comms = ThreadCommunicator::make(ranks, options);
  detail::FirstError error;
  {
    List<std::jthread> threads;
    threads.reserve(ranks);
    try {
      while (!comms.empty()) {
        threads.emplace_back([&f, &error, comm = std::move(comms.back())]() mutable {
          detail::run_rank(f, std::move(comm), error);
        });
        comms.pop_back();
      }
    } catch (...) {  // no more threads: those that run must not wait for the others
      error.keep(false);
      comms.front().abort("a thread could not be started");
    }
  }
  error.rethrow_if_any();
}

}  // namespace zero
