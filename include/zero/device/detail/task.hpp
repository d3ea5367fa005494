// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A callable in a fixed slot, without allocation. Includes the standard library only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace zero::detail {

enum class Poll : std::uint8_t {
  busy,    // not ready: call again
  moving,  // not ready, but what it waits for has moved: its time limit begins anew
  ready    // done: never call again
};

/// What a stream knows about a type of callables.
struct TaskType {
  Poll (*poll)(void*);
  void (*pause)(void*, std::chrono::nanoseconds);
  std::string (*describe)(const void*, const char* label);
  void (*destroy)(void*);
  bool is_wait;  // for other work of a device, whose own time limit shall strike first
};

inline constexpr std::chrono::microseconds default_pause{50};

template <class F>
concept TaskCallable = std::is_object_v<F> && requires(F& f) {
  f();
} &&(std::is_same_v<std::invoke_result_t<F&>, void> ||
     std::is_same_v<std::invoke_result_t<F&>, bool> ||
     std::is_same_v<std::invoke_result_t<F&>, Poll>);

template <class F>
concept TaskOfWaiting = requires {
  typename F::IsWait;
};

template <class F>
inline constexpr TaskType task_type = {
    .poll = [](void* object) -> Poll {
      F& f = *static_cast<F*>(object);
      using Result = std::invoke_result_t<F&>;
      if constexpr (std::is_same_v<Result, Poll>) {
        return f();
      } else if constexpr (std::is_same_v<Result, bool>) {
        return f() ? Poll::ready : Poll::busy;
      } else {
        f();
        return Poll::ready;
      }
    },
    .pause =
        [](void* object, std::chrono::nanoseconds limit) {
          if constexpr (requires(F & f) { f.pause(limit); }) {
            static_cast<F*>(object)->pause(limit);
          } else {
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(limit, default_pause));
          }
        },
    .describe = [](const void* object, const char* label) -> std::string {
      if constexpr (requires(const F& f) { f.describe(); }) {
        return static_cast<const F*>(object)->describe();
      } else {
        return label;
      }
    },
    .destroy = std::is_trivially_destructible_v<F>
                   ? nullptr
                   : +[](void* object) { static_cast<F*>(object)->~F(); },
    .is_wait = TaskOfWaiting<F>};

/// A callable that lives elsewhere, with the name of its operation.
struct TaskRef {
  const TaskType* type = nullptr;
  void* object = nullptr;
  const char* label = nullptr;

  Poll poll() const { return type->poll(object); }
  void pause(std::chrono::nanoseconds limit) const { type->pause(object, limit); }
  std::string describe() const { return type->describe(object, label); }
};

/// Room for one callable: three cache lines. It is not touched before a callable is put there, so
/// that the memory of a long queue is never used, but of what was queued at once.
class alignas(64) TaskSlot {
 public:
  static constexpr std::size_t capacity = 176;

  template <class F>
  void emplace(const char* label, F&& f) {
    using Callable = std::decay_t<F>;
    ::new (static_cast<void*>(storage_)) Callable(std::forward<F>(f));
    type_ = &task_type<Callable>;
    label_ = label;
  }

  TaskRef task() { return {type_, storage_, label_}; }
  void destroy() {
    if (type_->destroy != nullptr) type_->destroy(storage_);
  }

 private:
  const TaskType* type_;  // these two are undefined where there is no callable
  const char* label_;
  alignas(16) std::byte storage_[capacity];
};

}  // namespace zero::detail
