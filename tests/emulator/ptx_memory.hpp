// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Where the memory lies that an instruction accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ptx_opcode.hpp"
#include "ptx_warp.hpp"

namespace emulator::ptx {

template <std::size_t bytes>
using Unsigned = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

/// What may be any object's bytes.
template <class T>
struct AliasedType {
  typedef T type __attribute__((may_alias));
};
template <class T>
using Aliased = typename AliasedType<T>::type;

/// The space that an operation's name says.
Space space_of(const Opcode& opcode);

/// Whether a generic address lies in this block's shared memory, this lane's local memory or the
/// parameters; else it is global.
Space space_of_generic(Warp& warp, unsigned lane, std::uint64_t address);

/// Where the access of each lane of a mask lies: the first of `from` is the address.
///
/// Errors:  a fault, if it is not aligned to its size or lies outside of what may be accessed.
void locate(Warp& warp, const Instruction& i, Mask mask, std::size_t bytes,
            std::byte* (&places)[warp_size]);

}  // namespace emulator::ptx
