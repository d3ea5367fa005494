// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Faults that a test asks the emulator for: calls that fail, work that fails, errors that stick.
#include <boost/test/unit_test.hpp>
#include <emulator/fixtures.hpp>
#include <functional>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(fault_test)

BOOST_AUTO_TEST_CASE(the_nth_call_of_a_function_fails) {
  emulator::fail_call({.function = "cudaMalloc", .call = 3, .cuda = cudaErrorMemoryAllocation});
  std::vector<cudaError_t> results;
  for (int i = 0; i < 4; ++i) {
    void* memory = nullptr;
    results.push_back(cudaMalloc(&memory, 64));
    cudaFree(memory);
  }
  BOOST_TEST((results == std::vector<cudaError_t>{cudaSuccess, cudaSuccess,
                                                  cudaErrorMemoryAllocation, cudaSuccess}));
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(emulator::leaks() == "");
}

/// A program that cleans up after itself whatever fails; true if nothing did.
bool careful_program() {
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  bool fine = cudaMalloc(&memory, 100) == cudaSuccess &&
              cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
              cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess &&
              cudaMemsetAsync(memory, 0, 100, stream) == cudaSuccess &&
              cudaEventRecord(event, stream) == cudaSuccess &&
              cudaEventSynchronize(event) == cudaSuccess;
  if (event) fine = cudaEventDestroy(event) == cudaSuccess && fine;
  if (stream) fine = cudaStreamDestroy(stream) == cudaSuccess && fine;
  return cudaFree(memory) == cudaSuccess && fine;
}

BOOST_AUTO_TEST_CASE(each_call_can_be_made_to_fail_in_turn) {
  emulator::reset();
  BOOST_TEST(careful_program());
  const std::uint64_t calls = emulator::calls();
  BOOST_TEST(calls == 9u);
  for (std::uint64_t call = 1; call <= calls; ++call) {
    emulator::reset();
    emulator::fail_call({.call = call});
    BOOST_TEST(!careful_program());
    BOOST_TEST(emulator::leaks() == "");
  }
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(calls_are_counted_by_device_and_function) {
  emulator::reset();
  int count = 0;
  cudaGetDeviceCount(&count);
  cudaSetDevice(1);
  cudaGetDeviceCount(&count);
  cudaGetDeviceCount(&count);
  emulator::fail_call({.function = "cudaGetDeviceCount", .device = 0, .cuda = cudaErrorNoDevice});
  BOOST_TEST(cudaGetDeviceCount(&count) == cudaSuccess);
  cudaSetDevice(0);
  BOOST_TEST(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  BOOST_TEST(emulator::calls_of("cudaGetDeviceCount") == 5u);
  BOOST_TEST(emulator::calls_of("cudaGetDeviceCount", 1) == 3u);
  BOOST_TEST(emulator::calls(0) == 3u);
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(an_error_of_work_sticks_to_its_device) {
  const cudaStream_t stream = make_stream(), other = make_stream();
  const Array<char> memory(100);
  cudaDeviceSynchronize();
  int ran = 0;
  emulator::fail_work(0, 2, cudaErrorECCUncorrectable);
  for (int i = 0; i < 3; ++i) emulator::enqueue(stream, "count", [&] { ++ran; });
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorECCUncorrectable);
  BOOST_TEST(ran == 1);
  void* more = nullptr;
  BOOST_TEST(cudaMalloc(&more, 4) == cudaErrorECCUncorrectable);
  BOOST_TEST(cudaMemsetAsync(memory.data(), 0, 1, other) == cudaErrorECCUncorrectable);
  BOOST_TEST(cudaGetLastError() == cudaErrorECCUncorrectable);
  BOOST_TEST(cudaGetLastError() == cudaErrorECCUncorrectable);
  // Another device goes on.
  cudaSetDevice(1);
  BOOST_TEST(cudaMalloc(&more, 4) == cudaSuccess);
  cudaFree(more);
  cudaSetDevice(0);
  // What was made can be destroyed.
  BOOST_TEST(cudaStreamDestroy(stream) == cudaSuccess);
  BOOST_TEST(cudaStreamDestroy(other) == cudaSuccess);
  emulator::reset();
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(work_that_goes_wrong_is_reported_and_sticks) {
  const cudaStream_t stream = make_stream();
  emulator::enqueue(stream, "mistake", [] { throw std::runtime_error("block 3, thread 7"); });
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  const auto reports = emulator::take_reports();
  BOOST_REQUIRE(reports.size() == 1u);
  BOOST_TEST(reports[0] == "mistake on device 0: block 3, thread 7");
  cudaStreamDestroy(stream);
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(delays_depend_on_the_seed) {
  const cudaStream_t stream = make_stream();
  emulator::set_delays(2000, 7);
  for (int i = 0; i < 20; ++i) emulator::enqueue(stream, "nothing", [] {});
  const auto begin = std::chrono::steady_clock::now();
  cudaStreamSynchronize(stream);
  // Twenty of one millisecond on average.
  BOOST_TEST((std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(5)));
  cudaStreamDestroy(stream);
  emulator::reset();
}

BOOST_AUTO_TEST_SUITE_END()
