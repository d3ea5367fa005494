// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stream capture and replay on the emulator, and what capture refuses.
#include <boost/test/unit_test.hpp>
#include <emulator/fixtures.hpp>
#include <thread>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(capture_test)

/// Two streams, an event and some memory for a capture; thread-local unless said otherwise.
struct Scene {
  cudaStream_t a = make_stream(), b = make_stream();
  cudaEvent_t event = make_event();
  Array<int> memory{std::vector<int>{1, 2}};
  Pinned<int> pinned{2};
  cudaGraph_t graph = nullptr;
  Scene() = default;
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() {
    if (graph) cudaGraphDestroy(graph);
    cudaEventDestroy(event);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaGetLastError();
  }
  cudaError_t begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    return cudaStreamBeginCapture(a, mode);
  }
  cudaError_t end() { return cudaStreamEndCapture(a, &graph); }
  cudaStreamCaptureStatus status() {
    cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(a, &now);
    return now;
  }
  cudaError_t up(cudaStream_t stream) {
    return cudaMemcpyAsync(memory.data(), pinned.data(), 8, cudaMemcpyHostToDevice, stream);
  }
  cudaError_t down(cudaStream_t stream) {
    return cudaMemcpyAsync(pinned.data(), memory.data(), 8, cudaMemcpyDeviceToHost, stream);
  }
};

BOOST_AUTO_TEST_CASE(a_graph_of_two_streams_is_replayed_and_reads_pinned_memory_again) {
  {
    Scene s;
    int work = 0, host = 0;
    const auto ran = [&] { ++work; };
    BOOST_TEST(s.begin() == cudaSuccess);
    BOOST_TEST(s.status() == cudaStreamCaptureStatusActive);
    s.up(s.a);
    pass(s.a, s.b, s.event);
    emulator::enqueue(s.b, "work", ran);
    cudaLaunchHostFunc(
        s.b, [](void* count) { ++*static_cast<int*>(count); }, &host);
    cudaMemsetAsync(s.memory.data(), 0, 4, s.a);
    pass(s.b, s.a, s.event);
    s.down(s.a);
    BOOST_TEST(s.end() == cudaSuccess);
    BOOST_TEST(s.status() == cudaStreamCaptureStatusNone);
    std::size_t nodes = 0;
    cudaGraphGetNodes(s.graph, nullptr, &nodes);
    BOOST_TEST(nodes == 5u);
    cudaStreamSynchronize(s.a);
    BOOST_TEST((work == 0 && host == 0));  // Nothing ran yet.

    cudaGraphExec_t executable = nullptr;
    BOOST_TEST(cudaGraphInstantiate(&executable, s.graph, 0) == cudaSuccess);
    for (int replay = 1; replay <= 3; ++replay) {
      s.pinned[0] = 10 * replay;
      s.pinned[1] = 20 * replay;
      BOOST_TEST(cudaGraphLaunch(executable, s.a) == cudaSuccess);
      BOOST_TEST(cudaStreamSynchronize(s.a) == cudaSuccess);
      BOOST_TEST((s.pinned[0] == 0 && s.pinned[1] == 20 * replay));
      BOOST_TEST((work == replay && host == replay));
    }
    cudaGraphLaunch(executable, s.a);
    cudaGraphLaunch(executable, s.b);  // After the launch before, on whatever stream.
    cudaGraphExecDestroy(executable);  // What was launched is done all the same.
    cudaStreamSynchronize(s.b);
    BOOST_TEST((work == 5 && host == 5));
  }
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_graph_that_is_not_joined_is_refused) {
  Scene s;
  s.begin();
  pass(s.a, s.b, s.event);
  s.up(s.b);
  BOOST_TEST(s.end() == cudaErrorStreamCaptureUnjoined);
  BOOST_TEST(s.graph == nullptr);
  // Both streams are out of the capture.
  BOOST_TEST(cudaStreamSynchronize(s.a) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(s.b) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(work_of_outside_cannot_be_waited_for) {
  Scene s;
  cudaEventRecord(s.event, s.b);
  s.begin();
  BOOST_TEST(cudaStreamWaitEvent(s.a, s.event, 0) == cudaErrorStreamCaptureIsolation);
  BOOST_TEST(s.status() == cudaStreamCaptureStatusInvalidated);
  BOOST_TEST(s.up(s.a) == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(s.end() == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(s.up(s.a) == cudaSuccess);
  cudaStreamSynchronize(s.a);
}

BOOST_AUTO_TEST_CASE(what_is_captured_cannot_be_waited_for_by_the_host) {
  const auto spoils = [](auto call, cudaError_t expected) {
    Scene s;
    s.begin();
    s.up(s.a);
    cudaEventRecord(s.event, s.a);
    const cudaError_t error = call(s);
    return error == expected && s.end() == cudaErrorStreamCaptureInvalidated;
  };
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  BOOST_TEST(spoils([](Scene& s) { return cudaStreamSynchronize(s.a); }, unsupported));
  BOOST_TEST(spoils([](Scene& s) { return cudaStreamQuery(s.a); }, unsupported));
  BOOST_TEST(spoils([](Scene&) { return cudaDeviceSynchronize(); }, unsupported));
  BOOST_TEST(spoils([](Scene& s) { return cudaEventQuery(s.event); }, cudaErrorCapturedEvent));
  BOOST_TEST(
      spoils([](Scene& s) { return cudaEventSynchronize(s.event); }, cudaErrorCapturedEvent));
}

BOOST_AUTO_TEST_CASE(calls_that_may_synchronise_are_refused_as_the_mode_says) {
  // What another thread's cudaEventQuery of another event returns while this one captures.
  const auto elsewhere = [](cudaStreamCaptureMode mode) {
    Scene s;
    const cudaEvent_t other = make_event();
    s.begin(mode);
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaEventQuery(other); }).join();
    s.end();
    cudaEventDestroy(other);
    return error;
  };
  BOOST_TEST(elsewhere(cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
  BOOST_TEST(elsewhere(cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  BOOST_TEST(elsewhere(cudaStreamCaptureModeRelaxed) == cudaSuccess);
  // And what this thread's cudaMalloc returns.
  const auto here = [](cudaStreamCaptureMode mode) {
    Scene s;
    void* memory = nullptr;
    s.begin(mode);
    const cudaError_t error = cudaMalloc(&memory, 4);
    s.end();
    cudaFree(memory);
    return error;
  };
  BOOST_TEST(here(cudaStreamCaptureModeThreadLocal) == cudaErrorStreamCaptureUnsupported);
  BOOST_TEST(here(cudaStreamCaptureModeRelaxed) == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(the_legacy_stream_disturbs_captures_of_blocking_streams_only) {
  Scene s;
  s.begin();
  BOOST_TEST(cudaMemsetAsync(s.memory.data(), 0, 4, nullptr) == cudaSuccess);
  BOOST_TEST(s.end() == cudaSuccess);
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal);
  BOOST_TEST(cudaMemsetAsync(s.memory.data(), 0, 4, nullptr) == cudaErrorStreamCaptureImplicit);
  cudaGraph_t none = nullptr;
  BOOST_TEST(cudaStreamEndCapture(blocking, &none) == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) ==
             cudaErrorStreamCaptureUnsupported);
  cudaStreamDestroy(blocking);
}

BOOST_AUTO_TEST_CASE(a_capture_ends_where_it_began) {
  Scene s;
  s.begin();
  pass(s.a, s.b, s.event);
  BOOST_TEST(s.begin() == cudaErrorIllegalState);
  cudaGraph_t none = nullptr;
  BOOST_TEST(cudaStreamEndCapture(s.b, &none) == cudaErrorStreamCaptureUnmatched);
  s.end();
  BOOST_TEST(s.end() == cudaErrorIllegalState);
  s.begin();
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&] { elsewhere = s.end(); }).join();
  BOOST_TEST(elsewhere == cudaErrorStreamCaptureWrongThread);
  BOOST_TEST(s.end() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(two_captures_cannot_be_merged) {
  Scene s, t;
  s.begin(cudaStreamCaptureModeRelaxed);
  t.begin(cudaStreamCaptureModeRelaxed);
  cudaEventRecord(s.event, s.a);
  BOOST_TEST(cudaStreamWaitEvent(t.a, s.event, 0) == cudaErrorStreamCaptureMerge);
  BOOST_TEST(s.end() == cudaErrorStreamCaptureInvalidated);
  BOOST_TEST(t.end() == cudaErrorStreamCaptureInvalidated);
  // An event of a capture that is over cannot be waited for either.
  BOOST_TEST(cudaStreamWaitEvent(t.a, s.event, 0) == cudaErrorStreamCaptureInvalidated);
}

/// Each replay scales by what the host wrote before, and sums over the ranks.
BOOST_AUTO_TEST_CASE(collectives_are_replayed) {
  const auto results = run_ranks(3, [](Rank& own) {
    const Array<float> memory(1);
    const Pinned<float> pinned(1);
    const cudaStream_t side = make_stream();
    const cudaEvent_t event = make_event();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal);
    cudaMemcpyAsync(memory.data(), pinned.data(), 4, cudaMemcpyHostToDevice, own.stream);
    ncclAllReduce(memory.data(), memory.data(), 1, ncclFloat32, ncclSum, own.comm, own.stream);
    pass(own.stream, side, event);
    ncclAllReduce(memory.data(), memory.data(), 1, ncclFloat32, ncclSum, own.comm, side);
    pass(side, own.stream, event);
    cudaMemcpyAsync(pinned.data(), memory.data(), 4, cudaMemcpyDeviceToHost, own.stream);
    cudaStreamEndCapture(own.stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    std::vector<float> sums;
    for (int replay = 1; replay <= 3; ++replay) {
      pinned[0] = static_cast<float>(replay * (own.rank + 1));
      cudaGraphLaunch(executable, own.stream);
      cudaStreamSynchronize(own.stream);
      sums.push_back(pinned[0]);
      // Between replays the communicator may be used as ever.
      ncclAllReduce(memory.data(), memory.data(), 1, ncclFloat32, ncclSum, own.comm, own.stream);
    }
    cudaStreamSynchronize(own.stream);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaEventDestroy(event);
    cudaStreamDestroy(side);
    return sums;
  });
  for (const auto& sums : results) BOOST_TEST((sums == std::vector<float>{18, 36, 54}));
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_SUITE_END()
