// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Communicators and what they exchange. Private to the emulator; with the lock held.
#pragma once

#include <nccl.h>

#include <set>
#include <utility>

#include "call.hpp"

namespace emulator {

/// Thrown inside of an entry point of NCCL, which then returns it.
struct NcclFailure {
  ncclResult_t result;
};

/// A reduction: an operator of NCCL's own, or a sum of what each rank scales by a scalar of its
/// own.
struct Reduction {
  ncclRedOp_t op = ncclSum;
  bool scales = false;
  ncclDataType_t scalar_type = ncclFloat32;
  const void* device_scalar = nullptr;  ///< Read when the collective runs; or else:
  unsigned char scalar[8] = {};
};

enum class Op { all_gather, reduce_scatter, all_reduce, broadcast, reduce, send, receive };

/// One rank's call of a collective, or of a send or receive.
struct Transfer {
  Op op;
  const void* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  Reduction reduction = {};
  int peer = 0;  ///< The root; of a send or receive the other rank.
};
std::size_t bytes_of(ncclDataType_t type);
const char* name_of(Op op);
bool reduces(Op op);
/// As "ncclAllReduce of 5 elements of ncclFloat32 (sum)".
std::string describe(const Transfer& transfer);

/// What one rank brings to a collective.
struct Arrival {
  Transfer transfer = {};
  bool here = false;
  char arrived = 0;  ///< Edge from the work before it on this rank's stream.
  char read = 0;     ///< Edge from this rank's reading of others' buffers.
};
struct Collective {
  std::vector<Arrival> arrivals;
  int here = 0;
  int read = 0;
  int left = 0;
  bool compared = false;
  std::string mismatch = {};
  std::vector<unsigned char> result = {};  ///< Of an all-reduce; each rank computes a part.
};
struct Message {
  Transfer transfer;
  int from_rank;
  bool taken = false;
  bool copied = false;
  char sent = 0;  ///< Edges as in Arrival.
  char received = 0;
};

/// The ranks of a communicator together.
struct World {
  unsigned long long id;
  int size;
  std::condition_variable changed = {};
  std::map<std::uint64_t, std::shared_ptr<Collective>> collectives = {};
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> mail = {};
};

struct Communicator;

/// Where ranks meet to make communicators.
struct Meeting {
  struct Guest {
    int color;
    int key;
    int device;
  };
  struct Place {
    std::shared_ptr<World> world;
    int rank;
  };
  int expected;
  std::map<int, Guest> guests = {};
  std::map<int, Place> places = {};
  bool complete = false;
  std::string error = {};
};

/// One rank's communicator.
struct Communicator {
  int device;
  bool blocking;
  std::shared_ptr<Meeting> birth;  ///< Until its place there is taken.
  int guest;                       ///< Its rank in that meeting.
  std::string meeting_name;
  std::shared_ptr<World> world = nullptr;
  int rank = -1;
  bool connected = false;  ///< The first transfers of one that does not block take a while.
  std::vector<std::function<void(Lock&)>> connecting = {};
  int polls = 0;
  bool finalised = false;
  bool aborted = false;
  bool destroyed = false;
  ncclResult_t async = ncclSuccess;
  std::string last_error = {};
  std::uint64_t collectives = 0;  ///< How many it issued.
  std::uint64_t issued = 0;       ///< Collectives and groups of sends and receives.
  std::uint64_t turn = 0;         ///< The one of them that may run.
  unsigned in_flight = 0;
  std::uint64_t meetings = 0;
  std::map<int, Reduction> reductions = {};
  std::map<std::uintptr_t, const void*> registrations = {};
};
using CommunicatorPointer = std::shared_ptr<Communicator>;

/// Held by work of a communicator that is enqueued; the end of it, run or not, is the next one's
/// turn. Made and destroyed with the lock held.
class Ticket {
 public:
  Ticket(CommunicatorPointer communicator, bool collective);
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  Communicator& communicator() const { return *communicator_; }
  std::uint64_t order() const { return order_; }
  std::uint64_t number() const { return number_; }

 private:
  CommunicatorPointer communicator_;
  std::uint64_t order_;   ///< Among all that this rank issued.
  std::uint64_t number_;  ///< Among the collectives, equal on all ranks.
};

Handles<ncclComm_t, Communicator>& communicators();
/// Errors: NcclFailure, after a report, if there is none.
CommunicatorPointer find_communicator(Lock&, ncclComm_t handle);
/// The same, ready for transfers: made, not aborted, without an error.
CommunicatorPointer find_ready_communicator(Lock&, ncclComm_t handle);
/// Takes the communicator's place if its meeting is complete; false if it is not.
bool take_place(Lock&, Communicator& communicator);
/// Takes an aborted communicator out of a meeting that is not complete.
void leave_meeting(Lock&, Communicator& communicator);
/// Blocks until the communicator is made or aborted.
void wait_until_made(Lock&, Communicator& communicator);
/// Blocks until nothing of the communicator is in flight.
void wait_until_idle(Lock&, Communicator& communicator);
/// Blocks until all ranks of the communicator called it, or this one is aborted.
void meet(Lock&, Communicator& communicator, const std::string& what);
void wake_meetings(Lock&);
void set_last_error(Lock&, Communicator* communicator, const std::string& text);

/// Blocks until the other ranks did the same as well, and copies or sums. Called on a stream.
void run_collective(const Ticket& ticket, const Transfer& transfer);
/// Does the sends and receives of one group.
void run_messages(const Ticket& ticket, const std::vector<Transfer>& transfers);
/// to[i] = the reduction of element first + i of all ranks, for i in [0, count).
void reduce(const std::vector<Arrival>& arrivals, std::size_t first, std::size_t count, void* to);

/// Groups: what a thread calls between ncclGroupStart and ncclGroupEnd happens at the end.
int& group_depth();
/// A call inside of a group failed: the group will do nothing and return this.
void fail_group(ncclResult_t result);
/// Done by ncclGroupEnd, after what was posted.
void at_group_end(std::function<ncclResult_t(Lock&)> finish);

struct NcclCounts {
  std::size_t communicators;
  std::size_t operators;
  std::size_t registrations;
};
NcclCounts count_nccl(Lock&);

/// Runs the body of an entry point of NCCL.
template <class Function>
ncclResult_t nccl_call(const char* name, Kind kind, Function function) {
  if (in_host_function()) return ncclInvalidUsage;
  Hidden hidden;
  const auto fault = begin_call(name);
  ncclResult_t result = fault ? fault->nccl : ncclSuccess;
  if (!fault || kind == Kind::destroys) {
    try {
      Lock held = lock();
      const ncclResult_t own = function(held);
      if (!fault) result = own;
    } catch (const NcclFailure& failure) {
      if (!fault) result = failure.result;
    } catch (const CudaFailure&) {
      if (!fault) result = ncclUnhandledCudaError;
    }
  }
  if (result != ncclSuccess && result != ncclInProgress) fail_group(result);
  return result;
}

}  // namespace emulator
