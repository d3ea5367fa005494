// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// HostStore: where a module of a host keeps optimizer state that is offloaded. May include device/,
// checkpoint/ and module/.
#pragma once
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/device/host_stream.hpp>
#include <zero/device/memory.hpp>
#include <zero/module/options.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// A block of memory, or a file without a name, in which bytes are kept. Work that fails is noted
/// and makes all later work do nothing, so that ranks can agree about it at the end of a step.
class HostStore {
 public:
  HostStore() = default;
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;
  ~HostStore() {
    if (file_ >= 0) files_->close(file_);
  }

  /// Obtains room for so many bytes, all zero, on one rank of many, whose name no other one has;
  /// none where they stay here.
  ///
  /// Errors:  ContractError without a directory, DeviceError for what the file system says.
  void open(StateHome home, std::uint64_t bytes, const OffloadPlace& place,
            const std::string& rank) {
    if (home == StateHome::here) return;
    bytes_ = bytes;
    if (home == StateHome::host_memory) {
      block_.emplace(HostMemory(), static_cast<std::size_t>(bytes));
      std::memset(block_->data(), 0, block_->bytes());
      return;
    }
    if (place.directory.empty()) {
      throw ContractError(
          "zero::shard: the stage keeps optimizer state in a file, but "
          "ModuleOptions::offload.directory is empty; name a directory");
    }
    files_ = place.files == nullptr ? &disk_files() : place.files;
    path_ = place.directory + "/zero-offload.rank-" + rank;
    file_ = retry([&] { return files_->create_scratch(path_, bytes); });
    if (file_ == -EEXIST) {
      throw DeviceError("zero::shard: '" + path_ +
                        "' is there already and is not touched; remove it if no other run uses "
                        "it, or name another directory in ModuleOptions::offload");
    }
    if (file_ < 0) fail("create", file_);
  }
  std::uint64_t bytes() const { return bytes_; }
  /// Where the bytes are, if they are in memory.
  std::byte* data() const { return block_ ? block_->data() : nullptr; }
  std::span<const std::byte> data_span() const {
    return {data(), block_ ? block_->bytes() : std::size_t{0}};
  }

  /// Enqueues a copy from or to the store.
  void fetch(HostStream& stream, std::byte* to, std::uint64_t at, std::size_t bytes) {
    stream.enqueue("fetch_state",
                   [this, to, at, bytes] { guarded(false, [&] { this->read(to, at, bytes); }); });
  }
  void store(HostStream& stream, const std::byte* from, std::uint64_t at, std::size_t bytes) {
    stream.enqueue("store_state", [this, from, at, bytes] {
      guarded(true, [&] { this->write(from, at, bytes); });
    });
  }

  // Now; these throw what fails.
  void read(std::byte* to, std::uint64_t at, std::size_t bytes) {
    if (data() != nullptr) {
      std::memcpy(to, data() + at, bytes);
    } else {
      in_parts("read", bytes, [&](std::size_t begin, std::size_t count) {
        return files_->read(file_, to + begin, count, at + begin);
      });
    }
    fetched_ += bytes;
  }
  void write(const std::byte* from, std::uint64_t at, std::size_t bytes) {
    if (data() != nullptr) {
      std::memcpy(data() + at, from, bytes);
    } else {
      in_parts("write", bytes, [&](std::size_t begin, std::size_t count) {
        return files_->write_at(file_, from + begin, count, at + begin);
      });
    }
    stored_ += bytes;
  }
  std::uint64_t fetched() const { return fetched_; }
  std::uint64_t stored() const { return stored_; }

  // What failed first since the last forget(); torn: and what is kept is not what it should be.
  bool failed() const { return failed_; }
  bool torn() const { return torn_; }
  void tear() { torn_ = true; }
  void note(const char* what, bool torn) noexcept {
    const std::lock_guard lock(mutex_);
    if (!failed_) error_ = what;
    torn_ = torn_ || torn;
    failed_ = true;
  }
  std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  /// Forgets what failed, unless it has torn the model.
  void forget() {
    if (!torn_) failed_ = false;
  }

 private:
  /// A disk gets no more at once: a system may take less than 2^31 bytes.
  static constexpr std::size_t most = std::size_t{1} << 30;

  template <class F>
  void guarded(bool torn, F f) noexcept {
    if (failed_) return;
    try {
      f();
    } catch (const std::exception& error) { note(error.what(), torn); }
  }
  template <class F>
  static int retry(F f) {
    for (;;) {
      const int result = f();
      if (result != -EINTR) return result;
    }
  }
  template <class F>
  void in_parts(const char* operation, std::size_t bytes, F f) {
    for (std::size_t begin = 0; begin < bytes;) {
      const std::int64_t done = f(begin, bytes - begin < most ? bytes - begin : most);
      if (done == -EINTR) continue;
      if (done <= 0) fail(operation, done == 0 ? -EIO : done);
      begin += static_cast<std::size_t>(done);
    }
  }
  [[noreturn]] void fail(const char* operation, std::int64_t error) const {
    const int number = static_cast<int>(-error);
    throw DeviceError("zero: " + std::string(operation) + " of offloaded optimizer state in '" +
                      path_ + "' failed: " + std::generic_category().message(number) + " (error " +
                      std::to_string(number) + ")");
  }

  std::uint64_t bytes_ = 0;
  std::optional<Block<HostMemory>> block_;
  Files* files_ = nullptr;
  std::string path_;
  int file_ = -1;
  std::atomic<std::uint64_t> fetched_ = 0, stored_ = 0;
  std::atomic<bool> failed_ = false, torn_ = false;
  mutable std::mutex mutex_;
  std::string error_;
};

}  // namespace zero::detail
