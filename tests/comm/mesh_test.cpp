// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
#include <zero/comm/mesh.hpp>
#include <zero/comm/run_threads.hpp>
#include <zero/comm/self_communicator.hpp>

BOOST_AUTO_TEST_SUITE(mesh_test)

using Comm = zero::ThreadCommunicator;

std::vector<std::uint64_t> gathered(const Comm& comm, std::uint64_t mine) {
  std::vector<std::uint64_t> all(comm.size());
  comm.all_gather(&mine, all.data(), 1);
  return all;
}

BOOST_AUTO_TEST_CASE(replicas_and_shards_are_where_the_formula_says) {
  struct Shape {
    std::size_t replicas, shards;
  };
  for (const auto [replicas, shards] : {Shape{1, 4}, Shape{2, 2}, Shape{4, 1}, Shape{2, 3},
                                        Shape{3, 2}, Shape{2, 4}, Shape{1, 1}}) {
    std::vector<std::string> wrong(replicas * shards);
    zero::run_threads(replicas * shards, [&, R = replicas, S = shards](Comm& comm) {
      const zero::Mesh<Comm> mesh = zero::mesh(comm, R);
      const std::size_t replica = comm.rank() / S;
      const std::size_t shard = comm.rank() % S;
      std::string& text = wrong[comm.rank()];
      if (mesh.world.size() != R * S || mesh.world.rank() != comm.rank()) text += "world ";
      if (mesh.shard.size() != S || mesh.shard.rank() != shard) text += "shard ";
      if (mesh.replicate.size() != R || mesh.replicate.rank() != replica) text += "replicate ";
      const auto in_shard = gathered(mesh.shard, comm.rank());
      for (std::size_t s = 0; s < S; ++s) {
        if (in_shard[s] != replica * S + s) text += "shard's members ";
      }
      const auto in_replicate = gathered(mesh.replicate, comm.rank());
      for (std::size_t r = 0; r < R; ++r) {
        if (in_replicate[r] != r * S + shard) text += "replicate's members ";
      }
    });
    for (const std::string& text : wrong) BOOST_TEST(text == "");
  }
}

BOOST_AUTO_TEST_CASE(a_plain_mesh_shards_over_the_world_and_replicates_nothing) {
  std::vector<int> right(3);
  zero::run_threads(3, [&](Comm& comm) {
    const zero::Mesh<Comm> mesh = zero::mesh(comm);
    const bool sizes = mesh.shard.size() == 3 && mesh.replicate.size() == 1;
    const auto before = comm.sent().total();
    gathered(mesh.shard, 1);
    // The shard communicator is the world, not a copy of it with an order of its own.
    right[comm.rank()] = sizes && comm.sent().total() == before + 16;
  });
  BOOST_TEST((right == std::vector<int>(3, 1)));
}

BOOST_AUTO_TEST_CASE(one_rank_alone_is_a_mesh_too) {
  const zero::SelfCommunicator comm;
  for (const auto& mesh : {zero::mesh(comm), zero::mesh(comm, 1)}) {
    BOOST_TEST(mesh.shard.size() == 1U);
    BOOST_TEST(mesh.replicate.size() == 1U);
  }
}

BOOST_AUTO_TEST_CASE(replicas_must_divide_the_ranks) {
  const zero::SelfCommunicator comm;
  BOOST_CHECK_THROW(zero::mesh(comm, 0), zero::ContractError);
  BOOST_CHECK_EXCEPTION(zero::mesh(comm, 2), zero::ContractError, [](const auto& error) {
    return std::string(error.what()).find("1 ranks do not make 2 replicas") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
