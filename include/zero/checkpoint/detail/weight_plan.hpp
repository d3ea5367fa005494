// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// WeightPlan: which bytes of others' files a rank needs, and where they go. May include base/ and
// layout/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/check_conversion.hpp>
#include <zero/checkpoint/detail/digest.hpp>
#include <zero/checkpoint/detail/listing.hpp>
#include <zero/checkpoint/detail/targets.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/load.hpp>
#include <zero/checkpoint/load_weights_options.hpp>
#include <zero/checkpoint/weight_files.hpp>

namespace zero::detail {

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
      const WeightSource source = source_of(held.name, options);
      std::vector<std::size_t> parts;
      for (const std::string& name : source.names) {
        const auto found = stored.find(name);
        if (name.empty() || found == stored.end()) {
          const bool renamed = !name.empty() && name != held.name;
          report.missing.push_back(renamed ? held.name + " (" + name + ")" : held.name);
          continue;
        }
        used.insert(found->first);
        parts.push_back(found->second);
      }
      if (parts.size() == source.names.size()) match(held, parts, source.transposed, options);
    }
    for (const auto& [name, t] : stored) {
      if (!used.contains(name)) report.unexpected.emplace_back(name);
    }
    if (options.relaxed || (report.missing.empty() && report.unexpected.empty())) return;
    throw CheckpointError(
        "zero::load_weights: '" + from_.directory() +
        "': the names differ; missing in the files: " + text_of_names(report.missing) +
        "; only in the files: " + text_of_names(report.unexpected) +
        ". Give their names by .names, .table or .sources, or pass .relaxed = true");
  }
  /// Reads all that is wanted; changes nothing.
  void verify() {
    digests_.clear();
    read([&](const Want&, std::uint64_t, std::uint64_t) {
      digests_.push_back(Digest::of(buffer_.data(), buffer_.size()));
    });
  }
  /// Reads it again, sees that it is the same, and puts it where it belongs.
  void take() {
    std::size_t at = 0;
    read([&](const Want& want, std::uint64_t begin, std::uint64_t end) {
      if (Digest::of(buffer_.data(), buffer_.size()) != digests_[at++]) {
        throw CheckpointError("zero::load_weights: file '" +
                              from_.file_of(from_.tensors()[want.tensor]) +
                              "' changed while it was read; load it again");
      }
      want.rows == 0 ? want.targets.put(want.type, buffer_.data(), begin, end)
                     : put_transposed(want, begin, end);
    });
  }
  /// Bytes of tensors that were read last.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 22;  // that are read at once

  /// A stored tensor is elements [begin, begin + count) of a held one; or, where `rows` is not 0,
  /// those rows and `columns` of a matrix, stored column by column.
  struct Want {
    std::size_t tensor = 0;
    std::uint64_t begin = 0, count = 0, rows = 0, columns = 0;
    DataType type = DataType::fp32;
    Targets targets{};
  };

  static WeightSource source_of(const std::string& held, const LoadWeightsOptions& options) {
    WeightSource source;
    if (options.sources) source = options.sources(held);
    if (!source.names.empty()) return source;
    const auto entry = options.table.find(held);
    source.names = {entry != options.table.end() ? entry->second
                    : options.names              ? options.names(held)
                                                 : held};
    return source;
  }
  static std::string text_of_stored(const std::vector<std::uint64_t>& shape) {
    std::string text;
    for (const std::uint64_t extent : shape) {
      text += (text.empty() ? "" : ", ") + std::to_string(extent);
    }
    return '[' + text + ']';
  }
  void match(const HeldTensor& held, const std::vector<std::size_t>& parts, bool transposed,
             const LoadWeightsOptions& options) {
    std::vector<std::uint64_t> whole(held.shape.dims, held.shape.dims + held.shape.rank);
    std::uint64_t begin = 0, joined = 0;
    for (const std::size_t t : parts) {
      const StoredTensor& stored = from_.tensors()[t].stored;
      std::vector<std::uint64_t> shape = stored.shape;
      if (transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
      // Of several, each has rows of its own; all else is alike.
      std::vector<std::uint64_t> expected = whole;
      const bool joins = parts.size() > 1 && !shape.empty() && !expected.empty();
      if (joins) expected[0] = shape[0];
      const bool points = parts.size() > 1 && !joins;  // have no dimension to join along
      if (points || shape != expected || (transposed && shape.size() != 2) ||
          (joins && joined + shape[0] > whole[0])) {
        refuse_shape(held, t, parts.size() > 1, transposed);
      }
      if (joins) joined += shape[0];
      const std::uint64_t count = stored.bytes / bytes_of_stored(stored.type);
      want(held, t,
           {.tensor = t,
            .begin = begin,
            .count = count,
            .rows = transposed ? shape[0] : 0,
            .columns = transposed ? shape[1] : 0},
           options);
      begin += count;
    }
    if (parts.size() > 1 && joined != whole[0]) refuse_shape(held, parts.back(), true, transposed);
  }
  [[noreturn]] void refuse_shape(const HeldTensor& held, std::size_t t, bool joins,
                                 bool transposed) const {
    throw CheckpointError(
        what(t) + " has the shape " + text_of_stored(from_.tensors()[t].stored.shape) +
        (transposed ? ", transposed" : "") + (joins ? ", and is joined with others" : "") +
        ", but " + in_quotes(held.name) + " has " + text_of(held.shape) +
        "; load it into the model that it is of");
  }
  std::string what(std::size_t t) const {
    const WeightFiles::Tensor& tensor = from_.tensors()[t];
    return "zero::load_weights: file '" + from_.file_of(tensor) + "': tensor " +
           in_quotes(tensor.stored.name);
  }
  void want(const HeldTensor& held, std::size_t t, Want made, const LoadWeightsOptions& options) {
    const StoredTensor& stored = from_.tensors()[t].stored;
    const std::optional<DataType> type = data_type_of(stored.type);
    if (!type) {
      throw CheckpointError(what(t) + " is " + std::string(stored.type) +
                            ", which is not converted to weights; give " + in_quotes(held.name) +
                            " another name in the files");
    }
    made.type = *type;
    for (const HeldPart& part : held.parts) {
      if (part.name != "weight") continue;
      check_conversion(what(t), *type, part.exact_type(), options.narrowing);
      // What several tensors of the module are called alike is read once.
      wants_.try_emplace({t, made.begin, made.rows}, made).first->second.targets.add(part);
    }
  }
  /// Calls f(want, first element, its end) for one bufferful after the other: elements of the held
  /// tensor, or columns of one that is stored transposed.
  template <class F>
  void read(F f) {
    bytes_read_ = 0;
    for (const auto& [key, want] : wants_) {
      const std::uint64_t end_of_all = want.begin + want.count;
      if (want.rows != 0) {
        if (want.targets.meet(want.begin, end_of_all)) {
          read_range(want, 0, want.columns, want.rows, f);
        }
        continue;
      }
      for (const auto& [first, last] : want.targets.intervals()) {
        const std::uint64_t begin = std::max(first, want.begin), end = std::min(last, end_of_all);
        if (begin < end) read_range(want, begin, end, 1, f);
      }
    }
  }
  /// Of items [first, last) of so many elements each; those of a joined tensor begin at its own.
  template <class F>
  void read_range(const Want& want, std::uint64_t first, std::uint64_t last, std::uint64_t elements,
                  F f) {
    const std::uint64_t size = size_of(want.type) * elements;
    const std::uint64_t most = std::max<std::uint64_t>(most_bytes / size, 1);
    const std::uint64_t origin = want.rows == 0 ? want.begin : 0;
    for (std::uint64_t begin = first; begin < last; begin += most) {
      const std::uint64_t end = std::min(last, begin + most);
      buffer_.resize((end - begin) * size);
      from_.read(from_.tensors()[want.tensor], (begin - origin) * size, buffer_.size(),
                 buffer_.data());
      bytes_read_ += buffer_.size();
      f(want, begin, end);
    }
  }
  /// Columns [first, last) lie in the buffer one behind the other; each row gets its part of them.
  void put_transposed(const Want& want, std::uint64_t first, std::uint64_t last) {
    const std::size_t size = size_of(want.type);
    row_.resize((last - first) * size);
    for (std::uint64_t r = 0; r < want.rows; ++r) {
      const std::uint64_t begin = want.begin + r * want.columns + first;
      if (!want.targets.meet(begin, begin + (last - first))) continue;
      for (std::uint64_t c = 0; c < last - first; ++c) {
        std::copy_n(buffer_.data() + (c * want.rows + r) * size, size, row_.data() + c * size);
      }
      want.targets.put(want.type, row_.data(), begin, begin + (last - first));
    }
  }

  WeightFiles& from_;
  /// By tensor, hence file by file; where it begins in a held one; rows, if it is transposed.
  std::map<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, Want> wants_;
  std::vector<std::byte> buffer_, row_;
  std::vector<Digest> digests_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace zero::detail
