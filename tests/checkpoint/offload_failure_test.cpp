// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The file of offloaded optimizer state cannot be made, read or written: an error on every rank
// that says what is left of the module.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <zero/checkpoint.hpp>

#include "../module/harness.hpp"

BOOST_AUTO_TEST_SUITE(offload_failure_test)

using harness::Setup;
using zero::OffloadOf;

/// The machine's files, of which one call of rank 1 on its scratch file returns something else.
class Failing : public zero::Files {
 public:
  enum class Call { create, read, write };
  Failing(Call call, int nth, std::int64_t result) : call_(call), left_(nth), result_(result) {}

  int create_scratch(const std::string& path, std::uint64_t bytes) override {
    {
      const std::lock_guard lock(mutex_);
      paths.insert(path);
    }
    const bool chosen = path.ends_with("rank-1");
    if (chosen && fails(Call::create)) return static_cast<int>(result_);
    const int file = disk_.create_scratch(path, bytes);
    if (chosen) file_ = file;
    return file;
  }
  std::int64_t read(int file, void* data, std::size_t bytes, std::uint64_t offset) override {
    if (file == file_ && fails(Call::read)) return result_;
    return disk_.read(file, data, result_ > 0 ? first(bytes) : bytes, offset);
  }
  std::int64_t write_at(int file, const void* data, std::size_t bytes,
                        std::uint64_t offset) override {
    if (file == file_ && fails(Call::write)) return result_;
    return disk_.write_at(file, data, result_ > 0 ? first(bytes) : bytes, offset);
  }
  int close(int file) override { return disk_.close(file); }

  std::set<std::string> paths{};  // of all scratch files

  int create(const std::string&) override { return -ENOSYS; }
  int open(const std::string&) override { return -ENOSYS; }
  std::int64_t size(int) override { return -ENOSYS; }
  std::int64_t write(int, const void*, std::size_t) override { return -ENOSYS; }
  int sync(int) override { return -ENOSYS; }
  int make_directory(const std::string&) override { return -ENOSYS; }
  int sync_directory(const std::string&) override { return -ENOSYS; }
  int rename(const std::string&, const std::string&) override { return -ENOSYS; }
  int exchange(const std::string&, const std::string&) override { return -ENOSYS; }
  int remove(const std::string&) override { return -ENOSYS; }
  int remove_directory(const std::string&) override { return -ENOSYS; }
  int list(const std::string&, std::vector<std::string>&) override { return -ENOSYS; }

 private:
  std::mutex mutex_;
  bool fails(Call call) { return call == call_ && left_-- == 0; }
  /// All calls do a part only, if the result is a number of bytes.
  std::size_t first(std::size_t bytes) const {
    return std::min(bytes, static_cast<std::size_t>(result_));
  }
  zero::DiskFiles disk_;
  Call call_;
  std::atomic<int> left_;
  std::int64_t result_;
  std::atomic<int> file_ = -1;
};
using Call = Failing::Call;

/// What happened on a rank: its errors, step by step, and the weights at the end.
struct Told {
  std::string construction{}, steps[4]{};
  std::vector<float> weights{};
};
harness::Model model() { return harness::model_of({"block", 4, harness::sizes({100, 7})}); }
std::vector<Told> train(zero::Files* files, const std::string& directory,
                        zero::StreamMode mode = zero::StreamMode::asynchronous,
                        std::chrono::milliseconds pause = {}) {
  std::vector<Told> told(2);
  harness::Plan plan;
  plan.steps = 1;
  plan.initial = [](const zero::TensorInfo&, std::size_t i) { return static_cast<float>(i); };
  plan.gradient = [](const harness::Place& at) { return static_cast<float>(at.element % 3) - 1; };
  harness::on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    Told& here = told[comm.rank()];
    zero::ModuleOptions options{.streams = mode, .time_limit = std::chrono::seconds(5)};
    options.offload = {.directory = directory, .files = files};
    using Stage = OffloadOf<zero::Zero2>;
    here.construction = harness::error_of([&] {
      auto module = harness::shard(harness::named<Stage>("offloading"), model(), zero::mesh(comm),
                                   zero::AdamW{.learning_rate = 0.5F}, options);
      module.initialize(plan.initial);
      for (std::string& error : here.steps) {
        harness::Outcome outcome;
        error = harness::error_of([&] {
          auto step = module.begin_step();
          harness::run_passes(module, step, zero::UserCode::on_caller, plan, 0, outcome);
          static_cast<void>(step.finish());
        });
        std::this_thread::sleep_for(pause);
      }
      here.weights = harness::weights_of(module);
    });
  });
  return told;
}
struct Folder {
  Folder() {
    path = (std::filesystem::temp_directory_path() / "zero-offload-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no directory: " + path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

BOOST_AUTO_TEST_CASE(a_directory_that_is_missing_full_or_in_use_is_an_error_on_all_ranks) {
  const Folder folder;
  const std::string stale = folder.path + "/zero-offload.rank-1";
  for (const Told& told : train(nullptr, "")) {
    BOOST_TEST(harness::says(told.construction, {"ContractError", "ModuleOptions::offload"}));
  }
  for (const Told& told : train(nullptr, folder.path + "/missing")) {
    BOOST_TEST(harness::says(told.construction, {"create", "/missing/", "No such file"}));
  }
  std::ofstream(stale) << "precious";
  const std::vector<Told> told = train(nullptr, folder.path);
  BOOST_TEST(harness::says(told[1].construction, {stale.c_str(), "is there already"}));
  BOOST_TEST(harness::says(told[0].construction, {"rank 1 could not make room"}));
  BOOST_TEST(std::filesystem::file_size(stale) == 8U);
  std::filesystem::remove(stale);
  Failing full(Call::create, 0, -ENOSPC);
  const std::vector<Told> other = train(&full, folder.path);
  BOOST_TEST(harness::says(other[1].construction, {"No space left on device"}));
  BOOST_TEST(harness::says(other[0].construction, {"rank 1 could not make room"}));
}

BOOST_AUTO_TEST_CASE(ranks_along_further_axes_have_files_of_their_own) {
  const Folder folder;
  Failing all(Call::create, 9, 0);  // does not fail
  Setup setup = Setup{}.on(2).with_axes({2});
  setup.options.offload = {.directory = folder.path, .files = &all};
  harness::on_threads(4, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    (void)harness::shard(harness::named<OffloadOf<zero::Zero2>>("offloading"), model(),
                         harness::mesh_of(setup, comm), zero::AdamW{}, setup.options);
  });
  BOOST_TEST(all.paths.size() == 4U);
}

BOOST_AUTO_TEST_CASE(short_reads_and_writes_are_continued) {
  const Folder folder;
  const std::vector<Told> expected = train(nullptr, folder.path);
  BOOST_TEST(expected[0].construction == "");
  Failing shortly(Call::create, 9, 512);
  const std::vector<Told> told = train(&shortly, folder.path);
  BOOST_TEST(told[1].construction == "");
  BOOST_TEST(harness::same_bits(told[1].weights, expected[1].weights));
}

BOOST_AUTO_TEST_CASE(a_step_whose_first_state_cannot_be_read_can_be_tried_again) {
  const Folder folder;
  // Inline, the first fetch fails before the ranks decide.
  Failing failing(Call::read, 4, -EIO);  // the first of the second step
  const std::vector<Told> told = train(&failing, folder.path, zero::StreamMode::inline_run);
  for (const std::size_t rank : {0U, 1U}) {
    BOOST_TEST(told[rank].steps[0] == "");
    BOOST_TEST(harness::says(
        told[rank].steps[1],
        {"finish", rank == 1 ? "rank-1' failed: Input/output error" : "on another rank",
         "as before the step, which can be tried again"}));
    BOOST_TEST(told[rank].steps[2] == "");
    BOOST_TEST(told[rank].steps[3] == "");
  }
  BOOST_TEST(harness::same_bits(told[0].weights, told[1].weights));
}

BOOST_AUTO_TEST_CASE(what_fails_after_the_decision_ends_the_next_step_on_all_ranks) {
  const Folder folder;
  for (const zero::StreamMode mode :
       {zero::StreamMode::inline_run, zero::StreamMode::asynchronous}) {
    for (const auto& [call, nth] :
         {std::pair(Call::read, 2), std::pair(Call::write, 0), std::pair(Call::write, 3)}) {
      Failing failing(call, nth, -EIO);
      const std::vector<Told> told =
          train(&failing, folder.path, mode, std::chrono::milliseconds(20));
      for (const std::size_t rank : {0U, 1U}) {
        BOOST_TEST(told[rank].steps[0] == "");
        BOOST_TEST(harness::says(
            told[rank].steps[1],
            {"finish", rank == 1 ? "rank-1' failed: Input/output error" : "on another rank",
             "torn"}));
        BOOST_TEST(harness::says(told[rank].steps[2], {"begin_step", "torn"}));
        BOOST_TEST(harness::says(told[rank].construction, {"torn"}));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_save_or_a_load_that_cannot_reach_the_state_of_one_rank_fails_on_all) {
  const Folder folder, saved;
  for (const Call call : {Call::read, Call::write}) {
    Failing failing(call, 4, -EIO);
    std::vector<std::vector<std::string>> errors(2);
    std::vector<std::vector<float>> states(2);
    harness::on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
      zero::ModuleOptions options{.streams = zero::StreamMode::inline_run};
      options.offload = {.directory = folder.path, .files = &failing};
      auto module = harness::shard(harness::named<OffloadOf<zero::Zero2>>("offloading"), model(),
                                   zero::mesh(comm), zero::AdamW{.learning_rate = 0.5F}, options);
      const harness::Plan plan;  // one step: four reads, four writes
      harness::train(module, zero::UserCode::on_caller, plan);
      const std::string path = saved.path + (call == Call::read ? "/read" : "/write");
      const auto note = [&](auto f) { errors[comm.rank()].push_back(harness::error_of(f)); };
      note([&] { zero::save(module, path); });
      note([&] { zero::save(module, path); });
      note([&] { zero::load(module, path); });
      note([&] { zero::load(module, path); });
      note([&] { harness::train(module, zero::UserCode::on_caller, plan, false); });
      states[comm.rank()] = harness::state_of(module, 0);
    });
    for (const std::size_t rank : {0U, 1U}) {
      for (std::size_t i = 0; i < errors[rank].size(); ++i) {
        const std::string& error = errors[rank][i];
        if (i != (call == Call::read ? 0U : 2U)) {
          BOOST_TEST(error == "");
        } else {
          BOOST_TEST(harness::says(error, {"rank-1' failed: Input/output error"}), error);
          const char* const before = call == Call::read ? "zero::save failed on rank 1" : "again";
          BOOST_TEST((rank == 1 || harness::says(error, {before})), error);
        }
      }
    }
    BOOST_TEST(harness::same_bits(states[0], states[1]));
    BOOST_TEST(!harness::all_are(states[0], 0));
  }
}

BOOST_AUTO_TEST_SUITE_END()
