// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// LoadWeightsOptions: which tensors in files are which of a module. Includes checkpoint/ only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>
#include <zero/checkpoint/files.hpp>

namespace zero {

/// The tensors in files that make one of a module: {.names = {"q.weight", "k.weight", "v.weight"}}
/// lie one behind the other in it, along its first dimension.
struct WeightSource {
  std::vector<std::string> names{};  // none: as LoadWeightsOptions::table and names say
  /// Each of them is a matrix with rows and columns exchanged, as the Conv1D of GPT-2 is. It is
  /// read whole by each rank that holds a part of it.
  bool transposed = false;
};

/// What a caller may choose of a load.
struct LoadWeightsOptions {
  /// What a tensor of the module is called in the files; empty text: it is not there. None: as in
  /// the module. Several tensors may be called alike.
  std::function<std::string(const std::string&)> names{};
  /// The same as a table, asked first.
  std::map<std::string, std::string> table{};
  /// What a tensor of the module is made of, where it is not one tensor as it is; asked before
  /// both.
  std::function<WeightSource(const std::string&)> sources{};
  /// Loads what has the same name and lets the rest be, on either side.
  bool relaxed = false;
  /// Rounds weights that have fewer bits here than in the files.
  bool narrowing = false;
  /// Another file system than the machine's; it must live during the call.
  Files* files = nullptr;
};

}  // namespace zero
