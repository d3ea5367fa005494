// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The state of a model without a module, on any number of ranks. For the tests of checkpoint/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>
#include <zero/checkpoint.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/comm/run_threads.hpp>
#include <zero/comm/self_communicator.hpp>
#include <zero/layout/flat_layout.hpp>

namespace held {

struct Named {
  std::string name;
  zero::Shape shape;
};

/// Tensors of floats with two states each, cut over `shards` ranks with `replicas` of each shard;
/// each number is that of value(). Padding is NaN.
class Holder {
 public:
  Holder(std::vector<Named> tensors, std::size_t shards, std::size_t shard,
         std::size_t replicas = 1, std::size_t replica = 0)
      : layout_(sizes(tensors), shards, 4) {
    for (auto& numbers : numbers_) numbers.assign(layout_.shard(), __builtin_nanf(""));
    for (const Named& tensor : tensors) {
      state.tensors.push_back({tensor.name, tensor.shape});
      for (std::size_t p = 0; p < parts; ++p) {
        zero::HeldPart part{p == 0 ? "weight" : "state." + std::to_string(p - 1)};
        part.holders = replicas;
        part.holder = replica;
        state.tensors.back().parts.push_back(std::move(part));
      }
    }
    layout_.for_each_piece(shard, [&](const zero::Piece& piece) {
      for (std::size_t p = 0; p < parts; ++p) {
        state.tensors[piece.tensor].parts[p].ranges.push_back(
            {piece.tensor_begin, piece.count, numbers_[p].data() + piece.shard_begin});
      }
    });
    state.scalars["scale"] = 0;
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// Sets everything to what a training has at `version`.
  Holder& fill(std::int64_t version) {
    for_each([&](float& number, std::size_t t, std::size_t p, std::size_t element) {
      number = value(version, t, p, element);
    });
    for (std::size_t t = 0; t < state.tensors.size(); ++t) {
      state.tensors[t].counter = version + static_cast<std::int64_t>(t);
    }
    state.step = version;
    state.scalars["scale"] = 1.0 / static_cast<double>(version + 3);
    return *this;
  }
  /// Whether fill(version) made everything; `weights_only`: no more than the weights.
  bool is(std::int64_t version, bool weights_only = false) {
    bool same = weights_only || (state.step == version &&
                                 state.scalars["scale"] == 1.0 / static_cast<double>(version + 3));
    for (std::size_t t = 0; t < state.tensors.size() && !weights_only; ++t) {
      same = same && state.tensors[t].counter == version + static_cast<std::int64_t>(t);
    }
    for_each([&](float number, std::size_t t, std::size_t p, std::size_t element) {
      if (!(number == value(version, t, p, element)) && !(weights_only && p > 0)) same = false;
    });
    return same;
  }
  std::size_t elements() const {
    std::size_t sum = 0;
    for (const zero::HeldTensor& tensor : state.tensors) {
      for (const zero::HeldPart& part : tensor.parts) {
        for (const zero::HeldRange& range : part.ranges) sum += range.count;
      }
    }
    return sum;
  }

  zero::HeldState state;

 private:
  static constexpr std::size_t parts = 3;

  static std::vector<std::size_t> sizes(const std::vector<Named>& tensors) {
    std::vector<std::size_t> all;
    for (const Named& tensor : tensors) all.push_back(tensor.shape.elements());
    return all;
  }
  static float value(std::int64_t version, std::size_t t, std::size_t p, std::size_t element) {
    return static_cast<float>(version * 100'000 + static_cast<std::int64_t>(t * 10'000) +
                              static_cast<std::int64_t>(p * 1'000 + element));
  }
  template <class F>
  void for_each(F f) {
    for (std::size_t t = 0; t < state.tensors.size(); ++t) {
      for (std::size_t p = 0; p < parts; ++p) {
        for (const zero::HeldRange& range : state.tensors[t].parts[p].ranges) {
          for (std::size_t i = 0; i < range.count; ++i) {
            f(static_cast<float*>(range.data)[i], t, p, range.begin + i);
          }
        }
      }
    }
  }

  zero::FlatLayout layout_;
  std::vector<float> numbers_[parts];
};

inline const std::vector<Named>& odd_tensors() {
  static const std::vector<Named> all{
      {"a", {1}}, {"b", {7}}, {"c.\"quoted\"\\", {5}}, {"empty", {0, 3}}, {"d", {4, 11}}};
  return all;
}

/// Runs f(holder, world) on rank threads, `replicas` of a model.
inline void on_ranks(std::size_t ranks, std::size_t replicas, const std::vector<Named>& tensors,
                     const std::function<void(Holder&, zero::ThreadCommunicator&)>& f) {
  zero::run_threads(ranks, [&](zero::ThreadCommunicator& comm) {
    const std::size_t shards = ranks / replicas;
    Holder holder(tensors, shards, comm.rank() % shards, replicas, comm.rank() / shards);
    f(holder, comm);
  });
}
inline std::string save(std::size_t ranks, std::size_t replicas, std::int64_t version,
                        const std::string& path, const zero::SaveOptions& options,
                        const std::vector<Named>& tensors = odd_tensors()) {
  std::string made;
  on_ranks(ranks, replicas, tensors, [&](Holder& holder, zero::ThreadCommunicator& comm) {
    const std::string at = zero::save(holder.fill(version).state, comm, path, options);
    if (comm.rank() == 0) made = at;
  });
  return made;
}
/// The version that one rank alone loads; -1 if it is mixed.
inline std::int64_t load(const std::string& path, const zero::LoadOptions& options,
                         const std::vector<Named>& tensors = odd_tensors()) {
  Holder holder(tensors, 1, 0);
  zero::load(holder.state, zero::SelfCommunicator(), path, options);
  return holder.is(holder.state.step) ? holder.state.step : -1;
}

/// The text of what `f` throws, empty if nothing.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const zero::CheckpointError& error) {
    return std::string("CheckpointError: ") + error.what();
  } catch (const zero::Error& error) { return std::string("Error: ") + error.what(); }
  return {};
}
inline bool says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) == text.npos) return false;
  }
  return true;
}

}  // namespace held
