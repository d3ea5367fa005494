// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Memory that NCCL moves without copies, and its registration. Includes comm/nccl/communicator.hpp.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/comm/nccl/communicator.hpp>
#include <zero/device/cuda/memory.hpp>

namespace zero {

/// Memory of a device by ncclMemAlloc, which NvlinkSHARP, windows and registration ask for.
class NcclMemory {
 public:
  /// Of the device that is current in the thread that allocates.
  NcclMemory() = default;
  explicit NcclMemory(int ordinal) : ordinal_(ordinal) {}

  /// Memory of ncclMemAlloc, on the current device.
  void* allocate(std::size_t bytes, std::size_t alignment = memory_alignment) {
    detail::check_alignment("NcclMemory", alignment);
    const detail::CurrentDevice device(ordinal_ < 0 ? detail::current_device() : ordinal_);
    void* pointer = nullptr;
    const ncclResult_t code = ncclMemAlloc(&pointer, std::max<std::size_t>(bytes, 1));
    if (code != ncclSuccess) {
      throw DeviceError(detail::text_of_allocation("NcclMemory::allocate: ncclMemAlloc", bytes) +
                        ": " + detail::text_of(code, "ncclMemAlloc", nullptr));
    }
    return pointer;
  }

  /// Gives it back.
  void deallocate(void* pointer, std::size_t) noexcept { ncclMemFree(pointer); }

 private:
  int ordinal_ = -1;
};

static_assert(Memory<NcclMemory>);

/// A block of memory of all ranks that one communicator knows as a window, so that collectives on
/// it need no copies.
class NcclWindow {
 public:
  /// A collective: all ranks pass as many bytes of NcclMemory, at equal offsets of what was
  /// allocated, at a multiple of 4096 bytes. Where NCCL is older than 2.27 or the device cannot,
  /// registered() is false, and collectives work as before.
  NcclWindow([[maybe_unused]] const NcclCommunicator& comm, void* base,
             [[maybe_unused]] std::size_t bytes)
      : member_(comm.member_) {
#if NCCL_VERSION_CODE >= 22700
    constexpr std::size_t alignment = 4096;
    if (base == nullptr || reinterpret_cast<std::uintptr_t>(base) % alignment != 0) {
      throw ContractError("NcclWindow: the block must begin at a multiple of " +
                          std::to_string(alignment) + " bytes. Pass what NcclMemory allocated.");
    }
    detail::NcclHandle& handle = member_->handle();
    member_->world().call(handle, "ncclCommWindowRegister", handle, [&] {
      return ncclCommWindowRegister(handle.comm, base, bytes, &window_, NCCL_WIN_COLL_SYMMETRIC);
    });
#endif
  }
  /// Takes over the registration.
  NcclWindow(NcclWindow&& other) noexcept
      : member_(std::move(other.member_)), window_(std::exchange(other.window_, nullptr)) {}
  NcclWindow& operator=(NcclWindow&&) = delete;
  ~NcclWindow() {
#if NCCL_VERSION_CODE >= 22700
    if (window_ == nullptr) return;
    try {
      detail::NcclHandle& handle = member_->handle();
      member_->world().call(handle, "ncclCommWindowDeregister", handle, [&] {
        return ncclCommWindowDeregister(handle.comm, std::exchange(window_, nullptr));
      });
    } catch (...) {}  // the communicator has failed, and its windows ended with it
#endif
  }

  /// Whether NCCL could register the block.
  bool registered() const { return window_ != nullptr; }

 private:
  std::shared_ptr<detail::NcclMember> member_;
#if NCCL_VERSION_CODE >= 22700
  ncclWindow_t window_ = nullptr;
#else
  void* window_ = nullptr;
#endif
};

}  // namespace zero
