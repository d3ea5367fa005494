// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Streams, events, memory and collectives of the emulator do what those of CUDA and NCCL do.
#include <boost/test/unit_test.hpp>
#include <emulator/emulator.hpp>
#include <numeric>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(runtime_test)

BOOST_AUTO_TEST_CASE(copies_pass_from_stream_to_stream_by_an_event) {
  cudaStream_t first, second;
  cudaEvent_t event;
  int *device, *pinned;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaMalloc(reinterpret_cast<void**>(&device), 1000 * sizeof(int));
  cudaMallocHost(reinterpret_cast<void**>(&pinned), 2000 * sizeof(int));
  std::iota(pinned, pinned + 1000, 7);
  cudaMemcpyAsync(device, pinned, 4000, cudaMemcpyHostToDevice, first);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event, 0);
  cudaMemcpyAsync(pinned + 1000, device, 4000, cudaMemcpyDeviceToHost, second);
  BOOST_TEST(cudaStreamSynchronize(second) == cudaSuccess);
  BOOST_TEST(std::equal(pinned, pinned + 1000, pinned + 1000));
  cudaFree(device);
  cudaFreeHost(pinned);
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(an_all_reduce_of_four_threads_sums_in_rank_order) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<float> results(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclComm_t comm;
      ncclCommInitRank(&comm, 4, id, rank);
      cudaStream_t stream;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      void* device;
      cudaMalloc(&device, sizeof(float));
      const float own = static_cast<float>(rank + 1);
      cudaMemcpyAsync(device, &own, sizeof own, cudaMemcpyHostToDevice, stream);
      ncclAllReduce(device, device, 1, ncclFloat32, ncclSum, comm, stream);
      cudaMemcpyAsync(&results[static_cast<std::size_t>(rank)], device, sizeof(float),
                      cudaMemcpyDeviceToHost, stream);
      cudaStreamSynchronize(stream);
      cudaFree(device);
      cudaStreamDestroy(stream);
      ncclCommDestroy(comm);
    });
  }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(results == std::vector<float>(4, 10));
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_SUITE_END()
