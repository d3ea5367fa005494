// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Reads parts of a file one after the other while those before are used. May include base/.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>
#include <zero/checkpoint/detail/file_io.hpp>

namespace zero::detail {

/// A part of a file.
struct FilePart {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

/// Reads parts in a thread beside, into few buffers that it keeps for the next file.
class ReadAhead {
 public:
  /// Calls use(i, data of part i) for each part, in order, in the calling thread.
  ///
  /// Errors:  those of reading, where their part would be used; those of use.
  template <class Use>
  void run(InFile& in, std::span<const FilePart> parts, Use use) {
    if (parts.size() < 2) {  // a thread would only cost time
      for (std::size_t i = 0; i < parts.size(); ++i) use(i, read(in, parts[i], 0));
      return;
    }
    filled_ = used_ = 0;
    error_ = nullptr;
    stops_ = false;
    const Reader reader(*this, in, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return filled_ > i || error_; });
        if (filled_ <= i) std::rethrow_exception(error_);
      }
      use(i, buffers_[i % count].data());
      const std::lock_guard lock(mutex_);
      ++used_;
      changed_.notify_all();
    }
  }

 private:
  static constexpr std::size_t count = 3;

  class Reader {
   public:
    Reader(ReadAhead& all, InFile& in, std::span<const FilePart> parts)
        : all_(all), thread_([&all, &in, parts] { all.read_all(in, parts); }) {}
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
      {
        const std::lock_guard lock(all_.mutex_);
        all_.stops_ = true;
        all_.changed_.notify_all();
      }
      thread_.join();
    }

   private:
    ReadAhead& all_;
    std::thread thread_;
  };

  const std::byte* read(InFile& in, const FilePart& part, std::size_t buffer) {
    std::vector<std::byte>& to = buffers_[buffer];
    to.resize(std::max(to.size(), part.bytes));
    in.read(to.data(), part.bytes, part.offset);
    return to.data();
  }
  void read_all(InFile& in, std::span<const FilePart> parts) noexcept {
    try {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return stops_ || i < used_ + count; });
          if (stops_) return;
        }
        read(in, parts[i], i % count);
        const std::lock_guard lock(mutex_);
        ++filled_;
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  std::vector<std::byte> buffers_[count];
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t filled_ = 0, used_ = 0;  // parts
  std::exception_ptr error_;           // of the reader
  bool stops_ = false;
};

}  // namespace zero::detail
