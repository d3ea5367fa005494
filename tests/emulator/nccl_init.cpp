// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How communicators come to be: ranks meet, and the last to come assigns everybody's place.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "nccl.hpp"

namespace emulator {
namespace {

struct Meetings {
  std::map<std::string, std::weak_ptr<Meeting>> open;
  std::condition_variable changed;
  unsigned long long worlds_made = 0;
};
Meetings& meetings() {
  static Meetings* const only = new Meetings;
  return *only;
}

/// Ranks of one color form a world, in the order of their keys.
void assign_places(Meeting& meeting) {
  std::vector<std::tuple<int, int, int>> order;
  for (const auto& [rank, guest] : meeting.guests) {
    if (guest.color >= 0) order.emplace_back(guest.color, guest.key, rank);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size();) {
    auto world = std::shared_ptr<World>(new World{++meetings().worlds_made, 0});
    std::map<int, int> rank_of_device;
    for (const int color = std::get<0>(order[i]);
         i < order.size() && std::get<0>(order[i]) == color; ++i) {
      const int guest = std::get<2>(order[i]);
      const int rank = world->size++;
      meeting.places[guest] = {world, rank};
      const auto [other, first] = rank_of_device.emplace(meeting.guests[guest].device, rank);
      if (first) continue;
      meeting.error = "Duplicate GPU detected: rank " + std::to_string(other->second) +
                      " and rank " + std::to_string(rank) + " both on device " +
                      std::to_string(other->first);
    }
  }
}

/// Joins the meeting of that name, which is complete when `expected` ranks came.
std::shared_ptr<Meeting> join(Lock& held, const std::string& name, int expected, int rank,
                              Meeting::Guest guest) {
  auto meeting = meetings().open[name].lock();
  if (!meeting) {
    meeting = std::make_shared<Meeting>(Meeting{expected});
    meetings().open[name] = meeting;
  }
  if (meeting->expected != expected || meeting->guests.count(rank) != 0) {
    report(held,
           "a communicator was made with one id, but with different numbers of ranks or by "
           "two of one rank");
    throw NcclFailure{ncclInvalidUsage};
  }
  meeting->guests[rank] = guest;
  if (meeting->guests.size() == static_cast<std::size_t>(expected)) {
    assign_places(*meeting);
    meeting->complete = true;
    meetings().open.erase(name);
    meetings().changed.notify_all();
  }
  return meeting;
}

bool blocking_of(const ncclConfig_t* config, bool inherited) {
  if (!config) return inherited;
  if (config->magic != 0xcafebeef) throw NcclFailure{ncclInvalidArgument};
  if (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config->minCTAs > config->maxCTAs) {
    throw NcclFailure{ncclInvalidArgument};
  }
  if (config->blocking == NCCL_CONFIG_UNDEF_INT) return inherited;
  if (config->blocking != 0 && config->blocking != 1) throw NcclFailure{ncclInvalidArgument};
  return config->blocking == 1;
}

ncclResult_t result_of(Lock& held, Communicator& made) {
  wait_until_made(held, made);
  return made.async;
}

/// Adds the communicator; it is made at the end of a group, at once, or in a while.
ncclResult_t finish_init(Lock& held, CommunicatorPointer made, ncclComm_t* handle) {
  made->connected = made->blocking;
  *handle = communicators().add(made);
  if (!made->blocking) return take_place(held, *made) ? ncclSuccess : ncclInProgress;
  if (group_depth() > 0) {
    at_group_end([made](Lock& inner) { return result_of(inner, *made); });
    return ncclSuccess;
  }
  const ncclResult_t result = result_of(held, *made);
  if (result != ncclSuccess) {
    communicators().take(*handle);
    *handle = nullptr;
  }
  return result;
}

ncclResult_t init(Lock& held, ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  if (!handle || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  const std::string name(id.internal, sizeof id.internal);
  auto made = std::make_shared<Communicator>(
      Communicator{current_device(), blocking_of(config, true), nullptr, rank, name});
  made->birth = join(held, name, ranks, rank, {0, rank, current_device()});
  return finish_init(held, made, handle);
}

/// Makes a communicator of some ranks of another one.
ncclResult_t derive(Lock& held, Communicator& parent, const std::string& what, int expected,
                    int color, int key, ncclComm_t* handle, const ncclConfig_t* config) {
  const bool blocking = blocking_of(config, parent.blocking);
  const std::string name =
      what + " " + std::to_string(parent.world->id) + " " + std::to_string(parent.meetings++);
  auto meeting = join(held, name, expected, parent.rank, {color, key, parent.device});
  *handle = nullptr;
  if (color < 0) return ncclSuccess;
  auto made = std::make_shared<Communicator>(
      Communicator{parent.device, blocking, std::move(meeting), parent.rank, name});
  return finish_init(held, made, handle);
}

}  // namespace

bool take_place(Lock& held, Communicator& communicator) {
  if (!communicator.birth) return true;
  if (!communicator.birth->complete) return false;
  if (!communicator.birth->error.empty()) {
    set_last_error(held, &communicator, communicator.birth->error);
    communicator.async = ncclInvalidUsage;
  }
  const Meeting::Place& place = communicator.birth->places[communicator.guest];
  communicator.world = place.world;
  communicator.rank = place.rank;
  communicator.birth = nullptr;
  return true;
}

void leave_meeting(Lock&, Communicator& communicator) {
  if (!communicator.birth || communicator.birth->complete) return;
  communicator.birth->guests.erase(communicator.guest);
}

void wait_until_made(Lock& held, Communicator& communicator) {
  while (!communicator.aborted && !take_place(held, communicator)) {
    meetings().changed.wait(held);
  }
}

void meet(Lock& held, Communicator& communicator, const std::string& what) {
  const std::string name = what + " " + std::to_string(communicator.world->id) + " " +
                           std::to_string(communicator.meetings++);
  const auto meeting =
      join(held, name, communicator.world->size, communicator.rank, {-1, 0, communicator.device});
  while (!communicator.aborted && !meeting->complete) meetings().changed.wait(held);
}

void wake_meetings(Lock&) { meetings().changed.notify_all(); }

}  // namespace emulator

using namespace emulator;

extern "C" {
ncclResult_t ncclGetVersion(int* version) {
  return nccl_call("ncclGetVersion", Kind::asks, [&](Lock&) {
    if (!version) return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", Kind::uses, [&](Lock&) {
    static unsigned made = 0;
    if (!id) return ncclInvalidArgument;
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->internal, sizeof id->internal, "emulator %u", ++made);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommInitRank(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank) {
  return nccl_call("ncclCommInitRank", Kind::uses,
                   [&](Lock& held) { return init(held, handle, ranks, id, rank, nullptr); });
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return nccl_call("ncclCommInitRankConfig", Kind::uses,
                   [&](Lock& held) { return init(held, handle, ranks, id, rank, config); });
}
ncclResult_t ncclCommInitAll(ncclComm_t* handles, int ranks, const int* devices) {
  return nccl_call("ncclCommInitAll", Kind::uses, [&](Lock& held) {
    static unsigned made = 0;
    if (!handles || ranks < 1) return ncclInvalidArgument;
    const std::string name = "all " + std::to_string(++made);
    for (int rank = 0; rank < ranks; ++rank) {
      const int device = devices ? devices[rank] : rank;
      if (device < 0 || device >= state().device_count) return ncclInvalidArgument;
      auto member = std::make_shared<Communicator>(
          Communicator{device, true, join(held, name, ranks, rank, {0, rank, device}), rank, name});
      member->connected = true;
      handles[rank] = communicators().add(member);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      Communicator& member = *communicators().find(handles[rank]);
      take_place(held, member);
      if (member.async == ncclSuccess) continue;
      for (int each = 0; each < ranks; ++each) communicators().take(handles[each]);
      return ncclInvalidUsage;
    }
    return ncclSuccess;
  });
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* handle,
                           ncclConfig_t* config) {
  return nccl_call("ncclCommSplit", Kind::uses, [&](Lock& held) {
    if (!handle || color < NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
    const auto from = find_ready_communicator(held, parent);
    return derive(held, *from, "split", from->world->size, color, key, handle, config);
  });
}
ncclResult_t ncclCommShrink(ncclComm_t parent, int* excluded, int count, ncclComm_t* handle,
                            ncclConfig_t* config, int flags) {
  return nccl_call("ncclCommShrink", Kind::uses, [&](Lock& held) {
    if (!handle || !excluded || count < 1) return ncclInvalidArgument;
    const auto from = find_communicator(held, parent);
    if (!from->world) return ncclInvalidArgument;
    const std::set<int> out(excluded, excluded + count);
    if (out.count(from->rank) != 0 || *out.begin() < 0 || *out.rbegin() >= from->world->size) {
      return ncclInvalidArgument;
    }
    if (flags == NCCL_SHRINK_ABORT) {
      from->aborted = true;
      wait_until_idle(held, *from);
      from->aborted = false;
    } else if (from->async != ncclSuccess || from->aborted) {
      return ncclInvalidUsage;
    }
    std::string name = "shrink";
    for (const int rank : out) name += " -" + std::to_string(rank);
    const int left = from->world->size - static_cast<int>(out.size());
    return derive(held, *from, name, left, 0, from->rank, handle, config);
  });
}
}
