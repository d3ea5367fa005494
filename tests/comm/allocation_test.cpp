// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Collectives allocate nothing.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <vector>
#include <zero/comm/run_threads.hpp>
#include <zero/comm/self_communicator.hpp>

#include "../counting_new.hpp"

BOOST_AUTO_TEST_SUITE(allocation_test)

template <class Comm>
void one_of_each(const Comm& comm, zero::HostStream& stream, std::vector<float>& data) {
  const std::size_t count = data.size() / comm.size();
  float* const mine = data.data() + comm.rank() * count;
  const zero::Label label = {.operation = "test", .unit = "block.3", .position = 17};
  comm.all_gather(mine, data.data(), count, label);
  comm.reduce_scatter(data.data(), mine, count, zero::Accumulate::yes, label);
  comm.all_reduce(data.data(), data.size(), label, zero::Reduction::average);
  comm.broadcast(data.data(), data.size(), 0, label);
  comm.barrier(label);
  comm.all_gather(stream, mine, data.data(), count, label);
  comm.reduce_scatter(stream, data.data(), mine, count, zero::Accumulate::no, label);
  comm.all_reduce(stream, data.data(), data.size(), label);
  comm.broadcast(stream, data.data(), data.size(), 0, label);
  comm.barrier(stream, label);
  stream.synchronize();
}

template <class Comm>
void count_allocations(const Comm& comm, zero::StreamMode mode, std::size_t& result) {
  zero::HostDevice device({.mode = mode});
  zero::HostStream& stream = device.make_stream("comm");
  std::vector<float> data(3000);
  one_of_each(comm, stream, data);
  comm.barrier();
  const std::size_t before = allocations;
  for (int i = 0; i < 20; ++i) one_of_each(comm, stream, data);
  comm.barrier();
  result += allocations - before;
  comm.barrier();
}

BOOST_AUTO_TEST_CASE(no_collective_allocates_in_any_mode) {
  for (const auto mode :
       {zero::StreamMode::inline_run, zero::StreamMode::asynchronous, zero::StreamMode::shuffled}) {
    std::size_t alone = 0;
    count_allocations(zero::SelfCommunicator(), mode, alone);
    BOOST_TEST(alone == 0U);
    std::vector<std::size_t> counted(3);
    zero::run_threads(3, [&](zero::ThreadCommunicator& comm) {
      count_allocations(comm, mode, counted[comm.rank()]);
    });
    BOOST_TEST((counted == std::vector<std::size_t>(3)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
