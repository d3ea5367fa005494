// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lists of names and shapes for the texts of errors. May include base/ and layout/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>
#include <zero/checkpoint/detail/text.hpp>
#include <zero/layout/tensor.hpp>

namespace zero::detail {

inline std::string text_of_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) {
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  }
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return names.empty() ? "none" : text;
}
inline std::string text_of(const Shape& shape) {
  std::string made = "[";
  for (int i = 0; i < shape.rank; ++i) {
    made += (i == 0 ? "" : ", ") + std::to_string(shape.dims[i]);
  }
  return made + "]";
}

}  // namespace zero::detail
