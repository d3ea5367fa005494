// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a call that breaks a contract says.
#pragma once

#include <string>
#include <zero/base/error.hpp>

namespace contract {

/// The text of the ContractError that `f` throws, or "no error".
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const zero::ContractError& error) { return error.what(); }
  return "no error";
}

}  // namespace contract
