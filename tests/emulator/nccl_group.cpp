// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Entry points of the collectives, and groups of them.
#include "memory.hpp"
#include "nccl.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

struct Posted {
  CommunicatorPointer communicator;
  StreamPointer stream;
  std::vector<Transfer> transfers;  ///< One collective, or sends and receives.
};
struct ThreadGroup {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Posted> posted;
  std::vector<std::function<ncclResult_t(Lock&)>> at_end;
};
ThreadGroup& group() {
  thread_local ThreadGroup own;
  return own;
}

bool is_message(Op op) { return op == Op::send || op == Op::receive; }

Work work_of(const Posted& posted) {
  const Transfer& first = posted.transfers.front();
  const bool messages = is_message(first.op);
  Work work{.name = messages ? "ncclSend/Recv" : name_of(first.op)};
  for (const Transfer& transfer : posted.transfers) {
    work.bytes += transfer.count * bytes_of(transfer.type);
  }
  work.issue = [communicator = posted.communicator, transfers = posted.transfers,
                messages](Lock& held) -> Body {
    if (communicator->destroyed) {
      report(held, "a graph was launched with work of a communicator that is destroyed");
      return {};
    }
    auto ticket = std::make_shared<Ticket>(communicator, !messages);
    if (messages) return [ticket, transfers] { run_messages(*ticket, transfers); };
    return [ticket, transfer = transfers.front()] { run_collective(*ticket, transfer); };
  };
  return work;
}

/// Sends and receives of one communicator on one stream happen together.
void gather_messages(std::vector<Posted>& all) {
  std::vector<Posted> gathered;
  for (Posted& posted : all) {
    Posted* with = nullptr;
    for (Posted& earlier : gathered) {
      if (earlier.communicator == posted.communicator && earlier.stream == posted.stream &&
          is_message(earlier.transfers.front().op) && is_message(posted.transfers.front().op)) {
        with = &earlier;
      }
    }
    if (with) {
      with->transfers.push_back(posted.transfers.front());
    } else {
      gathered.push_back(std::move(posted));
    }
  }
  all = std::move(gathered);
}

ncclResult_t launch(Lock& held) {
  ThreadGroup& own = group();
  std::vector<Posted> all = std::exchange(own.posted, {});
  const auto at_end = std::exchange(own.at_end, {});
  ncclResult_t result = std::exchange(own.error, ncclSuccess);
  if (result == ncclSuccess) {
    gather_messages(all);
    for (const Posted& posted : all) {
      if (posted.communicator->connected) {
        submit(held, posted.stream, work_of(posted));
        continue;
      }
      // It is on the stream only when ncclCommGetAsyncError says that it is.
      posted.communicator->connecting.push_back(
          [posted](Lock& inner) { submit(inner, posted.stream, work_of(posted)); });
      result = ncclInProgress;
    }
  }
  for (const auto& finish : at_end) {
    const ncclResult_t own_result = finish(held);
    if (result == ncclSuccess) result = own_result;
  }
  return result;
}

void check_buffer(Lock& held, const Communicator& communicator, const Transfer& transfer,
                  const void* buffer, std::size_t bytes) {
  std::string wrong = wrong_device_access(held, buffer, bytes);
  if (wrong.empty() && bytes != 0 && find_allocation(held, buffer)->device != communicator.device) {
    wrong = "memory of another device than the communicator's";
  }
  if (wrong.empty()) return;
  report(held, "rank " + std::to_string(communicator.rank) + " called " + describe(transfer) +
                   ", but " + wrong);
  throw NcclFailure{ncclInvalidArgument};
}

/// Both buffers lie in live memory of the device, and overlap only as "in place" is defined.
void check_buffers(Lock& held, const Communicator& communicator, const Transfer& t) {
  const std::size_t part = t.count * bytes_of(t.type);
  const std::size_t whole = part * static_cast<std::size_t>(communicator.world->size);
  const std::size_t own = part * static_cast<std::size_t>(communicator.rank);
  const std::size_t in = t.op == Op::reduce_scatter ? whole : part;
  const std::size_t out = t.op == Op::all_gather ? whole : part;
  const bool root = communicator.rank == t.peer;
  const bool reads = t.op != Op::receive && (t.op != Op::broadcast || root);
  const bool writes = t.op != Op::send && (t.op != Op::reduce || root);
  if (reads) check_buffer(held, communicator, t, t.from, in);
  if (writes) check_buffer(held, communicator, t, t.to, out);
  if (!reads || !writes || part == 0) return;
  const char* const from = static_cast<const char*>(t.from);
  const char* const to = static_cast<const char*>(t.to);
  const bool in_place = t.op == Op::all_gather       ? from == to + own
                        : t.op == Op::reduce_scatter ? to == from + own
                                                     : from == to;
  if (in_place || from + in <= to || to + out <= from) return;
  report(held, "rank " + std::to_string(communicator.rank) + " called " + describe(t) +
                   ", whose buffers overlap, but not as in place");
  throw NcclFailure{ncclInvalidArgument};
}

Reduction find_reduction(const Communicator& communicator, ncclRedOp_t op, ncclDataType_t type) {
  if (op < ncclNumOps) return {.op = op};
  const auto found = communicator.reductions.find(op);
  if (found == communicator.reductions.end() || found->second.scalar_type != type) {
    throw NcclFailure{ncclInvalidArgument};
  }
  return found->second;
}

ncclResult_t post(const char* name, ncclComm_t handle, cudaStream_t stream_handle, Transfer t,
                  ncclRedOp_t op = ncclSum) {
  return nccl_call(name, Kind::uses, [&](Lock& held) {
    const auto communicator = find_ready_communicator(held, handle);
    if (bytes_of(t.type) == 0) return ncclInvalidArgument;
    if (t.peer < 0 || t.peer >= communicator->world->size) return ncclInvalidArgument;
    t.reduction = find_reduction(*communicator, op, t.type);
    if (reduces(t.op) && bytes_of(t.type) == 1 && t.type > ncclUint8) {
      report(held, "sums of 8-bit floats are not emulated");
      return ncclInvalidArgument;
    }
    const StreamPointer stream = find_stream(held, stream_handle);
    if (stream->device != communicator->device) {
      report(held, "rank " + std::to_string(communicator->rank) + " called " + describe(t) +
                       " with a stream of another device");
      return ncclInvalidArgument;
    }
    check_buffers(held, *communicator, t);
    group().posted.push_back({communicator, stream, {t}});
    return group().depth == 0 ? launch(held) : ncclSuccess;
  });
}

}  // namespace

int& group_depth() { return group().depth; }
void fail_group(ncclResult_t result) {
  if (group().depth != 0 && group().error == ncclSuccess) group().error = result;
}
void at_group_end(std::function<ncclResult_t(Lock&)> finish) {
  group().at_end.push_back(std::move(finish));
}

}  // namespace emulator

using namespace emulator;

extern "C" {
ncclResult_t ncclGroupStart() {
  return nccl_call("ncclGroupStart", Kind::uses, [](Lock&) {
    ++group_depth();
    return ncclSuccess;
  });
}
ncclResult_t ncclGroupEnd() {
  return nccl_call("ncclGroupEnd", Kind::destroys, [](Lock& held) {
    if (group_depth() == 0) return ncclInvalidUsage;
    return --group_depth() == 0 ? launch(held) : ncclSuccess;
  });
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return post("ncclAllGather", comm, stream, {Op::all_gather, from, to, count, type});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return post("ncclReduceScatter", comm, stream, {Op::reduce_scatter, from, to, count, type}, op);
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return post("ncclAllReduce", comm, stream, {Op::all_reduce, from, to, count, type}, op);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return post("ncclBroadcast", comm, stream, {Op::broadcast, from, to, count, type, {}, root});
}
ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return post("ncclBcast", comm, stream, {Op::broadcast, buffer, buffer, count, type, {}, root});
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return post("ncclReduce", comm, stream, {Op::reduce, from, to, count, type, {}, root}, op);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return post("ncclSend", comm, stream, {Op::send, from, nullptr, count, type, {}, peer});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post("ncclRecv", comm, stream, {Op::receive, nullptr, to, count, type, {}, peer});
}
}
