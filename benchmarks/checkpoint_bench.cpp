// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Are checkpoints written and read as fast as the disk allows, how long does a training stand still
// for one that is written beside it, and how much memory does it take? of_direct compares with dd
// from /dev/zero, of_copied with dd from a file in memory.
// The directory is ZERO_BENCH_DIRECTORY, else that for temporary files.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>
#include <zero/checkpoint.hpp>
#include <zero/comm/self_communicator.hpp>

namespace {

namespace fs = std::filesystem;

fs::path directory() {
  const char* const given = std::getenv("ZERO_BENCH_DIRECTORY");
  return (given != nullptr ? fs::path(given) : fs::temp_directory_path()) / "zero-checkpoint-bench";
}
/// Least time in seconds; a disk is waited for, so that processor time says nothing.
class Clock {
 public:
  template <class F>
  double run(F f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const double time =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best_ = std::min(best_, time);
    return time;
  }
  double best() const { return best_; }

 private:
  double best_ = std::numeric_limits<double>::infinity();
};
/// One tensor with two states, `mebibytes` in all.
class Shard {
 public:
  explicit Shard(std::int64_t mebibytes) {
    const auto elements = static_cast<std::size_t>(mebibytes) * (1 << 20) / 12;
    state.tensors.push_back({"w", {elements}});
    for (const char* name : {"weight", "state.0", "state.1"}) {
      numbers_.emplace_back(elements, 1.5F);
      state.tensors[0].parts.push_back({name});
      state.tensors[0].parts.back().ranges.push_back({0, elements, numbers_.back().data()});
    }
    bytes = 12 * elements;
  }
  zero::HeldState state;
  std::size_t bytes = 0;

 private:
  std::vector<std::vector<float>> numbers_;
};
/// What `dd oflag=direct bs=4M conv=fsync` does, and `dd iflag=direct`. With a source it is a file
/// in memory that dd copies; without one, a block that stays in the cache.
class DirectFile {
 public:
  explicit DirectFile(std::size_t bytes)
      : blocks_((bytes + block - 1) / block), data_(new (std::align_val_t{4096}) std::byte[block]) {
    std::memset(data_.get(), 7, block);
  }
  bool write(const std::byte* source = nullptr, std::size_t bytes = 0) {
    fs::remove(path_);
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0666);
    bool good = file >= 0;
    for (std::size_t i = 0; good && i < blocks_; ++i) {
      const std::size_t at = i * block;
      if (at < bytes) std::memcpy(data_.get(), source + at, std::min(block, bytes - at));
      good = ::write(file, data_.get(), block) == static_cast<ssize_t>(block);
    }
    good = good && ::fsync(file) == 0;
    ::close(file);
    return good;
  }
  bool read() {
    const int file = ::open(path_.c_str(), O_RDONLY | O_DIRECT);
    bool good = file >= 0;
    for (std::size_t i = 0; good && i < blocks_; ++i) {
      good = ::read(file, data_.get(), block) == static_cast<ssize_t>(block);
    }
    ::close(file);
    return good;
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { operator delete[](data, std::align_val_t{4096}); }
  };
  static constexpr std::size_t block = std::size_t{1} << 22;
  fs::path path_ = directory() / "direct";
  std::size_t blocks_;
  std::unique_ptr<std::byte[], Free> data_;
};
/// Bytes that the process held at most since the last call.
std::size_t peak_bytes() {
  std::size_t kibibytes = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> kibibytes;
  }
  std::ofstream("/proc/self/clear_refs") << 5;
  return kibibytes * 1024;
}
void forget_cached(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}
void report(benchmark::State& state, std::size_t bytes, const Clock& ours, const Clock& direct) {
  state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / ours.best();
  state.counters["direct_GB/s"] = static_cast<double>(bytes) * 1e-9 / direct.best();
  state.counters["of_direct"] = direct.best() / ours.best();
}

void save(benchmark::State& state) {
  const Shard shard(state.range(0));
  const zero::SelfCommunicator comm;
  fs::create_directories(directory());
  DirectFile direct(shard.bytes);
  Clock ours, theirs, copied;
  const std::vector<std::byte> source(shard.bytes, std::byte{5});
  for (auto _ : state) {
    bool good = true;
    theirs.run([&] { good = direct.write(); });
    if (!good) return state.SkipWithError("no direct input and output here");
    copied.run([&] { direct.write(source.data(), source.size()); });
    const auto save = [&] { zero::save(shard.state, comm, (directory() / "runs").string()); };
    state.SetIterationTime(ours.run(save));
  }
  report(state, shard.bytes, ours, theirs);
  state.counters["of_copied"] = copied.best() / ours.best();
  fs::remove_all(directory());
}
void load(benchmark::State& state) {
  Shard shard(state.range(0));
  const zero::SelfCommunicator comm;
  fs::create_directories(directory());
  const std::string path = zero::save(shard.state, comm, (directory() / "runs").string());
  DirectFile direct(shard.bytes);
  if (!direct.write()) return state.SkipWithError("no direct input and output here");
  Clock ours, theirs;
  for (auto _ : state) {
    theirs.run([&] { direct.read(); });
    forget_cached(path);
    state.SetIterationTime(ours.run([&] { zero::load(shard.state, comm, path); }));
  }
  report(state, shard.bytes, ours, theirs);
  fs::remove_all(directory());
}
/// of_copy is the time for which a training stands still, over that of a copy of the shard;
/// peak_shards is the memory beside the shard, over its bytes.
void save_beside(benchmark::State& state) {
  const Shard shard(state.range(0));
  std::vector<std::byte> copy(shard.bytes);
  const auto memcpy_all = [&] {
    std::byte* to = copy.data();
    for (const zero::HeldPart& part : shard.state.tensors[0].parts) {
      const std::size_t bytes = part.ranges[0].count * sizeof(float);
      std::memcpy(to, part.ranges[0].data, bytes);
      to += bytes;
    }
    benchmark::ClobberMemory();
  };
  std::size_t before = 0;
  Clock ours, copies;
  {
    peak_bytes();
    before = peak_bytes();
    zero::AsyncSaver saver{zero::SelfCommunicator()};
    const std::string path = (directory() / "runs").string();
    saver.save(shard.state, path);
    saver.wait();
    for (auto _ : state) {
      state.SetIterationTime(ours.run([&] { saver.save(shard.state, path); }));
      saver.wait();
      copies.run(memcpy_all);
    }
    const std::size_t peak = peak_bytes();
    state.counters["peak_shards"] =
        static_cast<double>(peak - before) / static_cast<double>(shard.bytes);
  }
  state.counters["of_copy"] = ours.best() / copies.best();
  fs::remove_all(directory());
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("MiB")->Arg(12)->Arg(768)->UseManualTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(save)->Apply(sizes);
BENCHMARK(load)->Apply(sizes);
BENCHMARK(save_beside)->Apply(sizes);

}  // namespace
