// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How the step ended that was finished last. May include anything below module/.
#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/decision.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// The result of the step that was finished last, which the host knows when its decision has come
/// back; until then it is pending, and Control's staged copy must not be written.
template <class Device>
class StepEnd {
 public:
  using Streams = typename Device::Streams;
  using Store = typename Device::Store;

  StepEnd(const Control& control, const ParameterTable& parameters, Streams& streams, Store& store,
          std::size_t rank)
      : control_(control), parameters_(parameters), streams_(streams), store_(store), rank_(rank) {
    streams_.prepare({&decided_, 1});
  }

  /// Updates are about to be enqueued: from the first to the last, parameters are torn.
  void begin() { torn_ = true; }
  /// They were, and the decision ends with what `stream` has now. `error`: of a function of the
  /// user's, for which all ranks skip the step.
  void enqueued(StreamId stream, const std::exception_ptr& error) {
    streams_[stream].record(decided_);
    stream_ = stream;
    error_ = error;
    pending_ = true;
    torn_ = false;
    later_ = false;
  }
  /// Another step begins: what streams report from now on may be of its own work. Returns whether
  /// the host knows how this one ended.
  bool another_begins() {
    later_ = true;
    return !pending_;
  }
  /// Waits for the decision, not for the updates.
  ///
  /// Errors:  what is wrong with that step, once. Once another step has begun, what streams report
  ///          is left to that one, so that all ranks skip it.
  const StepResult& read() {
    if (late_) std::rethrow_exception(std::exchange(late_, nullptr));
    if (pending_) conclude(!later_);
    return result_;
  }
  /// The same for those who cannot throw: the next read() does.
  void settle() noexcept {
    try {
      if (pending_) conclude(true);
    } catch (...) { late_ = std::current_exception(); }
  }
  /// Throws what streams report. It may be of the step before, which then has nothing more to say.
  void check_streams() {
    try {
      streams_.check();
    } catch (...) {
      if (pending_) conclude(false);
      throw;
    }
  }
  /// Goes on after another engine's.
  void take(const StepResult& result) { result_ = result; }
  void require_whole(const char* call) const {
    if (!torn_) return;
    throw ContractError(std::string("zero: ") + call +
                        ": an earlier step failed in the middle of its updates, so the "
                        "parameters are torn; load them again into a new module");
  }

 private:
  void conclude(bool checks) {
    pending_ = false;
    torn_ = true;
    decided_.synchronize();
    streams_[stream_].check();
    torn_ = control_.applied() && !later_;
    if (checks) streams_.check();  // work of the user's on a stream
    torn_ = false;
    result_ = {control_.applied(), control_.norm(), control_.step(), control_.used_scale()};
    if (control_.state_failed()) throw_state_failed();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    check_decision(control_, parameters_, rank_);
  }

  /// Offloaded state of a rank failed, in this step before all ranks decided, or after that in the
  /// one before.
  [[noreturn]] void throw_state_failed() {
    torn_ = control_.state_torn();
    streams_.settle();
    std::string text = "zero: finish: offloaded optimizer state could not be moved";
    text += store_.failed() ? " on this rank: " + store_.error() : " on another rank";
    text += "; nothing of this step was applied. ";
    text += torn_ ? "But ranks have updated different parts of the model before, so the "
                    "parameters are torn; load a checkpoint into a new module"
                  : "The module is as before the step, which can be tried again";
    store_.forget();
    throw DeviceError(text + " (this is rank " + std::to_string(rank_) + ")");
  }

  const Control& control_;
  const ParameterTable& parameters_;
  Streams& streams_;
  Store& store_;
  std::size_t rank_;
  bool pending_ = false, torn_ = false, later_ = false;
  typename Device::Event decided_;
  StreamId stream_{};
  std::exception_ptr error_, late_;
  StepResult result_;
};

}  // namespace zero::detail
