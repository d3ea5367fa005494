// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include "ptx_opcode.hpp"

namespace emulator::ptx {

namespace {
struct NamedType {
  std::string_view name;
  Type type;
};
constexpr NamedType types_by_name[] = {
    {"pred", Type::pred},     {"b8", Type::u8},   {"b16", Type::u16},   {"b32", Type::u32},
    {"b64", Type::u64},       {"u8", Type::u8},   {"u16", Type::u16},   {"u32", Type::u32},
    {"u64", Type::u64},       {"s8", Type::s8},   {"s16", Type::s16},   {"s32", Type::s32},
    {"s64", Type::s64},       {"f16", Type::f16}, {"bf16", Type::bf16}, {"f16x2", Type::f16x2},
    {"bf16x2", Type::bf16x2}, {"f32", Type::f32}, {"f64", Type::f64},
};
}  // namespace

Opcode::Opcode(const std::string& text) {
  std::size_t begin = text.find('.');
  name = text.substr(0, begin);
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('.', begin + 1), text.size());
    const std::string part = text.substr(begin + 1, end - begin - 1);
    const auto* const type =
        std::find_if(std::begin(types_by_name), std::end(types_by_name),
                     [&](const NamedType& named) { return named.name == part; });
    if (type == std::end(types_by_name)) {
      modifiers.push_back(part);
    } else {
      types.push_back(type->type);
    }
    begin = end;
  }
}

}  // namespace emulator::ptx
