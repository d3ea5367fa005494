// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include <zero/device/cuda/device.hpp>
#include <zero/device/cuda/range.hpp>

#include "../device/conformance.hpp"
#include "place.hpp"

BOOST_AUTO_TEST_SUITE(device_test)

struct CudaMaker {
  using Device = zero::CudaDevice;
  static constexpr bool deferred = true;
  static Device& make(std::optional<Device>& storage, std::size_t,
                      std::chrono::milliseconds limit) {
    return storage.emplace(zero::CudaDeviceOptions{.time_limit = limit});
  }
  template <class F>
  static void enqueue(zero::CudaStream& stream, F&& callable) {
    cuda_tests::enqueue(stream, std::forward<F>(callable));
  }
  static void gate(zero::CudaStream& stream, const std::atomic<bool>& open) {
    cuda_tests::gate(stream, open);
  }
};
using Makers = std::tuple<CudaMaker>;
using DeferredMakers = Makers;

#include "../device/conformance_cases.hpp"

using zero::CudaDevice;
using zero::CudaEvent;
using zero::CudaStream;

BOOST_AUTO_TEST_CASE(waits_order_work_on_memory_of_the_device) {
  constexpr std::size_t count = 10'000;
  CudaDevice device;
  CudaStream& a = device.make_stream("a");
  CudaStream& b = device.make_stream("b", zero::StreamPriority::high);
  CudaEvent written, read;
  cuda_tests::OnDevice<unsigned char> from(count, 0);
  cuda_tests::OnDevice<unsigned char> to(count, 0);
  std::vector<unsigned char> got(20 * count);
  for (int round = 0; round < 20; ++round) {
    a.wait(read);
    cuda_tests::check_cuda(cudaMemsetAsync(from.data(), round + 1, count, a.native()),
                           "cudaMemsetAsync");
    a.record(written);
    b.wait(written);
    cuda_tests::copy(b, to.data(), from.data(), count);
    b.record(read);
    cuda_tests::copy(b, got.data() + static_cast<std::size_t>(round) * count, to.data(), count);
  }
  device.synchronize();
  bool right = true;
  for (std::size_t i = 0; i < got.size(); ++i) right = right && got[i] == i / count + 1;
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(a_stream_of_the_user_is_used_and_not_destroyed) {
  cudaStream_t own = nullptr;
  cuda_tests::check_cuda(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "create");
  bool ran = false;
  {
    CudaDevice device;
    CudaStream& stream = device.adopt_stream(own, "the user's");
    BOOST_TEST(stream.native() == own);
    cuda_tests::enqueue(stream, [&ran] { ran = true; });
    device.synchronize();
  }
  BOOST_TEST(ran);
  BOOST_TEST(cudaStreamSynchronize(own) == cudaSuccess);
  BOOST_TEST(cudaStreamDestroy(own) == cudaSuccess);
}

// B83
BOOST_AUTO_TEST_CASE(streams_that_mean_another_one_elsewhere_are_refused) {
  CudaDevice device;
  for (const cudaStream_t stream : {cudaStream_t{}, cudaStreamPerThread}) {
    BOOST_CHECK_EXCEPTION(device.adopt_stream(stream, "mine"), zero::ContractError,
                          [](const auto& error) { return mentions(error, "stream 'mine' is"); });
  }
}

BOOST_AUTO_TEST_CASE(work_that_hangs_is_an_error_that_names_the_stream) {
  std::atomic<bool> open{false};
  CudaDevice device({.time_limit = conformance::short_limit});
  CudaStream& stream = device.make_stream("gather");
  CudaEvent event;
  cuda_tests::gate(stream, open);
  stream.record(event);
  stream.check();
  BOOST_CHECK_EXCEPTION(stream.synchronize(), zero::TimeoutError, [](const auto& error) {
    return mentions(error, "stream 'gather'") && mentions(error, "80 ms");
  });
  BOOST_CHECK_THROW(event.synchronize(), zero::TimeoutError);
  open = true;
  stream.synchronize();
  BOOST_TEST(event.complete());
}

BOOST_AUTO_TEST_CASE(the_current_device_of_the_thread_stays_what_it_was) {
  int count = 0, current = -1;
  cuda_tests::check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  const int last = count - 1;
  {
    CudaDevice device({.ordinal = last});
    CudaStream& stream = device.make_stream("a");
    CudaEvent event;
    stream.record(event);
    zero::CudaMemory memory = device.memory();
    void* data = memory.allocate(100);
    cudaPointerAttributes attributes{};
    BOOST_TEST(cudaPointerGetAttributes(&attributes, data) == cudaSuccess);
    BOOST_TEST(attributes.device == last);
    memory.deallocate(data, 100);
    device.synchronize();
  }
  BOOST_TEST(cudaGetDevice(&current) == cudaSuccess);
  BOOST_TEST(current == 0);
}

BOOST_AUTO_TEST_CASE(memory_says_how_many_bytes_there_were_none_for) {
  constexpr std::size_t bytes = std::size_t{1} << 50;
  const auto says = [](const zero::CudaError& error) {
    return mentions(error, std::to_string(bytes) + " bytes") &&
           error.code() == cudaErrorMemoryAllocation;
  };
  BOOST_CHECK_EXCEPTION(zero::CudaMemory().allocate(bytes), zero::CudaError, says);
  BOOST_CHECK_EXCEPTION(zero::PinnedMemory().allocate(bytes), zero::CudaError, says);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  BOOST_CHECK_THROW(zero::CudaMemory().allocate(1, 512), zero::ContractError);
  BOOST_CHECK_THROW(zero::PinnedMemory().allocate(1, 512), zero::ContractError);
  zero::PinnedMemory pinned;
  void* data = pinned.allocate(10);
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(data) % zero::memory_alignment == 0U);
  pinned.deallocate(data, 10);
}

BOOST_AUTO_TEST_CASE(a_range_for_profilers_needs_no_profiler) {
  const zero::NvtxRange off(false, nullptr);
  const zero::NvtxRange on(true, "block.3");
}

BOOST_AUTO_TEST_SUITE_END()
