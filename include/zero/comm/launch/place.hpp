// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Which rank the launcher made this process. Includes base/.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>

namespace zero {

/// A process among those that were started together.
struct LaunchPlace {
  std::size_t rank = 0, size = 1;                     ///< among all that were started together
  std::optional<std::size_t> local_rank, local_size;  ///< among those on this machine
  std::string launcher;                               ///< "torchrun", or "Open MPI and Slurm"
  std::string run;  ///< what tells this run from others, where the launcher has such a name
  std::string master_address;                ///< MASTER_ADDR: where rank 0 can be reached
  std::optional<std::uint16_t> master_port;  ///< MASTER_PORT
};

/// The value of an environment variable; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char*)>;

namespace detail {

/// The variables by which a launcher tells a process its place.
struct LauncherNames {
  const char* launcher;
  const char *rank, *size, *local_rank, *local_size, *run;
  bool every_shell_has_size = false;  // in a job, also without a rank
};

inline constexpr LauncherNames launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_JOB_ID", true}};

class LaunchFinder {
 public:
  explicit LaunchFinder(EnvironmentLookup lookup) : lookup_(std::move(lookup)) {}

  std::optional<LaunchPlace> find() const {
    const std::optional<std::string_view> only = value("ZERO_LAUNCHER");
    std::vector<Found> all;
    bool known = !only.has_value();
    for (const LauncherNames& names : launchers) {
      known = known || names.launcher == *only;
      if (only.has_value() && names.launcher != *only) continue;
      if (std::optional<Found> found = read(names)) all.push_back(std::move(*found));
    }
    if (!known) {
      refuse("ZERO_LAUNCHER is '" + std::string(*only) +
             "'. Set it to torchrun, Open MPI, PMI or Slurm, or not at all.");
    }
    // Slurm tells a batch script of its job as well; what the script then starts has a step.
    if (all.size() > 1 && all.back().names->launcher == std::string_view("Slurm") &&
        !value("SLURM_STEP_ID").has_value()) {
      all.pop_back();
    }
    if (all.empty()) return std::nullopt;
    LaunchPlace place = all.front().place;
    for (std::size_t i = 1; i < all.size(); ++i) merge(place, all.front(), all[i]);
    if (const auto address = value("MASTER_ADDR")) place.master_address = *address;
    if (const auto port = number("MASTER_PORT", 1, 65535)) {
      place.master_port = static_cast<std::uint16_t>(*port);
    }
    return place;
  }

 private:
  struct Found {
    const LauncherNames* names;
    LaunchPlace place;
  };

  [[noreturn]] static void refuse(const std::string& what) {
    throw ContractError("find_launch_place: " + what);
  }

  std::optional<std::string_view> value(const char* name) const {
    const char* const text = name == nullptr ? nullptr : lookup_(name);
    if (text == nullptr) return std::nullopt;
    return text;
  }

  std::optional<std::size_t> number(const char* name, std::size_t least, std::size_t most) const {
    const std::optional<std::string_view> text = value(name);
    if (!text.has_value()) return std::nullopt;
    std::size_t result = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, result);
    if (error != std::errc{} || stop != end || result < least || result > most) {
      refuse(std::string(name) + " is '" + std::string(*text) + "', not a whole number from " +
             std::to_string(least) + " to " + std::to_string(most) +
             ". Set what the launcher sets, or nothing.");
    }
    return result;
  }

  std::optional<Found> read(const LauncherNames& names) const {
    constexpr std::size_t most = 1 << 24;  // ranks
    const auto size = number(names.size, 1, most);
    const auto rank = number(names.rank, 0, (size.has_value() ? *size : most) - 1);
    if (!rank.has_value() && (!size.has_value() || names.every_shell_has_size)) {
      return std::nullopt;
    }
    if (!rank.has_value() || !size.has_value()) {
      refuse(std::string(rank.has_value() ? names.rank : names.size) + " is set, but " +
             (rank.has_value() ? names.size : names.rank) + " is not. " + names.launcher +
             " sets both: set both, or none.");
    }
    Found found{&names, {}};
    LaunchPlace& place = found.place;
    place.rank = *rank;
    place.size = *size;
    place.launcher = names.launcher;
    if (names.local_size != nullptr) place.local_size = number(names.local_size, 1, *size);
    const std::size_t local = place.local_size.has_value() ? *place.local_size : *size;
    place.local_rank = number(names.local_rank, 0, local - 1);
    if (const auto run = value(names.run)) place.run = *run;
    return found;
  }

  /// Adds what another launcher knows. Errors: ContractError if it says something else.
  static void merge(LaunchPlace& place, const Found& first, const Found& other) {
    const auto differs = [](const auto& a, const auto& b) {
      return a.has_value() && b.has_value() && *a != *b;
    };
    const LaunchPlace& more = other.place;
    if (place.rank != more.rank || place.size != more.size ||
        differs(place.local_rank, more.local_rank) || differs(place.local_size, more.local_size)) {
      refuse("two launchers contradict each other: " + text_of(first) + "; " + text_of(other) +
             ". Set ZERO_LAUNCHER to the one that started this process, as in ZERO_LAUNCHER='" +
             first.names->launcher + "'.");
    }
    if (!place.local_rank.has_value()) place.local_rank = more.local_rank;
    if (!place.local_size.has_value()) place.local_size = more.local_size;
    if (place.run.empty()) place.run = more.run;
    place.launcher += " and " + more.launcher;
  }

  /// "torchrun: RANK 1, WORLD_SIZE 4, LOCAL_RANK 1".
  static std::string text_of(const Found& found) {
    const LauncherNames& names = *found.names;
    const LaunchPlace& place = found.place;
    std::string text = std::string(names.launcher) + ": " + names.rank + " " +
                       std::to_string(place.rank) + ", " + names.size + " " +
                       std::to_string(place.size);
    const auto add = [&text](const char* name, const std::optional<std::size_t>& number) {
      if (number.has_value())
        text.append(", ").append(name).append(" ").append(std::to_string(*number));
    };
    add(names.local_rank, place.local_rank);
    if (names.local_size != nullptr) add(names.local_size, place.local_size);
    return text;
  }

  EnvironmentLookup lookup_;
};

}  // namespace detail

/// The place that torchrun, Open MPI, MPICH and others with PMI, or Slurm gave this process, from
/// their environment variables; none if none of them started it: then it is the caller who decides
/// whether one process alone makes sense.
///
/// Where several launchers took part and each started other processes (torchrun within srun), the
/// variable ZERO_LAUNCHER names the one that counts.
///
/// Errors:  ContractError if launchers contradict each other, or if a variable is missing or is no
///          number in its range; the text shows what is set.
inline std::optional<LaunchPlace> find_launch_place(
    const EnvironmentLookup& lookup = [](const char* name) {
      return static_cast<const char*>(std::getenv(name));
    }) {
  return detail::LaunchFinder(lookup).find();
}

}  // namespace zero
