// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Memory of the emulator: limits, peaks, poison, and accesses outside of allocations.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <emulator/fixtures.hpp>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(memory_test)

void* allocated(std::size_t bytes) {
  void* pointer = nullptr;
  cudaMalloc(&pointer, bytes);
  return pointer;
}
/// The one report since the last call.
std::string report() {
  const auto reports = emulator::take_reports();
  cudaGetLastError();
  return reports.size() == 1 ? reports.front() : std::to_string(reports.size()) + " reports";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(bytes_in_use_and_their_peak_are_exact) {
  const std::size_t before = emulator::memory_in_use(0);
  emulator::reset_peaks();
  void* const first = allocated(1000);
  void* const second = allocated(24);
  BOOST_TEST(emulator::memory_in_use(0) == before + 1024);
  cudaFree(first);
  const cudaStream_t stream = make_stream();
  void* third;
  cudaMallocAsync(&third, 500, stream);
  BOOST_TEST(emulator::memory_in_use(0) == before + 524);
  cudaFreeAsync(third, stream);
  BOOST_TEST(emulator::memory_in_use(0) == before + 24);
  BOOST_TEST(emulator::memory_peak(0) == before + 1024);
  cudaFree(second);
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_device_has_a_limit) {
  emulator::set_memory_limit(std::size_t{1} << 20);
  void* pointer = nullptr;
  void* const most = allocated(std::size_t{1} << 20);
  BOOST_TEST(most != nullptr);
  BOOST_TEST(cudaMalloc(&pointer, 1) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaMallocHost(&pointer, 1) == cudaSuccess);  // Not of the device.
  cudaFreeHost(pointer);
  std::size_t free, total;
  cudaMemGetInfo(&free, &total);
  BOOST_TEST((free == 0 && total == std::size_t{1} << 20));
  cudaFree(most);
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(fresh_memory_is_nan) {
  const Array<float> memory(3);
  for (const float value : memory.values()) BOOST_TEST(std::isnan(value));
}

BOOST_AUTO_TEST_CASE(an_allocation_above_two_to_the_31_elements_costs_few_pages) {
  const std::size_t bytes = (std::size_t{1} << 31) + 5;
  const Array<char> memory(bytes);
  BOOST_TEST(cudaMemset(memory.data() + bytes - 1, 3, 1) == cudaSuccess);
  char last = 0;
  cudaMemcpy(&last, memory.data() + bytes - 1, 1, cudaMemcpyDeviceToHost);
  BOOST_TEST(last == 3);
}

BOOST_AUTO_TEST_CASE(copies_and_fills_outside_of_an_allocation_are_refused) {
  const Array<char> memory(100);
  char host[200] = {};
  BOOST_TEST(cudaMemcpy(memory.data(), host, 101, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "101 bytes"));
  BOOST_TEST(cudaMemset(memory.data() + 50, 0, 51) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "go past an allocation of 100 bytes"));
  BOOST_TEST(cudaMemset(memory.data() - 1, 0, 1) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "lie beside an allocation of 100 bytes"));
  BOOST_TEST(cudaMemset(host, 0, 1) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "in no allocation"));
  BOOST_TEST(cudaMemcpy(host, host + 100, 1, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "direction"));
  BOOST_TEST(cudaMemcpy(host, memory.data(), 0, cudaMemcpyDeviceToHost) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(memory_is_freed_once) {
  void* const memory = allocated(100);
  BOOST_TEST(cudaFree(memory) == cudaSuccess);
  BOOST_TEST(cudaFree(memory) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "was freed"));
  int local = 0;
  BOOST_TEST(cudaFree(&local) == cudaErrorInvalidValue);
  BOOST_TEST(contains(report(), "in no allocation"));
  BOOST_TEST(cudaFree(nullptr) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(valid_accesses_lie_in_one_live_allocation_of_the_device) {
  const Array<char> memory(100);
  const Pinned<char> pinned(100);
  BOOST_TEST(emulator::valid_access(memory.data(), 100));
  BOOST_TEST(emulator::valid_access(memory.data() + 99, 1));
  BOOST_TEST(!emulator::valid_access(memory.data() + 99, 2));
  BOOST_TEST(!emulator::valid_access(memory.data() - 1, 1));
  BOOST_TEST(!emulator::valid_access(&memory, 1));
  cudaSetDevice(1);
  const cudaStream_t other = make_stream();
  bool own = false, foreign = true, of_host = false;
  const Array<char> there(10);
  emulator::enqueue(other, "look", [&] {
    own = emulator::valid_access(there.data(), 10);
    foreign = emulator::valid_access(memory.data(), 10);
    of_host = emulator::valid_access(pinned.data(), 10);
  });
  cudaStreamSynchronize(other);
  BOOST_TEST((own && !foreign && of_host));
  cudaStreamDestroy(other);
  cudaSetDevice(0);
}

BOOST_AUTO_TEST_CASE(the_host_has_no_access_to_device_memory_but_work_has) {
  const Array<int> memory(std::vector<int>{7});
  cudaDeviceSynchronize();
  BOOST_TEST((reinterpret_cast<std::uintptr_t>(memory.data()) & emulator::device_bit) != 0u);
  const cudaStream_t stream = make_stream();
  emulator::enqueue(stream, "add", [&] { ++*emulator::host_view(memory.data()); });
  BOOST_TEST(memory.values(stream)[0] == 8);
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_CASE(pointers_say_what_they_point_to) {
  const Array<char> memory(100);
  const Pinned<char> pinned(100);
  int local = 0;
  cudaPointerAttributes about{};
  cudaPointerGetAttributes(&about, memory.data() + 50);
  BOOST_TEST((about.type == cudaMemoryTypeDevice && about.device == 0 && !about.hostPointer));
  cudaPointerGetAttributes(&about, pinned.data());
  BOOST_TEST((about.type == cudaMemoryTypeHost && about.hostPointer == pinned.data()));
  cudaPointerGetAttributes(&about, &local);
  BOOST_TEST(about.type == cudaMemoryTypeUnregistered);
}

BOOST_AUTO_TEST_SUITE_END()
