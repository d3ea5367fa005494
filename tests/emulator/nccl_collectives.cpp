// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Collectives as they run on the ranks' streams: arrive, compare, read from the others, leave.
#include <algorithm>
#include <cstring>

#include "memory.hpp"
#include "nccl.hpp"

namespace emulator {

Ticket::Ticket(CommunicatorPointer communicator, bool collective)
    : communicator_(std::move(communicator)),
      order_(communicator_->issued++),
      number_(collective ? communicator_->collectives++ : 0) {
  ++communicator_->in_flight;
}
Ticket::~Ticket() {
  communicator_->turn = std::max(communicator_->turn, order_ + 1);
  --communicator_->in_flight;
  communicator_->world->changed.notify_all();
}

namespace {

/// Whether this rank's work shall end without the other ranks.
bool given_up(const Communicator& communicator) {
  return communicator.aborted || state().devices[communicator.device].sticky != cudaSuccess;
}

/// Blocks until `ready` holds; false if the rank gave up before.
template <class Ready>
bool wait_for(Lock& held, Communicator& communicator, Ready ready) {
  while (!ready()) {
    if (given_up(communicator)) return false;
    communicator.world->changed.wait(held);
  }
  return true;
}

/// A place among the collectives that may be resident on a device at once.
class Residence {
 public:
  Residence(Lock& held, Communicator& communicator)
      : count_(state().devices[communicator.device].resident_collectives),
        device_(communicator.device) {
    wait_for(held, communicator,
             [&] { return state().most_resident == 0 || count_ < state().most_resident; });
    ++count_;
  }
  ~Residence() {
    --count_;
    if (state().most_resident == 0) return;
    for (const auto& [handle, other] : communicators()) {
      if (other->device == device_ && other->world) other->world->changed.notify_all();
    }
  }
  Residence(const Residence&) = delete;
  Residence& operator=(const Residence&) = delete;

 private:
  unsigned& count_;
  int device_;
};

bool agree(const Transfer& a, const Transfer& b) {
  return a.op == b.op && a.count == b.count && a.type == b.type && a.peer == b.peer &&
         a.reduction.scales == b.reduction.scales && a.reduction.op == b.reduction.op;
}

/// Compares the calls of all ranks, once.
void compare(Lock& held, const Ticket& ticket, Collective& collective) {
  if (std::exchange(collective.compared, true)) return;
  const Transfer& first = collective.arrivals.front().transfer;
  for (std::size_t rank = 1; rank < collective.arrivals.size(); ++rank) {
    const Transfer& other = collective.arrivals[rank].transfer;
    if (agree(first, other)) continue;
    collective.mismatch = "collective " + std::to_string(ticket.number() + 1) +
                          " of a communicator is not the same on all ranks: rank 0 called " +
                          describe(first) + ", rank " + std::to_string(rank) + " called " +
                          describe(other);
    report(held, collective.mismatch);
    return;
  }
}

/// A mismatch is an error that the program is told of when it asks; the work never ends until the
/// communicator is aborted.
void hang(Lock& held, Communicator& communicator, const std::string& text) {
  communicator.async = ncclInvalidUsage;
  set_last_error(held, &communicator, text);
  wait_for(held, communicator, [] { return false; });
}

/// What the rank reads from the buffers of others.
void read(Collective& collective, const Transfer& own, std::size_t rank, std::size_t ranks) {
  const auto& arrivals = collective.arrivals;
  const std::size_t bytes = own.count * bytes_of(own.type);
  const auto root = static_cast<std::size_t>(own.peer);
  char* const to = host_view(static_cast<char*>(own.to));
  switch (own.op) {
    case Op::all_gather:
      for (std::size_t other = 0; other < ranks; ++other) {
        const void* const from = host_view(arrivals[other].transfer.from);
        if (from != to + other * bytes) std::memcpy(to + other * bytes, from, bytes);
      }
      break;
    case Op::reduce_scatter: reduce(arrivals, rank * own.count, own.count, to); break;
    case Op::all_reduce: {
      // Each rank computes a part of the result.
      const std::size_t first = own.count * rank / ranks;
      const std::size_t last = own.count * (rank + 1) / ranks;
      reduce(arrivals, first, last - first, collective.result.data() + first * bytes_of(own.type));
      break;
    }
    case Op::reduce:
      if (rank == root) reduce(arrivals, 0, own.count, to);
      break;
    case Op::broadcast: {
      const void* const from = host_view(arrivals[root].transfer.from);
      if (from != to) std::memcpy(to, from, bytes);
      break;
    }
    case Op::send:
    case Op::receive: break;
  }
}

/// Whether `reader` reads what `writer` brought.
bool reads_from(const Transfer& own, int reader, int writer) {
  if (own.op == Op::broadcast) return writer == own.peer;
  if (own.op == Op::reduce) return reader == own.peer;
  return true;
}

}  // namespace

void set_resident_collectives(unsigned most) {
  Hidden hidden;
  const Lock held = lock();
  state().most_resident = most;
}

void run_collective(const Ticket& ticket, const Transfer& own) {
  Hidden hidden;
  Communicator& communicator = ticket.communicator();
  World& world = *communicator.world;
  const auto rank = static_cast<std::size_t>(communicator.rank);
  Lock held = lock();
  if (!wait_for(held, communicator, [&] { return communicator.turn == ticket.order(); })) return;
  const Residence residence(held, communicator);
  if (given_up(communicator)) return;

  std::shared_ptr<Collective>& slot = world.collectives[ticket.number()];
  if (!slot) {
    slot = std::make_shared<Collective>();
    slot->arrivals.resize(static_cast<std::size_t>(world.size));
  }
  const std::shared_ptr<Collective> collective = slot;
  Arrival& arrival = collective->arrivals[rank];
  arrival.transfer = own;
  arrival.here = true;
  release(arrival.arrived);
  ++collective->here;
  if (own.op == Op::all_reduce) collective->result.resize(own.count * bytes_of(own.type));
  world.changed.notify_all();
  if (!wait_for(held, communicator, [&] { return collective->here == world.size; })) {
    arrival.here = false;
    --collective->here;
    return;
  }
  compare(held, ticket, *collective);
  if (!collective->mismatch.empty()) return hang(held, communicator, collective->mismatch);

  // All ranks are here and will go on, so that nothing below waits for long.
  for (int other = 0; other < world.size; ++other) {
    if (!reads_from(own, communicator.rank, other)) continue;
    acquire(collective->arrivals[static_cast<std::size_t>(other)].arrived);
  }
  held.unlock();
  {
    Visible visible;
    read(*collective, own, rank, static_cast<std::size_t>(world.size));
  }
  held.lock();
  release(arrival.read);
  ++collective->read;
  world.changed.notify_all();
  while (collective->read != world.size) world.changed.wait(held);
  for (int other = 0; other < world.size; ++other) {
    if (!reads_from(own, other, communicator.rank)) continue;
    acquire(collective->arrivals[static_cast<std::size_t>(other)].read);
  }
  if (own.op == Op::all_reduce && own.count != 0) {
    held.unlock();
    {
      Visible visible;
      std::memcpy(host_view(own.to), collective->result.data(), collective->result.size());
    }
    held.lock();
  }
  if (++collective->left == world.size) world.collectives.erase(ticket.number());
}

void run_messages(const Ticket& ticket, const std::vector<Transfer>& transfers) {
  Hidden hidden;
  Communicator& communicator = ticket.communicator();
  World& world = *communicator.world;
  Lock held = lock();
  if (!wait_for(held, communicator, [&] { return communicator.turn == ticket.order(); })) return;
  std::vector<std::shared_ptr<Message>> sent;
  for (const Transfer& transfer : transfers) {
    if (transfer.op != Op::send) continue;
    sent.push_back(std::make_shared<Message>(Message{transfer, communicator.rank}));
    release(sent.back()->sent);
    world.mail[{communicator.rank, transfer.peer}].push_back(sent.back());
  }
  world.changed.notify_all();
  bool complete = true;
  for (const Transfer& transfer : transfers) {
    if (transfer.op != Op::receive) continue;
    auto& box = world.mail[{transfer.peer, communicator.rank}];
    complete = wait_for(held, communicator, [&] { return !box.empty(); });
    if (!complete) break;
    const std::shared_ptr<Message> message = box.front();
    box.pop_front();
    const Transfer& theirs = message->transfer;
    if (theirs.count != transfer.count || theirs.type != transfer.type) {
      const std::string text = "a message is not the same at both ends: rank " +
                               std::to_string(message->from_rank) + " called " + describe(theirs) +
                               ", rank " + std::to_string(communicator.rank) + " called " +
                               describe(transfer);
      report(held, text);
      hang(held, communicator, text);
      complete = false;
      break;
    }
    message->taken = true;
    acquire(message->sent);
    held.unlock();
    {
      Visible visible;
      std::memcpy(host_view(transfer.to), host_view(theirs.from),
                  theirs.count * bytes_of(theirs.type));
    }
    held.lock();
    release(message->received);
    message->copied = true;
    world.changed.notify_all();
  }
  for (const auto& message : sent) {
    wait_for(held, communicator, [&] { return message->copied; });
    while (message->taken && !message->copied) world.changed.wait(held);
    if (message->copied) {
      acquire(message->received);
    } else {
      std::erase(world.mail[{communicator.rank, message->transfer.peer}], message);
    }
  }
}

}  // namespace emulator
