// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Access of the host between steps to optimizer state that may be offloaded. May include anything
// below module/.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/module/detail/state_regions.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// Brings the state of one group at a time into the first slot, and what was changed there back.
///
/// Order:   calls of the host while nothing runs, but for leave().
/// Errors:  DeviceError if the state cannot be read or written.
template <class Buffers, class Streams, class Store>
class StateAtRest {
 public:
  using Group = typename Buffers::Group;

  StateAtRest(Buffers& buffers, const StageTraits& traits, Streams& streams, Store& store)
      : buffers_(buffers), traits_(traits), streams_(streams), store_(store) {}

  bool offloads() const { return traits_.offloads(); }
  /// A group whose master and states may be elsewhere.
  const Group& group(std::size_t g) const { return buffers_.group(g); }
  /// A group with its master and states, to be read or, if it `changes`, written; good until those
  /// of another group are asked for.
  const Group& kept(std::size_t g, bool changes) {
    if (!offloads() || region(g).bytes == 0) return buffers_.group(g);
    if (group_ != g) {
      leave();
      store_.fetch(stream(), buffers_.state_slot(0), region(g).begin, region(g).bytes);
      finish();
      group_ = g;
    }
    changed_ = changed_ || changes;
    return buffers_.group(g, 0);
  }
  /// Enqueues the way back of what was changed, before all later work of the store; what fails then
  /// ends the next step. Returns whether there was anything.
  bool leave() {
    if (changed_) {
      store_.store(stream(), buffers_.state_slot(0), region(group_).begin, region(group_).bytes);
    }
    group_ = none;
    return std::exchange(changed_, false);
  }
  /// All regions in memory of the host: where they are kept, or a copy that is given back or
  /// dropped.
  std::byte* all() {
    leave();
    finish();
    if (store_.data() != nullptr) return store_.data();
    if (!copy_) copy_.reset(new (std::align_val_t{StateRegions::alignment}) std::byte[bytes()]);
    store_.read(copy_.get(), 0, bytes());
    return copy_.get();
  }
  void give_back() {
    group_ = none;  // what was brought before is not what is kept now
    changed_ = false;
    if (copy_) store_.write(copy_.get(), 0, bytes());
  }
  void drop_copy() { copy_.reset(); }
  Group placed(std::size_t g, std::byte* all) const {
    return all == nullptr ? buffers_.group(g) : buffers_.placed(g, all + region(g).begin);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Free {
    void operator()(std::byte* data) const {
      operator delete[](data, std::align_val_t{StateRegions::alignment});
    }
  };

  auto& stream() { return streams_[StreamId::offload]; }
  const StateRegions::Region& region(std::size_t g) const { return buffers_.regions()[g]; }
  std::size_t bytes() const { return static_cast<std::size_t>(buffers_.regions().total()); }
  void finish() {
    stream().synchronize();
    if (store_.failed()) throw DeviceError(store_.error());
  }

  Buffers& buffers_;
  const StageTraits& traits_;
  Streams& streams_;
  Store& store_;
  std::size_t group_ = none;  // whose state is in the first slot
  bool changed_ = false;
  std::unique_ptr<std::byte[], Free> copy_;
};

}  // namespace zero::detail
