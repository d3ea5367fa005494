// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A communicator over NCCL. Includes base/, comm/nccl/detail/ and device/cuda/.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/nccl/detail/collectives.hpp>
#include <zero/comm/nccl/options.hpp>
#include <zero/device/cuda/stream.hpp>

namespace zero {

/// A name of a communicator that one rank makes, for the others to join it by.
inline ncclUniqueId nccl_unique_id() {
  ncclUniqueId id;
  const ncclResult_t code = ncclGetUniqueId(&id);
  if (code != ncclSuccess) {
    throw CommunicatorError("nccl_unique_id: " + detail::text_of(code, "ncclGetUniqueId", nullptr));
  }
  return id;
}

/// A rank of a communicator over NCCL, on one device: its own or the user's.
///
/// Collectives with a stream act on memory of the device. Those without one block and act on memory
/// of the host, through a small buffer. A copy is another name of the same rank. One thread issues
/// all collectives of the communicators that were split from one another; any thread may abort.
///
/// How the concept's words read here: sums are formed in an order that NCCL chooses, narrow types
/// are rounded as it goes, and an average multiplies by 1/size(), in the tensor's type, before it
/// adds. Accumulate::yes is a ContractError. NCCL compares nothing: where ranks differ, expect a
/// TimeoutError. Whoever waits on the host for a stream of a device with such collectives looks
/// after all communicators of the rank: if one fails or is late, all end together, and the error
/// names the first collective that has not ended.
class NcclCommunicator : public detail::NcclCollectives {
 public:
  using Stream = CudaStream;  // on which collectives may be enqueued

  /// Joins the communicator that `id` names, on the current device, as one of `size` ranks. All of
  /// them must call it; blocks, at most for the time limit.
  static NcclCommunicator make(const ncclUniqueId& id, std::size_t rank, std::size_t size,
                               const NcclOptions& options = {}) {
    if (size == 0 || rank >= size || size > std::numeric_limits<int>::max()) {
      throw ContractError("NcclCommunicator::make: rank " + std::to_string(rank) + " of " +
                          std::to_string(size) + " is none. Pass a rank below the size.");
    }
    return first({nullptr, true, rank, size}, options, -1,
                 [&](detail::NcclWorld& world, detail::NcclHandle& handle) {
                   ncclConfig_t config = world.options().config;
                   world.call(handle, "ncclCommInitRankConfig", handle, [&] {
                     return ncclCommInitRankConfig(&handle.comm, static_cast<int>(size), id,
                                                   static_cast<int>(rank), &config);
                   });
                 });
  }

  /// Uses a communicator of the user's, which must outlive it, and is never destroyed by it. When
  /// something fails it is revoked, where NCCL can; else the user must abort it. If it was made
  /// blocking, a call that blocks in NCCL has no time limit.
  static NcclCommunicator adopt(ncclComm_t comm, const NcclOptions& options = {}) {
    int rank = 0, size = 0, ordinal = 0;
    ncclResult_t code = comm == nullptr ? ncclInvalidArgument : ncclCommUserRank(comm, &rank);
    if (code == ncclSuccess) code = ncclCommCount(comm, &size);
    if (code == ncclSuccess) code = ncclCommCuDevice(comm, &ordinal);
    if (code != ncclSuccess) {
      throw CommunicatorError("NcclCommunicator::adopt: " +
                              detail::text_of(code, "asking for rank, size and device", nullptr));
    }
    return first({nullptr, false, static_cast<std::size_t>(rank), static_cast<std::size_t>(size)},
                 options, ordinal,
                 [&](detail::NcclWorld&, detail::NcclHandle& handle) { handle.comm = comm; });
  }

  /// NCCL's handle; null after a failure that ended it.
  ncclComm_t native() const { return member_->handle().comm; }

  /// A communicator of the ranks that pass the same color, which is not negative, ordered by key,
  /// then by rank. A collective; blocks.
  ///
  /// Pre:     what was issued on this communicator has ended.
  NcclCommunicator split(int color, int key) const {
    detail::Call call;
    call.collective = Collective::split;
    refuse_in_group(call);
    if (color < 0) refuse(call, "the color is negative. Pass one of 0 or more");
    member_->world().check_thread(detail::NcclWhere{call, member_->handle()});
    return derived(call, "ncclCommSplit", member_->shared_world(),
                   [&](ncclComm_t* made, ncclConfig_t* config) {
                     return ncclCommSplit(this->native(), color, key, made, config);
                   });
  }

  /// A communicator of the ranks that are left, after `lost` were: also after a failure, if
  /// NcclOptions::on_failure is NcclFailure::revoke. All that are left call it, with the same
  /// ranks; blocks. Other communicators of the rank stay failed.
  ///
  /// Errors:  ContractError if NCCL is older than 2.27 or this communicator was aborted.
  NcclCommunicator shrink([[maybe_unused]] std::span<const std::size_t> lost) const {
    detail::Call call;
    call.collective = Collective::split;
    call.operation = "shrink";
#if NCCL_VERSION_CODE >= 22700
    if (native() == nullptr) {
      refuse(call,
             "the communicator was aborted. Make it with NcclOptions::on_failure = "
             "NcclFailure::revoke");
    }
    List<int> excluded;
    for (const std::size_t rank : lost) excluded.push_back(static_cast<int>(rank));
    detail::NcclWorld& old = member_->world();
    const bool failed = old.failed();
    // A world that failed stays so: this begins another.
    auto world = failed ? std::make_shared<detail::NcclWorld>(old.options(), rank(), size())
                        : member_->shared_world();
    if (failed) world->pending().prepare(member_->buffer().stream());
    return derived(
        call, "ncclCommShrink", std::move(world), [&](ncclComm_t* made, ncclConfig_t* config) {
          return ncclCommShrink(this->native(), excluded.data(), static_cast<int>(excluded.size()),
                                made, config, failed ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT);
        });
#else
    refuse(call, "NCCL is older than 2.27. Make new communicators");
#endif
  }

  /// Makes every present and later collective of this rank fail, and those of the communicators
  /// that this one was split from or into. Other ranks learn of it through NcclOptions::board, or
  /// by their time limit.
  void abort(std::string_view why) const noexcept {
    if (member_ == nullptr) return;  // moved from
    try {
      member_->world().fail(false, "aborted " + member_->handle().text() + ": " + std::string(why));
    } catch (...) { member_->world().fail(false, why); }
  }

  /// Makes the calling thread the one that issues collectives, after another one did.
  void drive_from_this_thread() const { member_->world().drive_from_this_thread(); }

  /// All collectives that f() issues, on this communicator and those of its world, become one
  /// operation of NCCL. If f throws, the communicators have failed.
  template <class F>
  void grouped(F&& f) const {
    member_->world().grouped(member_->handle(), f);
  }

 private:
  friend class NcclWindow;
  using NcclCollectives::NcclCollectives;

  template <class Make>
  static NcclCommunicator first(const detail::NcclHandle& handle, const NcclOptions& options,
                                int ordinal, const Make& make) {
    auto world = std::make_shared<detail::NcclWorld>(options, handle.rank, handle.size);
    auto buffer = std::make_shared<detail::NcclHostBuffer>(
        CudaDeviceOptions{.ordinal = ordinal, .time_limit = options.time_limit},
        std::max(options.host_buffer_bytes, 64 * handle.size), options.followed_in_graphs);
    world->pending().prepare(buffer->stream());
    return NcclCommunicator(std::make_shared<detail::NcclMember>(
        world, std::move(buffer), handle, [&](detail::NcclHandle& made) { make(*world, made); }));
  }

  /// make(&comm, &config) makes a communicator of this one by the call `api`.
  template <class Make>
  NcclCommunicator derived(const detail::Call& call, const char* api,
                           const std::shared_ptr<detail::NcclWorld>& world,
                           const Make& make) const {
    const detail::NcclWhere where{call, member_->handle()};
    const auto complete = [&](detail::NcclHandle& made) {
      ncclConfig_t config = world->options().config;
      // NCCL sets the new handle when the old one has left ncclInProgress, and no sooner.
      world->call(member_->handle(), api, where, [&] { return make(&made.comm, &config); });
      world->call(made, api, where, [&] { return detail::async_state(made.comm); });
      int rank = 0, size = 0;
      world->call(made, "ncclCommUserRank", where,
                  [&] { return ncclCommUserRank(made.comm, &rank); });
      world->call(made, "ncclCommCount", where, [&] { return ncclCommCount(made.comm, &size); });
      made.rank = static_cast<std::size_t>(rank);
      made.size = static_cast<std::size_t>(size);
    };
    return NcclCommunicator(std::make_shared<detail::NcclMember>(
        world, member_->shared_buffer(), detail::NcclHandle{nullptr, true, rank(), size()},
        complete));
  }
};

static_assert(Communicator<NcclCommunicator>);

}  // namespace zero
