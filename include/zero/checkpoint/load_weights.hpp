// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// load_weights: reads weights that others trained, from safetensors files, into what the ranks
// hold. May include base/, layout/ and comm/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/agree.hpp>
#include <zero/checkpoint/detail/check_conversion.hpp>
#include <zero/checkpoint/detail/digest.hpp>
#include <zero/checkpoint/detail/listing.hpp>
#include <zero/checkpoint/detail/targets.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/load.hpp>
#include <zero/checkpoint/weight_files.hpp>
#include <zero/comm/communicator.hpp>

namespace zero {

/// What a caller may choose of a load.
struct LoadWeightsOptions {
  /// What a tensor of the module is called in the files; empty text: it is not there. None: as in
  /// the module. Several tensors may be called alike.
  std::function<std::string(const std::string&)> names{};
  /// The same as a table, asked first.
  std::map<std::string, std::string> table{};
  /// Loads what has the same name and lets the rest be, on either side.
  bool relaxed = false;
  /// Rounds weights that have fewer bits here than in the files.
  bool narrowing = false;
  /// Another file system than the machine's; it must live during the call.
  Files* files = nullptr;
};

namespace detail {

/// Matches weights to tensors in files, and reads what a rank needs of them: to check that it can,
/// and then to take it.
class WeightPlan {
 public:
  /// `from` must outlive the plan.
  explicit WeightPlan(WeightFiles& from) : from_(from) {}

  /// Errors:  CheckpointError for other shapes, types that do not convert, or, unless it is
  ///          relaxed, other names.
  void match(const HeldState& state, const LoadWeightsOptions& options, LoadReport& report) {
    std::map<std::string_view, std::size_t> stored;
    std::set<std::string_view> used;
    const std::vector<WeightFiles::Tensor>& tensors = from_.tensors();
    for (std::size_t t = 0; t < tensors.size(); ++t) stored.emplace(tensors[t].stored.name, t);
    for (const HeldTensor& held : state.tensors) {
      const std::string name = name_of(held.name, options);
      const auto found = stored.find(name);
      if (name.empty() || found == stored.end()) {
        const bool renamed = !name.empty() && name != held.name;
        report.missing.push_back(renamed ? held.name + " (" + name + ")" : held.name);
        continue;
      }
      used.insert(found->first);
      match(held, found->second, options);
    }
    for (const auto& [name, t] : stored) {
      if (!used.contains(name)) report.unexpected.emplace_back(name);
    }
    if (options.relaxed || (report.missing.empty() && report.unexpected.empty())) return;
    throw CheckpointError(
        "zero::load_weights: '" + from_.directory() +
        "': the names differ; missing in the files: " + text_of_names(report.missing) +
        "; only in the files: " + text_of_names(report.unexpected) +
        ". Give their names by .names or .table, or pass .relaxed = true");
  }
  /// Reads all that is wanted; changes nothing.
  void verify() {
    digests_.clear();
    read([&](const Want&, std::uint64_t, std::uint64_t, std::size_t) {
      digests_.push_back(Digest::of(buffer_.data(), buffer_.size()));
    });
  }
  /// Reads it again, sees that it is the same, and puts it where it belongs.
  void take() {
    std::size_t at = 0;
    read([&](const Want& want, std::uint64_t begin, std::uint64_t end, std::size_t t) {
      if (Digest::of(buffer_.data(), buffer_.size()) != digests_[at++]) {
        throw CheckpointError("zero::load_weights: file '" + from_.file_of(from_.tensors()[t]) +
                              "' changed while it was read; load it again");
      }
      want.targets.put(want.type, buffer_.data(), begin, end);
    });
  }
  /// Bytes of tensors that were read last.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 22;  // that are read at once

  struct Want {
    DataType type = DataType::fp32;
    Targets targets{};
  };

  static std::string name_of(const std::string& held, const LoadWeightsOptions& options) {
    const auto entry = options.table.find(held);
    if (entry != options.table.end()) return entry->second;
    return options.names ? options.names(held) : held;
  }
  void match(const HeldTensor& held, std::size_t t, const LoadWeightsOptions& options) {
    const WeightFiles::Tensor& tensor = from_.tensors()[t];
    const StoredTensor& stored = tensor.stored;
    const std::string what = "zero::load_weights: file '" + from_.file_of(tensor) + "': tensor " +
                             in_quotes(stored.name);
    const auto* const dims = held.shape.dims;
    if (!std::equal(
            stored.shape.begin(), stored.shape.end(), dims, dims + held.shape.rank,
            [](std::uint64_t a, std::int64_t b) { return static_cast<std::int64_t>(a) == b; })) {
      std::string shape;
      for (const std::uint64_t extent : stored.shape) {
        shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
      }
      throw CheckpointError(what + " has the shape [" + shape + "], but " + in_quotes(held.name) +
                            " has " + text_of(held.shape) +
                            "; load it into the model that it is of");
    }
    const std::optional<DataType> type = data_type_of(stored.type);
    if (!type) {
      throw CheckpointError(what + " is " + std::string(stored.type) +
                            ", which is not converted to weights; give " + in_quotes(held.name) +
                            " another name in the files");
    }
    for (const HeldPart& part : held.parts) {
      if (part.name != "weight") continue;
      check_conversion(what, *type, part.type, options.narrowing);
      Want& want = wants_[t];
      want.type = *type;
      want.targets.add(part);
    }
  }
  /// Calls f(want, first element, its end, index of the tensor) for one bufferful after the other.
  template <class F>
  void read(F f) {
    bytes_read_ = 0;
    for (const auto& [t, want] : wants_) {
      const std::uint64_t size = size_of(want.type), most = most_bytes / size;
      for (const auto& [first, last] : want.targets.intervals()) {
        for (std::uint64_t begin = first; begin < last; begin += most) {
          const std::uint64_t end = std::min(last, begin + most);
          buffer_.resize((end - begin) * size);
          from_.read(from_.tensors()[t], begin * size, buffer_.size(), buffer_.data());
          bytes_read_ += buffer_.size();
          f(want, begin, end, t);
        }
      }
    }
  }

  WeightFiles& from_;
  std::map<std::size_t, Want> wants_;  // by tensor, hence file by file
  std::vector<std::byte> buffer_;
  std::vector<Digest> digests_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace detail

/// Loads weights from a safetensors file, or from a folder in the layout of Hugging Face, straight
/// into what all ranks hold; state of the optimizer, counters and scalars stay.
///
/// Rank 0 reads the headers; each rank then reads the bytes that it needs, once to see that it can
/// and once to take them. Masters and the weights that compute are both set.
///
/// Order:   collective; all ranks pass the same.
/// Errors:  CheckpointError on all ranks: other names (both lists are in the text), shapes or
///          types; damaged or hostile files. Nothing has changed then, unless the text says so.
template <Communicator Comm>
LoadReport load_weights(HeldState& state, const Comm& world, const std::string& path,
                        const LoadWeightsOptions& options = {}) {
  Files& files = options.files == nullptr ? disk_files() : *options.files;
  LoadReport report;
  std::unique_ptr<WeightFiles> from;
  std::string directory, text;
  detail::together(world, "zero::load_weights", [&] {
    if (world.rank() != 0) return;
    from = std::make_unique<WeightFiles>(path, files);
    directory = from->directory();
    text = from->text();
  });
  detail::broadcast_text(world, directory, 0);
  detail::broadcast_text(world, text, 0);
  std::unique_ptr<detail::WeightPlan> plan;
  detail::together(world, "zero::load_weights", [&] {
    if (!from) from = std::make_unique<WeightFiles>(directory, text, files);
    plan = std::make_unique<detail::WeightPlan>(*from);
    plan->match(state, options, report);
    plan->verify();
  });
  detail::together(world,
                   "zero::load_weights (weights may have changed: load again before using them)",
                   [&] { plan->take(); });
  report.path = path;
  report.step = state.step;
  report.bytes_read = plan->bytes_read();
  return report;
}

/// Loads weights into a module between two steps.
template <HoldsState M>
LoadReport load_weights(M& module, const std::string& path,
                        const LoadWeightsOptions& options = {}) {
  HeldState state = module.held_state();
  LoadReport report = load_weights(state, module.mesh().world, path, options);
  module.restore(state);
  return report;
}

}  // namespace zero
