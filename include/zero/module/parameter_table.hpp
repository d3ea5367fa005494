// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Which tensors, groups and units a model has, their types, and where each element lies. May
// include device/, layout/, policy/ and schedule/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/device/memory.hpp>
#include <zero/layout/fields.hpp>
#include <zero/layout/flat_layout.hpp>
#include <zero/layout/state_layout.hpp>
#include <zero/module/model.hpp>
#include <zero/policy/precision.hpp>
#include <zero/policy/whole_rule.hpp>
#include <zero/schedule/model_shape.hpp>

namespace zero {

/// One named tensor of a model. Its full name is the key of everything.
struct TensorInfo {
  std::string name;                   // "block.3.attn.qkv.weight"
  Shape shape;                        // of the whole tensor
  bool decay = true, frozen = false;  // as it was declared
  DataType type = DataType::fp32;     // in which it computes
  std::size_t unit = 0, group = 0;    // where it belongs
  std::size_t place = 0;              // which tensor of its group
  bool replicated = false;            // along the further axes of the mesh
};

/// Tensors that are gathered, reduced and updated together: the trainable or the frozen tensors of
/// one type of one unit, one after the other in one flat buffer.
struct GroupInfo {
  std::size_t unit = 0;       // that owns it
  bool frozen = false;        // whether it has no gradient
  Precision types{};          // of its numbers
  List<std::size_t> tensors;  // [place] index in ParameterTable::tensors
  FlatLayout layout;          // over all parts of all shards
  std::size_t parts = 1;      // of a shard
  StateLayout states{};       // where the optimizer's state lies
  /// Elements of a rank's part, with padding.
  std::size_t shard() const { return layout.shard() * parts; }
};

/// A unit and its groups.
struct UnitInfo {
  std::string name;                                // as errors say it
  std::size_t first_tensor = 0, tensor_count = 0;  // in declaration order
  List<std::size_t> reads;                         // units whose tensors it reads, itself first
};

/// What an optimizer asks of the layout of the tensors that it updates, if it is no rule for single
/// elements; see RangeOptimizer.
struct UpdateShape {
  std::size_t block = 1;         // elements that lie on one rank; 0: whole tensors
  std::size_t states = 0;        // of the optimizer
  const void* groups = nullptr;  // the optimizers, which the functions are called with
  /// Numbers of state k of a block, or of a whole tensor, and those of its room.
  std::size_t (*numbers)(const void* groups, std::string_view tensor, std::size_t k,
                         const Shape&) = nullptr;
  /// Numbers that an update of a tensor needs room for.
  std::size_t (*scratch)(const void* groups, std::string_view tensor, const Shape&) = nullptr;
};

/// The tensors, groups and units of a model on `ranks` ranks: a pure function of its arguments.
///
/// Errors: ContractError for a duplicate or empty name, a model without units, or unknown `reads`.
class ParameterTable {
 public:
  /// `parts` is how many parts of a shard are updated by ranks of their own; see StageTraits.
  /// What `whole` speaks of is marked to be kept whole. `fixed`, by tensor in order of declaration,
  /// replaces what the kinds say. `alignment` in bytes: each tensor and each shard begins at a
  /// multiple of it, in every buffer. At that of memory no buffer leaves a gap behind it, and the
  /// bytes of all buffers are the bytes of the block. `update` is what the optimizer asks for.
  template <class... Lists>
  ParameterTable(const Model<Lists...>& model, std::size_t ranks, const Precision& precision = {},
                 std::size_t parts = 1, const WholeRule& whole = {},
                 const List<bool>* fixed = nullptr, std::size_t alignment = memory_alignment,
                 const UpdateShape& update = {})
      : update_(update),
        precision_(precision),
        whole_(whole),
        ranks_(ranks),
        alignment_(alignment),
        parts_(parts),
        refrozen_(fixed) {
    model.for_each_list([&](const auto& list, std::size_t kind, std::size_t) {
      for (std::size_t i = 0; i < list.count; ++i) this->add_unit(list, i, kind);
    });
    if (units_.empty()) {
      throw ContractError("zero::model: it has no units; give it at least one zero::unit(...)");
    }
    model.for_each_list([&](const auto& list, std::size_t, std::size_t first) {
      for (std::size_t i = 0; i < list.count; ++i) {
        for (const std::string& other : list.also_reads) this->add_reads(first + i, other);
      }
    });
    refrozen_ = nullptr;
    update_ = {};
  }

  /// In the order of the forward.
  const List<UnitInfo>& units() const { return units_; }
  /// Of all units.
  const List<GroupInfo>& groups() const { return groups_; }
  /// Of all units, in the order of the model.
  const List<TensorInfo>& tensors() const { return tensors_; }
  /// As schedules see it.
  const ModelShape& shape() const { return shape_; }
  /// The types of tensors without a type of their own.
  const Precision& precision() const { return precision_; }
  /// Elements of group g with its padding: what is gathered and reduced.
  std::size_t padded(std::size_t g) const { return groups_[g].layout.padded(); }
  /// Numbers of optimizer state k of a tensor, as they are read and saved: one an element, unless
  /// the optimizer keeps others of whole tensors.
  std::size_t state_numbers(const TensorInfo& tensor, std::size_t k) const {
    const GroupInfo& group = groups_[tensor.group];
    return group.states.numbers(group.layout, tensor.place, k);
  }
  /// Numbers (fp32) of room that the update of any tensor needs.
  std::size_t scratch() const { return scratch_; }
  /// Real elements of the whole model.
  std::size_t elements() const {
    std::size_t sum = 0;
    for (const GroupInfo& group : groups_) sum += group.layout.elements();
    return sum;
  }
  /// The tensor called `name`; throws ContractError if there is none.
  const TensorInfo& find(std::string_view name) const {
    const auto at = place_of(name);
    if (at == by_name_.end() || tensors_[*at].name != name) {
      throw ContractError("zero: no tensor is called '" + std::string(name) +
                          "'; names are unit.tensor" +
                          (tensors_.empty() ? ", but the model has no tensors"
                                            : ", such as '" + tensors_.front().name + "'"));
    }
    return tensors_[*at];
  }

 private:
  /// What the tensors of a group have in common.
  struct GroupType {
    Precision types;
    bool frozen, whole;
    friend bool operator==(const GroupType&, const GroupType&) = default;
  };

  /// Where in by_name_ a name is, or would be.
  List<std::size_t>::const_iterator place_of(std::string_view name) const {
    const auto before = [this](std::size_t t, std::string_view n) { return tensors_[t].name < n; };
    return std::lower_bound(by_name_.begin(), by_name_.end(), name, before);
  }
  template <template <class> class Kind, class Config>
  void add_unit(const UnitList<Kind, Config>& list, std::size_t i, std::size_t kind) {
    add_unit(list.numbered ? list.name + '.' + std::to_string(i) : list.name,
             specs_of<Kind>(list.config), kind, list.whole);
  }
  void add_unit(const std::string& name, const List<TensorSpec>& specs, std::size_t kind,
                bool whole) {
    const std::size_t u = shape_.add_unit();
    const UnitInfo unit{name, tensors_.size(), specs.size(), {u}};
    if (name.empty()) throw ContractError("zero::unit: the name of a unit is empty; name it");
    for (const UnitInfo& other : units_) {
      if (other.name != name) continue;
      throw ContractError("zero::model: two units are called '" + name + "'; rename one");
    }
    List<GroupType> types;  // [tensor of the unit]
    for (const TensorSpec& spec : specs) {
      const std::string full = name + '.' + spec.name;
      const auto at = place_of(full);
      if (at != by_name_.end() && tensors_[*at].name == full) {
        throw ContractError("zero::model: two tensors are called '" + full + "'; rename one");
      }
      by_name_.insert(at, tensors_.size());
      const bool stays = refrozen_ == nullptr ? spec.frozen : (*refrozen_)[tensors_.size()];
      tensors_.push_back(
          {full, spec.shape, spec.decay, stays, spec.own_type.value_or(precision_.compute), u});
      tensors_.back().replicated = spec.replicated;
      types.push_back(type_of(spec, stays, full));
    }
    for (const bool is_frozen : {false, true}) {
      for (auto type = types.begin(); type != types.end(); ++type) {
        const bool is_first = std::find(types.begin(), type, *type) == type;
        if (!is_first || type->frozen != is_frozen) continue;
        add_group(unit, u, kind, types, *type, whole);
      }
    }
    units_.push_back(unit);
  }
  GroupType type_of(const TensorSpec& spec, bool is_frozen, const std::string& name) const {
    if (!is_frozen && spec.own_type.value_or(DataType::fp32) != DataType::fp32) {
      throw ContractError(
          "zero::model: tensor '" + name + "' is trained and is " + name_of(*spec.own_type) +
          " whatever T is, so that its gradient would be summed in that; declare it "
          "as zero::Tensor<T> or zero::Tensor<float>, or freeze it");
    }
    Precision types = precision_;
    if (spec.own_type) types = {.compute = *spec.own_type, .moments = precision_.moments};
    // Nothing else of a frozen tensor exists.
    if (is_frozen) types = {.compute = types.compute, .gather = types.gather};
    const TensorFacts facts{name.c_str(), spec.shape.rank, spec.shape.elements(), spec.decay,
                            is_frozen};
    return {types, is_frozen, whole_.tensor != nullptr && whole_.tensor(facts)};
  }

  void add_group(const UnitInfo& unit, std::size_t u, std::size_t kind,
                 const List<GroupType>& types, const GroupType& type, bool whole) {
    GroupInfo group{u, type.frozen, type.types, {}, FlatLayout({}, 1, 1), parts_};
    List<std::size_t> sizes;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] != type) continue;
      TensorInfo& tensor = tensors_[unit.first_tensor + i];
      tensor.group = groups_.size();
      tensor.place = sizes.size();
      group.tensors.push_back(unit.first_tensor + i);
      sizes.push_back(tensor.shape.elements());
    }
    const std::size_t least = type.types.least_bytes();
    const std::size_t alignment = (alignment_ + least - 1) / least;
    const std::size_t block = type.frozen ? 1 : update_.block;
    group.layout = FlatLayout(sizes, ranks_ * parts_, std::max(alignment, block),
                              block == 0 ? Cut::between_tensors : Cut::anywhere);
    if (block != 1) lay_out_states(group);
    const std::pair key(kind, type);
    const auto same = std::find(kinds_.begin(), kinds_.end(), key);
    const std::size_t g = shape_.add_group(static_cast<std::size_t>(same - kinds_.begin()));
    if (same == kinds_.end()) kinds_.push_back(key);
    reads_group(unit.name, u, g);
    if (type.frozen) shape_.freeze(g);
    if (whole || type.whole || group.layout.elements() < whole_.smaller_than) shape_.keep_whole(g);
    groups_.push_back(std::move(group));
  }

  void lay_out_states(GroupInfo& group) {
    if (precision_.moments != DataType::fp32) {
      throw ContractError(
          "zero::shard: this optimizer says itself how it keeps its state, but Precision::moments "
          "is " +
          std::string(name_of(precision_.moments)) + "; leave it at fp32");
    }
    List<std::size_t> numbers;
    for (const std::size_t t : group.tensors) {
      const TensorInfo& tensor = tensors_[t];
      if (update_.block != 0 && !numbers.empty()) break;  // alike for all tensors
      const bool empty = tensor.shape.elements() == 0 && update_.block == 0;
      const Shape shape = update_.block == 0 ? tensor.shape : Shape{update_.block};
      for (std::size_t k = 0; k < update_.states; ++k) {
        numbers.push_back(empty ? 0 : update_.numbers(update_.groups, tensor.name, k, shape));
      }
      const std::size_t room = empty ? 0 : update_.scratch(update_.groups, tensor.name, shape);
      scratch_ = std::max(scratch_, (room + 15) / 16 * 16);
    }
    group.states = update_.block == 0 ? StateLayout(group.layout, update_.states, numbers)
                                      : StateLayout(update_.block, numbers);
  }
  void add_reads(std::size_t u, const std::string& other) {
    const auto found = std::find_if(units_.begin(), units_.end(),
                                    [&](const UnitInfo& unit) { return unit.name == other; });
    const auto v = static_cast<std::size_t>(found - units_.begin());
    if (found == units_.end() || v == u) {
      throw ContractError("zero::model: unit '" + units_[u].name + "' reads '" + other +
                          "', which is not another unit of the model; check the name");
    }
    List<std::size_t>& reads = units_[u].reads;
    if (std::find(reads.begin(), reads.end(), v) != reads.end()) return;
    reads.push_back(v);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].unit == v) reads_group(units_[u].name, u, g);
    }
  }
  void reads_group(const std::string& name, std::size_t u, std::size_t g) {
    try {
      shape_.reads(u, g);
    } catch (const ShapeError& error) {
      throw ContractError(
          std::string(error.what()) + " (unit '" + name +
          "'; its trained and its frozen tensors are a group for each type, those of "
          "a unit that it reads as well)");
    }
  }

  UpdateShape update_;  // while the table is made
  Precision precision_;
  WholeRule whole_;
  std::size_t ranks_, alignment_, parts_, scratch_ = 0;
  const List<bool>* refrozen_;                     // while the table is made
  List<std::pair<std::size_t, GroupType>> kinds_;  // list, and type, of each kind of groups
  List<UnitInfo> units_;
  List<GroupInfo> groups_;
  List<TensorInfo> tensors_;
  List<std::size_t> by_name_;  // tensors, in the order of their names
  ModelShape shape_;
};

}  // namespace zero
