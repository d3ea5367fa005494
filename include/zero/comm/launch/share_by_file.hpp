// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The blob of rank 0 by way of a file that all ranks see. Includes base/, comm/launch/share.hpp and
// POSIX.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <zero/base/error.hpp>
#include <zero/comm/launch/share.hpp>

namespace zero {

/// Where ranks meet that see the same file.
struct FileRendezvous {
  std::string path = {};  ///< in a folder that is there, on a file system that all ranks see
  /// Tells this run from all others, also from an earlier try: a job's number and how often it was
  /// started. At most 128 bytes.
  std::string run = {};
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);  // for rank 0 to write it
  /// A file is stale if it was written longer ago, or as far in the future, by this rank's clock.
  std::chrono::seconds most_age = std::chrono::minutes(10);
};

namespace detail {

/// The file, byte for byte; it is written and read on machines of one kind.
struct LaunchFile {
  static constexpr std::array<char, 8> right_magic = {'z', 'e', 'r', 'o', '-', 'i', 'd', '1'};

  std::array<char, 8> magic = right_magic;
  std::int64_t written_ms = 0;  // since 1970
  std::uint64_t run_bytes = 0;
  std::array<char, 128> run{};
  LaunchBlob blob{};
  std::uint64_t sum = 0;  // of all bytes before

  std::uint64_t right_sum() const {
    std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
    std::array<unsigned char, sizeof(LaunchFile)> bytes{};
    std::memcpy(bytes.data(), this, sizeof(LaunchFile));
    for (std::size_t i = 0; i < offsetof(LaunchFile, sum); ++i) {
      hash = (hash ^ bytes[i]) * 0x100000001B3;
    }
    return hash;
  }
  std::string text_of_run() const {
    return {run.data(), std::min<std::size_t>(run_bytes, run.size())};
  }
  static std::int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  }
};

class FileExchange {
 public:
  explicit FileExchange(const FileRendezvous& where) : where_(where) {
    if (where.path.empty() || where.run.empty() || where.run.size() > LaunchFile{}.run.size() ||
        where.time_limit.count() <= 0 || where.most_age.count() <= 0) {
      throw ContractError("share_by_file: path is '" + where.path + "', run '" + where.run +
                          "', time_limit " + std::to_string(where.time_limit.count()) +
                          " ms, most_age " + std::to_string(where.most_age.count()) +
                          " s. Neither name may be empty, run has at most 128 bytes, and both "
                          "times are positive.");
    }
  }

  void write(const LaunchBlob& blob) const {
    LaunchFile old;
    if (read(old) && old.text_of_run() == where_.run) {
      fail("it holds the id of a run that is called '" + where_.run +
           "' already, and ranks may have read it. Give each run a name of its own");
    }
    LaunchFile file;
    file.written_ms = LaunchFile::now_ms();
    file.run_bytes = where_.run.size();
    std::copy(where_.run.begin(), where_.run.end(), file.run.begin());
    file.blob = blob;
    file.sum = file.right_sum();
    const std::string beside = where_.path + "." + std::to_string(::getpid()) + ".part";
    if (!write_all(beside, file) || std::rename(beside.c_str(), where_.path.c_str()) != 0) {
      const std::string why = std::strerror(errno);
      ::unlink(beside.c_str());
      fail("it cannot be written: " + why + ". Choose a folder that all ranks can write to");
    }
  }

  LaunchBlob wait(std::size_t rank) const {
    const auto end = std::chrono::steady_clock::now() + where_.time_limit;
    for (;;) {
      LaunchFile file;
      const std::string why =
          read(file) ? why_refused(file) : "there is no such file, or it is no id";
      if (why.empty()) return file.blob;
      if (std::chrono::steady_clock::now() > end) {
        throw TimeoutError("share_by_file: rank " + std::to_string(rank) + " found no id of run '" +
                           where_.run + "' in " + where_.path + " within " +
                           std::to_string(where_.time_limit.count()) + " ms: " + why +
                           ". See that rank 0 runs, and that it sees the same file.");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CommunicatorError("share_by_file: " + where_.path + ": " + what + ".");
  }

  /// Whether there is a whole file, of whatever run.
  bool read(LaunchFile& file) const {
    const int from = ::open(where_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from < 0) return false;
    std::array<char, sizeof(LaunchFile) + 1> bytes{};
    std::size_t count = 0;
    for (ssize_t got = 1; got > 0 && count < bytes.size();) {
      got = ::read(from, bytes.data() + count, bytes.size() - count);
      if (got > 0) count += static_cast<std::size_t>(got);
    }
    ::close(from);
    if (count != sizeof(LaunchFile)) return false;
    std::memcpy(&file, bytes.data(), sizeof(LaunchFile));
    return file.magic == LaunchFile::right_magic && file.sum == file.right_sum();
  }

  std::string why_refused(const LaunchFile& file) const {
    if (file.text_of_run() != where_.run) {
      return "the file is of another run, '" + file.text_of_run() + "'";
    }
    const std::int64_t age_ms = LaunchFile::now_ms() - file.written_ms;
    const std::int64_t most_ms = std::chrono::milliseconds(where_.most_age).count();
    if (age_ms <= most_ms && age_ms >= -most_ms) return "";
    return "the file is stale: it was written " + std::to_string(age_ms / 1000) +
           " s ago, at most " + std::to_string(where_.most_age.count()) + " are allowed";
  }

  static bool write_all(const std::string& path, const LaunchFile& file) {
    ::unlink(path.c_str());  // of a process of the same number that was ended in between
    const int to = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0) return false;
    const bool written = ::write(to, &file, sizeof(LaunchFile)) == ssize_t{sizeof(LaunchFile)};
    const bool kept = written && ::fsync(to) == 0;
    return (::close(to) == 0) && kept;
  }

  const FileRendezvous& where_;
};

}  // namespace detail

/// The blob of rank 0, on all ranks, by way of a file: rank 0 writes it, whole or not at all; the
/// others wait for it. What an earlier run left is refused, by its name and its age; rank 0 takes
/// its place. The file stays: rank 0 may remove it when all ranks have joined.
///
/// Errors:  ContractError for a rendezvous without names or times; CommunicatorError on rank 0 if
///          the file cannot be written or holds the id of a run of the same name; TimeoutError,
///          which says what is there instead, on the others.
inline LaunchBlob share_by_file(const FileRendezvous& where, std::size_t rank,
                                const LaunchBlob& mine) {
  const detail::FileExchange exchange(where);
  if (rank != 0) return exchange.wait(rank);
  exchange.write(mine);
  return mine;
}

}  // namespace zero
