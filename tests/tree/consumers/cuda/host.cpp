// SPDX-License-Identifier: Apache-2.0
// CUDA and NCCL by a host compiler. Without a GPU it must say so in a sentence.
#include <cstdio>
#include <cstring>
#include <zero/cuda.hpp>

int main() try {
  auto comm = zero::NcclCommunicator::make(zero::nccl_unique_id(), 0, 1);
  return comm.size() == 1 ? 0 : 1;
} catch (const zero::Error& error) {
  std::puts(error.what());
  return std::strstr(error.what(), "cuda") != nullptr ? 0 : 1;
}
