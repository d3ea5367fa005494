// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A fuzzer of the readers of checkpoints, by libFuzzer, to be run by hand on a copy of the corpus:
//   clang++-14 -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined
//   -fno-sanitize-recover=undefined
//       -Iinclude tests/checkpoint/fuzz/fuzz.cpp -lxxhash -pthread -o build/fuzz
//   build/fuzz -max_len=4096 -dict=tests/checkpoint/fuzz/words.dict COPY
#include <cstddef>
#include <cstdint>

#include "readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::reads({reinterpret_cast<const char*>(data), size});
  return 0;
}
