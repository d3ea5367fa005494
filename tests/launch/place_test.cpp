// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The place of a process from what launchers set.
#include <boost/test/unit_test.hpp>
#include <map>
#include <optional>
#include <string>
#include <zero/comm/launch/place.hpp>

BOOST_AUTO_TEST_SUITE(place_test)

using Variables = std::map<std::string, std::string>;

std::optional<zero::LaunchPlace> find(const Variables& set) {
  return zero::find_launch_place([&set](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

/// The sentence that the variables are refused with; empty if they are accepted.
std::string refusal(const Variables& set) {
  try {
    find(set);
    return "";
  } catch (const zero::ContractError& error) { return error.what(); }
}

Variables with(Variables set, const Variables& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

const Variables torchrun = {{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "n0"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "run7"}};
const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables mpich = {
    {"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
const Variables slurm = {{"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "0"}};

BOOST_AUTO_TEST_CASE(each_launcher_alone_gives_rank_size_and_local_rank) {
  for (const auto& [set, name] : {std::pair(torchrun, "torchrun"),
                                  {open_mpi, "Open MPI"},
                                  {mpich, "PMI"},
                                  {slurm, "Slurm"}}) {
    const auto place = find(set);
    BOOST_REQUIRE(place.has_value());
    BOOST_TEST(place->launcher == name);
    BOOST_TEST(place->rank == 5U);
    BOOST_TEST(place->size == 8U);
    BOOST_TEST((place->local_rank == 1U));
    BOOST_TEST((place->local_size == (set == slurm ? std::nullopt : std::optional(4U))));
    BOOST_TEST(place->master_address == (set == torchrun ? "n0" : ""));
    BOOST_TEST((place->master_port.has_value() == (set == torchrun)));
  }
  BOOST_TEST(find(torchrun)->master_port.value() == 29500);
  BOOST_TEST(find(torchrun)->run == "run7");
  BOOST_TEST(find(slurm)->run == "4711");
}

BOOST_AUTO_TEST_CASE(where_nothing_is_set_there_is_no_place) {
  BOOST_TEST(!find({}).has_value());
  BOOST_TEST(!find({{"MASTER_ADDR", "n0"}, {"LOCAL_RANK", "3"}}).has_value());
  // Any shell in a job sees its number of tasks.
  BOOST_TEST(!find({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}).has_value());
}

BOOST_AUTO_TEST_CASE(launchers_that_agree_add_to_each_other) {
  const auto place = find(with(slurm, with(mpich, {{"MASTER_PORT", "1"}})));
  BOOST_TEST(place->launcher == "PMI and Slurm");
  BOOST_TEST((place->local_size == 4U));
  BOOST_TEST(place->run == "4711");
  BOOST_TEST(place->master_port.value() == 1);
  Variables plain = torchrun;
  plain.erase("LOCAL_RANK");
  BOOST_TEST(!find(plain)->local_rank.has_value());
  BOOST_TEST((find(with(plain, open_mpi))->local_rank == 1U));
}

BOOST_AUTO_TEST_CASE(a_contradiction_shows_both_and_what_to_do) {
  const Variables both =
      with(torchrun,
           with(slurm, {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}));
  const std::string text = refusal(both);
  for (const char* part :
       {"torchrun: RANK 5, WORLD_SIZE 8, LOCAL_RANK 1, LOCAL_WORLD_SIZE 4",
        "Slurm: SLURM_PROCID 1, SLURM_NTASKS 2, SLURM_LOCALID 0", "ZERO_LAUNCHER='torchrun'"}) {
    BOOST_TEST(text.find(part) != std::string::npos, text << " lacks " << part);
  }
  BOOST_TEST(find(with(both, {{"ZERO_LAUNCHER", "torchrun"}}))->rank == 5U);
  BOOST_TEST(find(with(both, {{"ZERO_LAUNCHER", "Slurm"}}))->rank == 1U);
  BOOST_TEST(!find(with(both, {{"ZERO_LAUNCHER", "PMI"}})).has_value());
  BOOST_TEST(refusal(with(both, {{"ZERO_LAUNCHER", "ssh"}})).find("'ssh'") != std::string::npos);
  for (const Variables& other :
       {Variables{{"PMI_RANK", "4"}}, Variables{{"PMI_SIZE", "9"}},
        Variables{{"MPI_LOCALRANKID", "0"}}, Variables{{"MPI_LOCALNRANKS", "2"}}}) {
    BOOST_TEST(refusal(with(open_mpi, with(mpich, other))).find("contradict") != std::string::npos);
  }
}

// A batch script is rank 0 of its job; what it starts with mpirun is something else.
BOOST_AUTO_TEST_CASE(a_batch_script_of_slurm_does_not_contradict_what_it_starts) {
  Variables batch = with(slurm, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});
  batch.erase("SLURM_STEP_ID");
  BOOST_TEST(find(with(batch, open_mpi))->launcher == "Open MPI");
  BOOST_TEST(find(batch)->launcher == "Slurm");
}

BOOST_AUTO_TEST_CASE(what_is_no_number_in_its_range_is_refused_by_name_and_value) {
  for (const auto& [name, value] : {std::pair("RANK", "-1"),
                                    {"RANK", "8"},
                                    {"RANK", ""},
                                    {"RANK", "0x1"},
                                    {"RANK", " 1"},
                                    {"RANK", "1.0"},
                                    {"RANK", "99999999999999999999"},
                                    {"WORLD_SIZE", "0"},
                                    {"WORLD_SIZE", "many"},
                                    {"LOCAL_RANK", "4"},
                                    {"LOCAL_WORLD_SIZE", "9"},
                                    {"LOCAL_WORLD_SIZE", "0"},
                                    {"MASTER_PORT", "0"},
                                    {"MASTER_PORT", "65536"},
                                    {"MASTER_PORT", "http"}}) {
    const std::string text = refusal(with(torchrun, {{name, value}}));
    const std::string part = std::string(name) + " is '" + value + "', not a whole number from ";
    BOOST_TEST(text.find(part) != std::string::npos, text << " lacks " << part);
  }
}

BOOST_AUTO_TEST_CASE(half_a_place_is_refused) {
  for (const auto& [name, other] : {std::pair("RANK", "WORLD_SIZE"),
                                    {"WORLD_SIZE", "RANK"},
                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    {"PMI_SIZE", "PMI_RANK"},
                                    {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const std::string text = refusal({{name, "1"}});
    const std::string part = std::string(name) + " is set, but " + other + " is not.";
    BOOST_TEST(text.find(part) != std::string::npos, text << " lacks " << part);
  }
}

BOOST_AUTO_TEST_SUITE_END()
