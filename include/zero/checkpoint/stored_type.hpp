// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The types of elements in safetensors files, and conversions to those in memory. May include
// base/.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <zero/base/element.hpp>

namespace zero {

/// What a safetensors file calls a type, and the bytes of one element.
struct StoredType {
  std::string_view name;  // as safetensors calls it
  std::size_t bytes;      // of an element
};
/// All that safetensors knows.
inline constexpr StoredType stored_types[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
    {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};

/// Bytes of one element of a type of that name; 0 if there is none.
constexpr std::size_t bytes_of_stored(std::string_view name) {
  for (const StoredType& type : stored_types) {
    if (type.name == name) return type.bytes;
  }
  return 0;
}
/// As safetensors calls it.
constexpr std::string_view stored_name(DataType type) {
  switch (type) {
    case DataType::fp32: return "F32";
    case DataType::fp64: return "F64";
    case DataType::bf16: return "BF16";
    case DataType::fp16: return "F16";
    case DataType::u64: return "U64";
  }
  return "";
}
/// The type in memory that a stored type is; nothing for those that zero does not compute with.
constexpr std::optional<DataType> data_type_of(std::string_view stored) {
  for (const DataType type :
       {DataType::fp32, DataType::fp64, DataType::bf16, DataType::fp16, DataType::u64}) {
    if (stored_name(type) == stored) return type;
  }
  return {};
}

/// What becomes of numbers of one type in another.
enum class Conversion { same, exact, rounds, none };

/// Whether elements can be converted, and whether that loses bits.
constexpr Conversion conversion(DataType from, DataType to) {
  if (from == to) return Conversion::same;
  if (from == DataType::u64 || to == DataType::u64) return Conversion::none;
  const bool from_half = from == DataType::bf16 || from == DataType::fp16;
  if (to == DataType::fp64 || (to == DataType::fp32 && from_half)) return Conversion::exact;
  return Conversion::rounds;
}

namespace detail {
template <class From, class To>
void convert_elements(const void* in, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, static_cast<const std::byte*>(in) + i * sizeof(From), sizeof from);
    const To to = static_cast<To>(static_cast<float>(from));
    std::memcpy(static_cast<std::byte*>(out) + i * sizeof(To), &to, sizeof to);
  }
}
template <class From>
void convert_from(const void* in, DataType to, void* out, std::size_t count) {
  switch (to) {
    case DataType::fp32: return convert_elements<From, float>(in, out, count);
    case DataType::fp64: return convert_elements<From, double>(in, out, count);
    case DataType::bf16: return convert_elements<From, bf16>(in, out, count);
    case DataType::fp16: return convert_elements<From, fp16>(in, out, count);
    case DataType::u64: return;
  }
}
}  // namespace detail

/// Converts `count` elements, each rounded to nearest (fp64 by way of fp32). Any alignment will do.
///
/// Pre:     conversion(from, to) is not Conversion::none; the arrays do not overlap.
inline void convert(DataType from, const void* in, DataType to, void* out, std::size_t count) {
  if (count == 0) return;
  if (from == to) {
    std::memcpy(out, in, count * size_of(from));
    return;
  }
  switch (from) {
    case DataType::fp32: return detail::convert_from<float>(in, to, out, count);
    case DataType::fp64: return detail::convert_from<double>(in, to, out, count);
    case DataType::bf16: return detail::convert_from<bf16>(in, to, out, count);
    case DataType::fp16: return detail::convert_from<fp16>(in, to, out, count);
    case DataType::u64: return;
  }
}

}  // namespace zero
