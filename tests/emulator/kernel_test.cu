// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Kernels on the emulator: launches, their order, graphs of them, and what is refused.
#include <boost/test/unit_test.hpp>
#include <emulator/fixtures.hpp>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(kernel_test)

template <class T>
__global__ void add(T* to, const T* from, T scale, long count) {
  const long threads = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < count; i += threads) {
    to[i] += scale * from[i];
  }
}

BOOST_AUTO_TEST_CASE(kernels_run_in_the_order_of_streams_and_events) {
  const cudaStream_t a = make_stream(), b = make_stream();
  const cudaEvent_t event = make_event();
  {
    const Array<int> x(std::vector<int>{1, 2, 3}), y(std::vector<int>{10, 20, 30});
    cudaDeviceSynchronize();
    add<<<1, 32, 0, a>>>(x.data(), y.data(), 2, 3);
    pass(a, b, event);
    add<<<2, 1, 0, b>>>(y.data(), x.data(), 1, 3);
    BOOST_TEST((y.values(b) == std::vector<int>{31, 62, 93}));
    BOOST_TEST((x.values(b) == std::vector<int>{21, 42, 63}));
  }
  cudaEventDestroy(event);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_captured_kernel_keeps_its_arguments_and_reads_memory_again) {
  const cudaStream_t stream = make_stream();
  const Array<float> x(std::vector<float>{1}), y(std::vector<float>{1});
  cudaDeviceSynchronize();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  float scale = 2;
  add<<<1, 1, 0, stream>>>(x.data(), y.data(), scale, 1);
  scale = 100;
  add<<<1, 1, 0, stream>>>(y.data(), x.data(), 1.0f, 1);
  BOOST_TEST(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphInstantiate(&executable, graph, 0);
  BOOST_TEST(x.values(stream)[0] == 1);
  cudaGraphLaunch(executable, stream);
  BOOST_TEST((x.values(stream)[0] == 3 && y.values(stream)[0] == 4));
  cudaGraphLaunch(executable, stream);
  BOOST_TEST((x.values(stream)[0] == 11 && y.values(stream)[0] == 15));
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_CASE(impossible_launches_are_refused) {
  const Array<int> x(1);
  const cudaStream_t stream = make_stream();
  const auto launch = [&](dim3 grid, dim3 block) {
    add<<<grid, block, 0, stream>>>(x.data(), x.data(), 0, 0);
    return cudaGetLastError();
  };
  BOOST_TEST(launch(1, 1024) == cudaSuccess);
  BOOST_TEST(launch(1, 1025) == cudaErrorInvalidConfiguration);
  BOOST_TEST(launch(0, 1) == cudaErrorInvalidConfiguration);
  BOOST_TEST(launch(dim3(1, 65536), 1) == cudaErrorInvalidConfiguration);
  cudaSetDevice(1);
  BOOST_TEST(launch(1, 1) == cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
  emulator::fail_call({.function = "cudaLaunchKernel", .cuda = cudaErrorLaunchOutOfResources});
  BOOST_TEST(launch(1, 1) == cudaErrorLaunchOutOfResources);
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
}

BOOST_AUTO_TEST_CASE(memory_of_another_device_is_out_of_reach) {
  const Array<int> x(1);
  cudaDeviceSynchronize();
  cudaSetDevice(1);
  const cudaStream_t other = make_stream();
  add<<<1, 1, 0, other>>>(x.data(), x.data(), 1, 1);
  BOOST_TEST(cudaStreamSynchronize(other) == cudaErrorIllegalAddress);
  BOOST_TEST(emulator::take_reports().size() == 1u);
  cudaStreamDestroy(other);
  emulator::reset();
  cudaSetDevice(0);
}

BOOST_AUTO_TEST_CASE(what_libraries_ask_of_kernels_is_answered) {
  cudaFuncAttributes attributes{};
  BOOST_TEST(cudaFuncGetAttributes(&attributes, add<int>) == cudaSuccess);
  BOOST_TEST(attributes.ptxVersion == 90);
  int blocks = 0;
  BOOST_TEST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add<int>, 256, 0) ==
             cudaSuccess);
  BOOST_TEST(blocks == 8);
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 3);
  BOOST_TEST((properties.major == 9 && properties.multiProcessorCount == 4));
}

BOOST_AUTO_TEST_SUITE_END()
