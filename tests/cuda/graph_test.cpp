// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Work of several streams, with collectives among it, as a graph.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>
#include <zero/device/cuda/graph.hpp>

#include "place.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(graph_test)

using zero::CudaCapture;
using zero::CudaDevice;
using zero::CudaEvent;
using zero::CudaGraph;
using zero::CudaStream;

BOOST_AUTO_TEST_CASE(a_replay_does_what_was_captured_on_memory_of_the_device) {
  constexpr std::size_t count = 1000;
  CudaDevice device;
  CudaStream& a = device.make_stream("a");
  CudaStream& b = device.make_stream("b");
  CudaEvent filled, copied;
  cuda_tests::OnDevice<unsigned char> from(count, 1);
  cuda_tests::OnDevice<unsigned char> middle(count, 2);
  cuda_tests::OnDevice<unsigned char> to(count, 3);
  CudaGraph graph;
  BOOST_TEST(graph.empty());
  CudaCapture capture(a, {&b});
  BOOST_TEST((a.capturing() && b.capturing()));
  a.check();
  cuda_tests::copy(a, middle.data(), from.data(), count);
  a.record(filled);
  b.wait(filled);
  cuda_tests::copy(b, to.data(), middle.data(), count);
  graph = capture.end();
  BOOST_TEST((!a.capturing() && !b.capturing()));
  filled.forget();
  BOOST_TEST(filled.complete());
  BOOST_CHECK_THROW(capture.end(), zero::ContractError);
  device.synchronize();
  BOOST_TEST((to.values() == std::vector<unsigned char>(count, 3)));
  for (unsigned char value = 10; value < 13; ++value) {
    cuda_tests::check_cuda(cudaMemsetAsync(from.data(), value, count, a.native()), "memset");
    graph.launch(a);
    a.record(copied);
    b.wait(copied);
    b.synchronize();
    BOOST_TEST((to.values() == std::vector<unsigned char>(count, value)));
  }
  CudaGraph moved = std::move(graph);
  BOOST_TEST((graph.empty() && !moved.empty()));
  BOOST_CHECK_THROW(graph.launch(a), zero::ContractError);
}

BOOST_AUTO_TEST_CASE(a_capture_that_an_exception_leaves_drops_what_it_has) {
  CudaDevice device;
  CudaStream& a = device.make_stream("a");
  CudaStream& b = device.make_stream("b");
  cuda_tests::OnDevice<unsigned char> data(8, 1);
  try {
    CudaCapture capture(a, {&b});
    cuda_tests::check_cuda(cudaMemsetAsync(data.data(), 9, 8, b.native()), "memset");
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {}
  BOOST_TEST((!a.capturing() && !b.capturing()));
  device.synchronize();
  BOOST_TEST((data.values() == std::vector<unsigned char>(8, 1)));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_captured_is_an_error_that_says_so) {
  CudaDevice device;
  CudaStream& a = device.make_stream("a");
  CudaStream& b = device.make_stream("b");
  CudaEvent before;
  b.record(before);
  b.synchronize();
  const auto says = [](const zero::CudaError& error) {
    return cuda_tests::contains(error.what(), "while a stream is captured");
  };
  {
    CudaCapture capture(a, {});
    BOOST_CHECK_EXCEPTION(a.wait(before), zero::CudaError, says);
    BOOST_CHECK_THROW(capture.end(), zero::CudaError);
  }
  {
    CudaCapture capture(a, {});
    BOOST_CHECK_EXCEPTION(a.synchronize(), zero::CudaError, says);
  }
  before.forget();
  CudaCapture capture(a, {});
  a.wait(before);
  BOOST_TEST(!capture.end().empty());
}

BOOST_AUTO_TEST_CASE(collectives_of_two_communicators_are_replayed) {
  const std::size_t ranks = cuda_tests::too_few_devices(4) ? 1 : 4;
  constexpr std::size_t count = 100;
  const auto all = cuda_tests::outcomes(ranks, {}, [&](zero::NcclCommunicator& comm) {
    const auto pair = comm.split(static_cast<int>(comm.rank() / 2), 0);
    CudaDevice device;
    CudaStream& compute = device.make_stream("compute");
    CudaStream& gather = device.make_stream("gather");
    CudaEvent written, gathered;
    const auto mine = static_cast<float>(comm.rank() + 1);
    cuda_tests::OnDevice<float> in(count, mine);
    cuda_tests::OnDevice<float> out(count * ranks, 0);
    cuda_tests::OnDevice<float> sum(count, 0);
    CudaCapture capture(compute, {&gather});
    cuda_tests::copy(compute, sum.data(), in.data(), count * sizeof(float));
    compute.record(written);
    gather.wait(written);
    const float* from = sum.data();
    comm.all_gather(gather, from, out.data(), count, {.unit = "block.3", .position = 4});
    pair.all_reduce(gather, sum.data(), count);
    gather.record(gathered);
    compute.wait(gathered);
    cuda_tests::copy(compute, in.data(), sum.data(), count * sizeof(float));
    CudaGraph graph = capture.end();
    device.synchronize();
    float wanted = mine;
    for (int replay = 0; replay < 3; ++replay) {
      graph.launch(compute);
      device.synchronize();
      if (out.values()[count * comm.rank()] != wanted) throw zero::Error("gathered wrongly");
      const std::size_t first = comm.rank() / 2 * 2;
      const auto others = static_cast<float>(2 * first + 3);
      wanted = ranks == 1 ? 1 : replay == 0 ? others : wanted * 2;
      if (in.values() != std::vector<float>(count, wanted)) throw zero::Error("summed wrongly");
    }
  });
  for (const cuda_tests::Outcome& outcome : all) BOOST_TEST(outcome.error == "");
}

BOOST_AUTO_TEST_SUITE_END()
