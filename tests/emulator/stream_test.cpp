// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Streams and events of the emulator do what those of CUDA do.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <emulator/fixtures.hpp>
#include <numeric>
#include <thread>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(stream_test)

/// Work that lasts until it is told to end.
struct Held {
  std::atomic<bool> go{false};
  void enqueue(cudaStream_t stream) {
    emulator::enqueue(stream, "held", [this] {
      while (!go) std::this_thread::yield();
    });
  }
};

BOOST_AUTO_TEST_CASE(copies_pass_from_stream_to_stream_by_an_event) {
  const cudaStream_t first = make_stream(), second = make_stream();
  const cudaEvent_t event = make_event();
  {
    const Array<int> device(1000);
    const Pinned<int> pinned(2000);
    std::iota(&pinned[0], &pinned[1000], 7);
    cudaMemcpyAsync(device.data(), &pinned[0], 4000, cudaMemcpyHostToDevice, first);
    pass(first, second, event);
    cudaMemcpyAsync(&pinned[1000], device.data(), 4000, cudaMemcpyDeviceToHost, second);
    BOOST_TEST(cudaStreamSynchronize(second) == cudaSuccess);
    BOOST_TEST(std::equal(&pinned[0], &pinned[1000], &pinned[1000]));
  }
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(queries_say_whether_work_is_pending) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  Held held;
  BOOST_TEST(cudaStreamQuery(stream) == cudaSuccess);
  BOOST_TEST(cudaEventQuery(event) == cudaSuccess);
  held.enqueue(stream);
  cudaEventRecord(event, stream);
  BOOST_TEST(cudaStreamQuery(stream) == cudaErrorNotReady);
  BOOST_TEST(cudaEventQuery(event) == cudaErrorNotReady);
  BOOST_TEST(cudaGetLastError() == cudaErrorNotReady);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  held.go = true;
  BOOST_TEST(cudaEventSynchronize(event) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
  BOOST_TEST(cudaEventQuery(event) == cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_CASE(the_legacy_stream_waits_for_blocking_streams_and_they_for_it) {
  const cudaStream_t blocking = make_stream(cudaStreamDefault), free = make_stream();
  std::atomic<int> order{0};
  int first = 0, second = 0, third = 0;
  Held held, other;
  other.enqueue(free);
  held.enqueue(blocking);
  emulator::enqueue(blocking, "first", [&] { first = ++order; });
  emulator::enqueue(nullptr, "second", [&] { second = ++order; });
  emulator::enqueue(blocking, "third", [&] { third = ++order; });
  held.go = true;
  BOOST_TEST(cudaStreamSynchronize(blocking) == cudaSuccess);
  BOOST_TEST((first == 1 && second == 2 && third == 3));
  BOOST_TEST(cudaStreamQuery(free) == cudaErrorNotReady);
  other.go = true;
  BOOST_TEST(cudaDeviceSynchronize() == cudaSuccess);
  cudaStreamDestroy(blocking);
  cudaStreamDestroy(free);
}

BOOST_AUTO_TEST_CASE(a_destroyed_stream_still_does_its_work) {
  const cudaStream_t stream = make_stream(), other = make_stream();
  const cudaEvent_t event = make_event();
  Held held;
  int done = 0;
  held.enqueue(stream);
  emulator::enqueue(stream, "work", [&] { done = 1; });
  cudaEventRecord(event, stream);
  BOOST_TEST(cudaStreamDestroy(stream) == cudaSuccess);
  held.go = true;
  BOOST_TEST(cudaEventSynchronize(event) == cudaSuccess);
  BOOST_TEST(done == 1);
  // An event that is destroyed while a stream waits for it is waited for all the same.
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
}

/// Also of a stream whose thread has ended: whoever waits for the device comes after its work.
BOOST_AUTO_TEST_CASE(what_waits_for_the_device_waits_for_destroyed_streams) {
  int ended = 0, legacy = 0;
  for (int i = 0; i < 3; ++i) {
    const cudaStream_t stream = make_stream(cudaStreamDefault);
    emulator::enqueue(stream, "work", [&] { ++ended; });
    cudaStreamDestroy(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    emulator::enqueue(nullptr, "legacy", [&] { legacy = ended; });
    cudaDeviceSynchronize();
    BOOST_TEST((ended == i + 1 && legacy == i + 1));
  }
}

BOOST_AUTO_TEST_CASE(a_wait_is_for_the_record_that_came_before_it) {
  const cudaStream_t recorded = make_stream(), waiting = make_stream();
  const cudaEvent_t event = make_event();
  Held held;
  BOOST_TEST(cudaStreamWaitEvent(waiting, event, 0) == cudaSuccess);  // Never recorded: nothing.
  pass(recorded, waiting, event);
  held.enqueue(recorded);
  cudaEventRecord(event, recorded);
  BOOST_TEST(cudaStreamSynchronize(waiting) == cudaSuccess);
  BOOST_TEST(cudaEventQuery(event) == cudaErrorNotReady);
  held.go = true;
  BOOST_TEST(cudaStreamSynchronize(recorded) == cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(recorded);
  cudaStreamDestroy(waiting);
}

BOOST_AUTO_TEST_CASE(host_functions_run_in_order_and_events_take_time) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t begin = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  int calls = 0;
  cudaEventRecord(begin, stream);
  for (int i = 0; i < 3; ++i) {
    cudaLaunchHostFunc(
        stream, [](void* count) { ++*static_cast<int*>(count); }, &calls);
  }
  emulator::enqueue(stream, "sleep",
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  cudaEventRecord(end, stream);
  BOOST_TEST(cudaEventSynchronize(end) == cudaSuccess);
  BOOST_TEST(calls == 3);
  float ms = 0;
  BOOST_TEST(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  BOOST_TEST(ms >= 2.9f);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_CASE(a_host_function_must_not_call_cuda) {
  const cudaStream_t stream = make_stream();
  cudaError_t inside = cudaSuccess;
  const auto calls = [](void* result) {
    void* memory = nullptr;
    *static_cast<cudaError_t*>(result) = cudaMalloc(&memory, 4);
  };
  cudaLaunchHostFunc(stream, calls, &inside);
  cudaStreamSynchronize(stream);
  BOOST_TEST(inside == cudaErrorNotPermitted);
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_CASE(what_belongs_to_another_device_is_refused) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  cudaSetDevice(1);
  const cudaStream_t foreign = make_stream();
  BOOST_TEST(cudaEventRecord(event, foreign) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventRecord(event, stream) == cudaSuccess);
  BOOST_TEST(cudaStreamWaitEvent(foreign, event, 0) == cudaSuccess);
  BOOST_TEST(cudaSetDevice(8) == cudaErrorInvalidDevice);
  int device = -1;
  cudaGetDevice(&device);
  BOOST_TEST(device == 1);
  cudaStreamDestroy(foreign);
  cudaSetDevice(0);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(handles_that_ended_are_reported) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  cudaStreamDestroy(stream);
  cudaEventDestroy(event);
  BOOST_TEST(cudaStreamQuery(stream) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(emulator::take_reports().size() == 3u);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(traces_hold_calls_and_work_in_order) {
  const cudaStream_t stream = make_stream();
  const Array<char> memory(100);
  cudaDeviceSynchronize();
  emulator::set_tracing(true);
  cudaMemsetAsync(memory.data(), 0, 100, stream);
  cudaStreamSynchronize(stream);
  emulator::set_tracing(false);
  const auto records = emulator::trace();
  BOOST_REQUIRE(records.size() == 3u);
  const auto& work = records[records[1].work ? 1 : 2];
  BOOST_TEST(records[0].what == "cudaMemsetAsync");
  BOOST_TEST((work.work && work.what == "memset" && work.bytes == 100u));
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_SUITE_END()
