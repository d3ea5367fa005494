// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Files: the operations of a file system that checkpoints need, so that tests and users can put
// something else in their place; and the real ones. POSIX.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace zero {

/// A file system. Each operation is one call of the system and returns what that returns, or the
/// negative error number; callers handle short writes and EINTR. One object may be used by many
/// threads.
class Files {
 public:
  /// What disks take without a copy: data at multiples of it, in memory and in the file.
  static constexpr std::size_t block_bytes = 4096;

  virtual ~Files() = default;

  /// A new file to write from its beginning; -EEXIST if there is something of that name.
  virtual int create(const std::string& path) = 0;
  /// A file to read: not a link, directory, device or pipe.
  virtual int open(const std::string& path) = 0;
  /// Bytes of an open file.
  virtual std::int64_t size(int file) = 0;
  /// Appends; how many bytes were written.
  virtual std::int64_t write(int file, const void* data, std::size_t bytes) = 0;
  /// How many bytes were read from `offset` on.
  virtual std::int64_t read(int file, void* data, std::size_t bytes, std::uint64_t offset) = 0;
  /// Makes what was written durable.
  virtual int sync(int file) = 0;
  /// Ends the use of a file.
  virtual int close(int file) = 0;

  // For optimizer state that is offloaded; a file system that is for checkpoints alone has neither.
  /// A new file of so many bytes, all zero, to read and write anywhere. Its name is free again when
  /// this returns, so that the file is gone once it is closed; -EEXIST if there is something of
  /// that name before.
  virtual int create_scratch(const std::string& path, std::uint64_t bytes) {
    static_cast<void>(path), static_cast<void>(bytes);
    return -ENOSYS;
  }
  /// As above.
  virtual std::int64_t write_at(int file, const void* data, std::size_t bytes,
                                std::uint64_t offset) {
    static_cast<void>(file), static_cast<void>(data), static_cast<void>(bytes);
    static_cast<void>(offset);
    return -ENOSYS;
  }

  /// Makes it where it is not there.
  virtual int make_directory(const std::string& path) = 0;
  /// Makes the entries of a directory durable: what was created, renamed and removed in it.
  virtual int sync_directory(const std::string& path) = 0;
  /// Replaces what `to` names, unless that is a directory with entries.
  virtual int rename(const std::string& from, const std::string& to) = 0;
  /// Each gets the name of the other, at one instant.
  virtual int exchange(const std::string& a, const std::string& b) = 0;
  /// Removes a file.
  virtual int remove(const std::string& file) = 0;
  /// Removes an empty directory.
  virtual int remove_directory(const std::string& path) = 0;
  /// Appends the names in a directory, in any order, without . and ..
  virtual int list(const std::string& path, std::vector<std::string>& names) = 0;
};

/// The file system of the machine.
class DiskFiles final : public Files {
 public:
  int create(const std::string& path) override {
    return checked(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  }
  int open(const std::string& path) override {
    // A pipe would wait for its other end, if not for O_NONBLOCK.
    const int file =
        checked(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file < 0) return file;
    struct stat status {};
    const int error = ::fstat(file, &status) != 0 ? -errno
                      : S_ISREG(status.st_mode)   ? 0
                      : S_ISDIR(status.st_mode)   ? -EISDIR
                                                  : -EINVAL;
    if (error == 0) return file;
    ::close(file);
    return error;
  }
  /// As above.
  std::int64_t size(int file) override {
    struct stat status {};
    return ::fstat(file, &status) != 0 ? -errno : status.st_size;
  }
  std::int64_t write(int file, const void* data, std::size_t bytes) override {
    // Blocks go past the page cache, which would cost a copy and keep what nobody reads soon.
    const bool is_direct =
        bytes % block_bytes == 0 && reinterpret_cast<std::uintptr_t>(data) % block_bytes == 0;
    set_direct(file, is_direct);
    const std::int64_t result = checked(::write(file, data, bytes));
    if (result != -EINVAL || !is_direct) return result;
    set_direct(file, false);  // the file system does not do that, or not here
    return checked(::write(file, data, bytes));
  }
  /// As above.
  std::int64_t read(int file, void* data, std::size_t bytes, std::uint64_t offset) override {
    // Has the disk go on with what comes next while this is looked at.
    if (bytes >= std::size_t{1} << 20) {
      ::posix_fadvise(file, static_cast<off_t>(offset), static_cast<off_t>(2 * bytes),
                      POSIX_FADV_WILLNEED);
    }
    return indirectly_if_need_be(
        file, [&] { return checked(::pread(file, data, bytes, static_cast<off_t>(offset))); });
  }
  int create_scratch(const std::string& path, std::uint64_t bytes) override {
    const int file =
        checked(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file < 0) return file;
    set_direct(file, true);
    // Room that is taken now is not missing later.
    int error = bytes == 0 ? 0 : checked(::fallocate(file, 0, 0, static_cast<off_t>(bytes)));
    if (error == -EOPNOTSUPP) error = checked(::ftruncate(file, static_cast<off_t>(bytes)));
    const int removed = checked(::unlink(path.c_str()));
    if (error == 0) error = removed;
    if (error == 0) return file;
    ::close(file);
    return error;
  }
  /// Writes from an offset, past the page cache if it can.
  std::int64_t write_at(int file, const void* data, std::size_t bytes,
                        std::uint64_t offset) override {
    return indirectly_if_need_be(
        file, [&] { return checked(::pwrite(file, data, bytes, static_cast<off_t>(offset))); });
  }
  /// As above.
  int sync(int file) override { return checked(::fsync(file)); }
  /// As above.
  int close(int file) override { return checked(::close(file)); }

  /// As above.
  int make_directory(const std::string& path) override {
    return checked(::mkdir(path.c_str(), 0777));
  }
  int sync_directory(const std::string& path) override {
    const int directory = checked(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory < 0) return directory;
    const int result = checked(::fsync(directory));
    ::close(directory);
    return result;
  }
  int rename(const std::string& from, const std::string& to) override {
    return checked(::rename(from.c_str(), to.c_str()));
  }
  int exchange(const std::string& a, const std::string& b) override {
    return checked(::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE));
  }
  /// As above.
  int remove(const std::string& file) override { return checked(::unlink(file.c_str())); }
  /// As above.
  int remove_directory(const std::string& path) override { return checked(::rmdir(path.c_str())); }
  int list(const std::string& path, std::vector<std::string>& names) override {
    DIR* const directory = ::opendir(path.c_str());
    if (directory == nullptr) return -errno;
    int error = 0;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(directory);
      if (entry == nullptr) {
        error = -errno;
        break;
      }
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    ::closedir(directory);
    return error;
  }

 private:
  /// Again through the page cache where a file system does not read or write past it.
  template <class F>
  static std::int64_t indirectly_if_need_be(int file, F f) {
    const std::int64_t result = f();
    if (result != -EINVAL) return result;
    set_direct(file, false);
    return f();
  }
  static void set_direct(int file, bool is_direct) {
#ifdef O_DIRECT
    const int flags = ::fcntl(file, F_GETFL);
    const int wanted = is_direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    if (flags >= 0 && flags != wanted) ::fcntl(file, F_SETFL, wanted);
#endif
  }
  template <class Result>
  static Result checked(Result result) {
    return result < 0 ? static_cast<Result>(-errno) : result;
  }
};

/// The DiskFiles that are used where a caller gives none.
inline Files& disk_files() {
  static DiskFiles files;
  return files;
}

}  // namespace zero
