// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How collectives become messages of MPI: any size of them gives the same bits, none is allocated,
// and the user's communicator stays the user's.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>
#include <zero/comm/launch/share.hpp>
#include <zero/device/host_stream.hpp>

#include "../counting_new.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(messages_test)

using Comm = zero::MpiCommunicator;
using zero::Accumulate;
using zero::Reduction;

template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

/// Element i of what a rank holds: any number, so that an order of summation shows in the bits.
template <class T>
T element(std::size_t rank, std::size_t i) {
  const std::uint64_t bits = (rank * 1'000'003 + i + 1) * 0x9E3779B97F4A7C15;
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return bits;
  } else {
    const double value = static_cast<double>(static_cast<std::int64_t>(bits)) / (1ULL << 60);
    return T(static_cast<Wide<T>>(value));
  }
}
template <class T>
std::vector<T> elements(std::size_t rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = element<T>(rank, i);
  return all;
}
/// The definition: an average in rank order, in fp32 for narrow types.
template <class T>
Wide<T> average(std::size_t ranks, std::size_t i) {
  Wide<T> sum = static_cast<Wide<T>>(element<T>(0, i));
  for (std::size_t r = 1; r < ranks; ++r) sum = sum + static_cast<Wide<T>>(element<T>(r, i));
  return sum / static_cast<Wide<T>>(ranks);
}

/// What is wrong with each collective of `count` elements of T.
template <class T>
std::string wrong(const Comm& comm, std::size_t count) {
  const std::size_t ranks = comm.size(), rank = comm.rank();
  std::string text;
  const auto compare = [&](const std::vector<T>& got, const char* what, auto wanted) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const T right = wanted(i);
      if (std::memcmp(&got[i], &right, sizeof(T)) == 0) continue;
      text += std::string(what) + " at " + std::to_string(i) + " of " + std::to_string(count) +
              " x " + zero::name_of(zero::data_type<T>) + "; ";
      return;
    }
  };
  const auto own = elements<T>(rank, count);
  std::vector<T> all(ranks * count);
  comm.all_gather(own.data(), all.data(), count);
  compare(all, "all_gather", [&](std::size_t i) { return element<T>(i / count, i % count); });

  std::vector<T> sum(count, T(1));
  const auto parts = elements<T>(rank, ranks * count);
  comm.reduce_scatter(parts.data(), sum.data(), count, Accumulate::yes, {}, Reduction::average);
  compare(sum, "reduce_scatter", [&](std::size_t i) {
    return T(static_cast<Wide<T>>(T(1)) + average<T>(ranks, rank * count + i));
  });

  auto reduced = own;
  comm.all_reduce(reduced.data(), count, {}, Reduction::average);
  compare(reduced, "all_reduce", [&](std::size_t i) { return T(average<T>(ranks, i)); });

  auto data = own;
  comm.broadcast(data.data(), count, ranks - 1);
  compare(data, "broadcast", [&](std::size_t i) { return element<T>(ranks - 1, i); });
  return text;
}

// The limit that stands for 2^31 is 7 elements: no message, one less, exactly one, one more, many.
BOOST_AUTO_TEST_CASE(messages_of_7_elements_give_the_same_bits_and_bytes_sent) {
  for (const std::size_t ranks : {2U, 3U, 4U}) {
    const auto all = mpi_test::outcomes(ranks, {.message_elements = 7}, [](Comm& comm) {
      std::string text;
      for (const std::size_t count : {0U, 1U, 6U, 7U, 8U, 14U, 15U, 28U, 500U}) {
        text += wrong<float>(comm, count) + wrong<double>(comm, count) +
                wrong<zero::bf16>(comm, count) + wrong<zero::fp16>(comm, count) +
                wrong<std::uint64_t>(comm, count);
      }
      const auto before = comm.sent();
      std::vector<float> data(comm.size() * 23);
      comm.all_reduce(data.data(), data.size());
      if (comm.sent().all_reduce - before.all_reduce != 2 * (comm.size() - 1) * 23 * 4) {
        text += "bytes sent";
      }
      if (!text.empty()) throw zero::Error(text);
    });
    for (const std::string& outcome : all) BOOST_TEST(outcome == "");
  }
}

// B115
BOOST_AUTO_TEST_CASE(averages_of_half_types_are_those_of_the_library) {
  const auto all = mpi_test::outcomes(4, {}, [](Comm& comm) {
    const auto check = [&]<class T>(T) {
      T value(static_cast<float>(comm.rank() + 1));
      comm.all_reduce(&value, 1, {}, Reduction::average);
      if (static_cast<float>(value) != 2.5F) throw zero::Error("not 2.5");
    };
    check(zero::bf16{});
    check(zero::fp16{});
  });
  for (const std::string& outcome : all) BOOST_TEST(outcome == "");
}

BOOST_AUTO_TEST_CASE(the_blob_of_rank_0_goes_round) {
  const auto all = mpi_test::outcomes(3, {}, [](Comm& comm) {
    zero::LaunchBlob mine{}, of_0{};
    mine.fill(static_cast<std::byte>(comm.rank() + 40));
    of_0.fill(std::byte{40});
    if (zero::share_by(comm, mine) != of_0) throw zero::Error("another blob");
  });
  for (const std::string& outcome : all) BOOST_TEST(outcome == "");
}

BOOST_AUTO_TEST_CASE(no_collective_allocates_in_any_mode) {
  const auto all = mpi_test::outcomes(3, {}, [](Comm& comm) {
    for (const auto mode : {zero::StreamMode::inline_run, zero::StreamMode::asynchronous,
                            zero::StreamMode::shuffled}) {
      zero::HostDevice device({.mode = mode});
      zero::HostStream& stream = device.make_stream("comm");
      std::vector<float> data(90'000);
      float* const mine = data.data() + comm.rank() * 30'000;
      const zero::Label label = {.operation = "test", .unit = "block.3", .position = 17};
      const auto one_of_each = [&](auto&... on) {
        comm.all_gather(on..., mine, data.data(), 30'000, label);
        comm.reduce_scatter(on..., data.data(), mine, 30'000, Accumulate::yes, label);
        comm.all_reduce(on..., data.data(), data.size(), label);
        comm.broadcast(on..., data.data(), data.size(), 0, label);
        comm.barrier(on..., label);
      };
      one_of_each(stream);
      stream.synchronize();
      comm.barrier();
      const std::size_t before = allocations;
      for (int i = 0; i < 5; ++i) {
        one_of_each(stream);
        stream.synchronize();
        one_of_each();
      }
      if (allocations != before) throw zero::Error("something was allocated");
    }
  });
  for (const std::string& outcome : all) BOOST_TEST(outcome == "");
}

// Messages of the user's with whatever tags are not ours, errors are handled as the user wants, and
// many communicators may be made and ended.
BOOST_AUTO_TEST_CASE(the_users_communicator_is_not_touched) {
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  const int rank = mpi_test::rank(), peer = rank ^ 1;
  std::array<int, 4> to_send{}, received{};
  std::array<MPI_Request, 8> requests{};
  for (int tag = 0; tag < 4; ++tag) {
    const auto at = static_cast<std::size_t>(tag);
    to_send[at] = 10 * rank + tag;
    MPI_Irecv(&received[at], 1, MPI_INT, peer, tag, own, &requests[at]);
  }
  std::string text;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Comm comm(own);
    const Comm part = comm.split(rank / 2, 0);
    text += wrong<float>(part, 100);
  }
  for (int tag = 0; tag < 4; ++tag) {
    const auto at = static_cast<std::size_t>(tag);
    MPI_Isend(&to_send[at], 1, MPI_INT, peer, tag, own, &requests[at + 4]);
  }
  MPI_Waitall(8, requests.data(), MPI_STATUSES_IGNORE);
  for (int tag = 0; tag < 4; ++tag) {
    if (received[static_cast<std::size_t>(tag)] != 10 * peer + tag) text += "a message was lost";
  }
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(own, &handler);
  if (handler != MPI_ERRORS_ARE_FATAL) text += "another error handler";
  MPI_Comm_free(&own);
  for (const std::string& outcome : mpi_test::all_of(text)) BOOST_TEST(outcome == "");
}

BOOST_AUTO_TEST_SUITE_END()
