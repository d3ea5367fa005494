// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Each call of CUDA and NCCL is made to fail in turn. On the emulator only.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>
#include <zero/cuda.hpp>

#include "../emulator/emulator.hpp"
#include "../share.hpp"
#include "place.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(faults_test)

using namespace std::chrono_literals;
using cuda_tests::contains;
using cuda_tests::OnDevice;
using cuda_tests::Outcome;
using zero::NcclCommunicator;
using Clock = std::chrono::steady_clock;

constexpr auto limit = 150ms;

/// Everything that ranks do, from the first communicator to the last destructor.
void live(NcclCommunicator& comm) {
  constexpr std::size_t count = 16, bytes = 4096;
  const auto part = comm.split(0, static_cast<int>(comm.rank()));
  zero::detail::Block<zero::NcclMemory> block(zero::NcclMemory(), bytes);
  const zero::NcclWindow window(comm, block.data(), bytes);
  zero::CudaDevice device({.time_limit = limit});
  zero::CudaStream& compute = device.make_stream("compute");
  zero::CudaStream& gather = device.make_stream("gather");
  zero::CudaEvent written, gathered;
  auto* data = reinterpret_cast<float*>(block.data());
  const float* mine = data + comm.rank() * count;
  const auto step = [&] {
    compute.record(written);
    gather.wait(written);
    comm.all_gather(gather, mine, data, count, {.unit = "block.3", .position = 4});
    comm.grouped([&] {
      part.reduce_scatter(gather, data, data + comm.rank() * count, count, {}, {},
                          zero::Reduction::average);
      comm.all_reduce(gather, data, count);
    });
    part.broadcast(gather, data, count, 0);
    gather.record(gathered);
    compute.wait(gathered);
  };
  zero::detail::check_cuda(cudaMemsetAsync(data, 0, bytes, compute.native()), "cudaMemsetAsync");
  step();
  gathered.synchronize();
  device.synchronize();
  for (zero::CudaEvent* event : {&written, &gathered}) event->forget();
  zero::CudaCapture capture(compute, {&gather});
  step();
  zero::CudaGraph graph = capture.end();
  graph.launch(compute);
  compute.synchronize();
  float host = 1;
  part.all_reduce(&host, 1);
  comm.barrier();
}

/// Whether all that ranks threw is typed, they ended in time, and nothing was left behind.
void check(const std::vector<Outcome>& all, Clock::time_point begin, const std::string& what) {
  BOOST_TEST((Clock::now() - begin < 10s), what);
  for (const Outcome& outcome : all) BOOST_TEST(outcome.typed, what << ": " << outcome.error);
  BOOST_TEST(emulator::leaks() == "", what);
  for (const std::string& report : emulator::take_reports()) BOOST_TEST(report == "", what);
  emulator::reset();
}

std::vector<Outcome> run(bool with_board) {
  const zero::NcclBoard board(2);
  zero::NcclOptions options = {.time_limit = limit, .host_buffer_bytes = 256, .followed = 3};
  if (!with_board) return cuda_tests::outcomes(2, options, live);
  options.board = &board;
  return cuda_tests::outcomes(2, options, [](NcclCommunicator& comm) {
    try {
      live(comm);
    } catch (const std::exception& error) {
      comm.abort(error.what());
      throw;
    }
  });
}

void fail_each(bool with_board, std::uint64_t stride) {
  emulator::reset();
  const auto begin = Clock::now();
  const std::vector<Outcome> good = run(with_board);
  const std::uint64_t calls = emulator::calls(1);
  for (const Outcome& outcome : good) BOOST_TEST(outcome.error == "");
  check(good, begin, "no fault");
  std::uint64_t failed = 0;
  for (std::uint64_t nth = 1; nth <= calls; nth += stride) {
    emulator::fail_call({.call = nth, .device = 1});
    const auto start = Clock::now();
    const std::vector<Outcome> all = run(with_board);
    // No error is a fault in a destructor, or beyond the last call, as the times to ask differ.
    failed += all[1].error.empty() ? 0 : 1;
    BOOST_TEST((all[0].error.empty() || all[0].communicator_error), all[0].error);
    check(all, start, "call " + std::to_string(nth) + " of " + std::to_string(calls));
  }
  BOOST_TEST(failed >= 100 / stride);
}

BOOST_AUTO_TEST_CASE(each_call_that_fails_is_a_typed_error_on_all_ranks) { fail_each(true, share); }

BOOST_AUTO_TEST_CASE(the_same_where_ranks_learn_of_it_by_time_only) {
  fail_each(false, 10 * share);
}

BOOST_AUTO_TEST_CASE(work_that_fails_on_a_device_is_an_error_of_cuda) {
  for (std::uint64_t nth = 1; nth < 15; nth += 4) {
    emulator::reset();
    emulator::fail_work(1, nth);
    const auto begin = Clock::now();
    const std::vector<Outcome> all = run(false);
    BOOST_TEST((all[1].cuda_error || all[1].communicator_error), all[1].error);
    BOOST_TEST(all[0].timeout, all[0].error);
    check(all, begin, "work " + std::to_string(nth));
  }
}

BOOST_AUTO_TEST_CASE(an_asynchronous_error_of_nccl_is_found_while_the_host_waits) {
  emulator::reset();
  const auto begin = Clock::now();
  const auto all = cuda_tests::outcomes(2, {}, [](NcclCommunicator& comm) {
    const auto part = comm.split(0, 0);
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("a");
    OnDevice<float> data(1, 1);
    if (comm.rank() == 1) return part.abort("lost");
    comm.all_reduce(stream, data.data(), 1, {.unit = "block.3", .position = 17});
    emulator::set_async_error(part.native(), ncclRemoteError);
    stream.synchronize();
  });
  BOOST_TEST(all[0].communicator_error);
  BOOST_TEST(!all[0].timeout);
  BOOST_TEST(contains(all[0].error,
                      "all_reduce(1 x fp32) of unit block.3 at schedule position 17 "
                      "on rank 0 of 2: ncclCommGetAsyncError: expected ncclSuccess, "
                      "came 'remote process exited"),
             all[0].error);
  check(all, begin, "an asynchronous error");
}

BOOST_AUTO_TEST_CASE(nothing_is_made_after_construction) {
  emulator::reset();
  const auto all = cuda_tests::outcomes(2, {.followed = 4}, [](NcclCommunicator& comm) {
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("a");
    zero::CudaEvent event;
    OnDevice<float> data(2, 1);
    const auto step = [&] {
      for (int i = 0; i < 6; ++i) comm.all_reduce(stream, data.data(), 2);
      comm.grouped([&] { comm.all_reduce(stream, data.data(), 2); });
      stream.record(event);
      stream.wait(event);
      float host = 1;
      comm.all_reduce(&host, 1);
      stream.synchronize();
    };
    step();
    comm.barrier();
    const emulator::Live before = emulator::live();
    comm.barrier();
    for (int i = 0; i < 5; ++i) step();
    comm.barrier();
    const emulator::Live after = emulator::live();
    if (!(after == before)) throw zero::Error("something was made");
    comm.barrier();
  });
  for (const Outcome& outcome : all) BOOST_TEST(outcome.error == "");
}

BOOST_AUTO_TEST_SUITE_END()
