// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ModelShape: which groups of parameters each unit reads. Includes schedule/ only.
#pragma once

#include <zero/base/list.hpp>
#include <zero/schedule/shape_error.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// Units and groups of a model. A unit is what computes; a group is what is gathered, reduced and
/// updated together. Groups of one kind share slots.
///
/// Errors:  ShapeError if a unit reads more than max_groups groups, or an index needs more than
///          16 bits, or a unit or group is named that does not exist.
class ModelShape {
 public:
  /// What computes together.
  struct Unit {
    Index groups[max_groups] = {};  // those that it reads
    Index count = 0;                // how many
    /// The first group.
    constexpr const Index* begin() const { return groups; }
    /// Behind the last group.
    constexpr const Index* end() const { return groups + count; }
  };
  /// What is gathered together.
  struct Group {
    Index owner = nowhere;  // the first unit that reads it
    Index readers = 0;      // units that read it
    Index kind = 0;         // groups of one kind share slots
    bool frozen = false;    // gathered and released like the others, but has no gradient
    bool whole = false;     // never sharded, in whatever stage
  };

  constexpr ModelShape() = default;
  /// A chain of `units` units; unit u reads group u.
  constexpr explicit ModelShape(std::size_t units) {
    units_.reserve(units);
    groups_.reserve(units);
    for (std::size_t u = 0; u < units; ++u) reads(add_unit(), add_group());
  }

  /// Adds a unit that reads nothing yet, and gives its number.
  constexpr std::size_t add_unit() {
    if (units_.size() + 1 >= nowhere)
      throw ShapeError("zero: a model has at most 65534 units; join some");
    units_.push_back(Unit{});
    return units_.size() - 1;
  }
  /// Adds a group that nobody reads yet, and gives its number.
  constexpr std::size_t add_group(std::size_t kind = 0) {
    if (groups_.size() + 1 >= nowhere)
      throw ShapeError("zero: a model has at most 65534 groups; join some");
    if (kind >= nowhere)
      throw ShapeError("zero: a model has at most 65534 kinds of groups; use fewer");
    groups_.push_back(Group{nowhere, 0, static_cast<Index>(kind)});
    return groups_.size() - 1;
  }
  /// Declares that `unit` reads `group`: its own weights, tied weights, a norm of the next block.
  constexpr ModelShape& reads(std::size_t unit, std::size_t group) {
    if (unit >= units_.size())
      throw ShapeError("zero: ModelShape::reads: the model has no such unit; add it before");
    Unit& u = units_[unit];
    Group& g = existing(group);
    for (const Index old : u) {
      if (old == group) return *this;
    }
    if (u.count == max_groups) {
      throw ShapeError("zero: a unit reads at most 4 groups; join groups or split the unit");
    }
    u.groups[u.count++] = static_cast<Index>(group);
    ++g.readers;
    if (unit < g.owner) g.owner = static_cast<Index>(unit);
    return *this;
  }
  /// The group has no gradient.
  constexpr ModelShape& freeze(std::size_t group) {
    existing(group).frozen = true;
    return *this;
  }
  /// The group is never sharded.
  constexpr ModelShape& keep_whole(std::size_t group) {
    existing(group).whole = true;
    return *this;
  }
  /// The group shares slots with others of this kind.
  constexpr ModelShape& kind(std::size_t group, std::size_t kind) {
    if (kind >= nowhere)
      throw ShapeError("zero: a model has at most 65534 kinds of groups; use fewer");
    existing(group).kind = static_cast<Index>(kind);
    return *this;
  }

  /// How many.
  constexpr std::size_t units() const { return units_.size(); }
  /// How many.
  constexpr std::size_t groups() const { return groups_.size(); }
  /// Unit u.
  constexpr const Unit& unit(std::size_t u) const { return units_[u]; }
  /// Group g.
  constexpr const Group& group(std::size_t g) const { return groups_[g]; }

 private:
  constexpr Group& existing(std::size_t group) {
    if (group >= groups_.size())
      throw ShapeError("zero: ModelShape: the model has no such group; add it before");
    return groups_[group];
  }

  List<Unit> units_{};
  List<Group> groups_{};
};

/// Embedding, `layers` blocks, head. With `tied` the head reads the embedding's group as well.
constexpr ModelShape transformer(std::size_t layers, bool tied) {
  ModelShape model(layers + 2);
  model.kind(0, 1).kind(layers + 1, 2);
  if (tied) model.reads(layers + 1, 0);
  return model;
}

}  // namespace zero
