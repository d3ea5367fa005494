// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Small kernels in PTX that are written by hand.
#pragma once

#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <emulator/emulator.hpp>
#include <emulator/ptx.hpp>
#include <string>
#include <vector>

namespace ptx_kernels {

/// Device memory for numbers of 64 bits.
class Numbers {
 public:
  explicit Numbers(std::size_t count) : count_(count) {
    cudaMalloc(reinterpret_cast<void**>(&memory_), count * sizeof(std::uint64_t));
    cudaMemset(memory_, 0, count * sizeof(std::uint64_t));
    cudaDeviceSynchronize();
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() { cudaFree(memory_); }
  std::uint64_t* data() const { return memory_; }
  std::vector<std::uint64_t> get() const {
    std::uint64_t* const memory = emulator::host_view(memory_);
    return {memory, memory + count_};
  }

 private:
  std::uint64_t* memory_ = nullptr;
  std::size_t count_;
};

/// A kernel with one parameter, an array of numbers: %rd0 is where the thread's own number lies,
/// %r0 the thread. Registers %r, %rd, %f, %fd, %rs, %p may be used.
inline std::string kernel(const std::string& body, const std::string& before = "") {
  return ".version 9.0\n.target sm_90\n.address_size 64\n" + before +
         ".visible .entry kernel(.param .u64 kernel_numbers)\n{\n"
         ".reg .pred %p<10>; .reg .b16 %rs<10>; .reg .b32 %r<30>; .reg .b64 %rd<30>;\n"
         ".reg .f32 %f<10>; .reg .f64 %fd<10>;\n"
         "ld.param.u64 %rd0, [kernel_numbers];\nmov.u32 %r0, %tid.x;\n"
         "mad.wide.u32 %rd0, %r0, 8, %rd0;\n" +
         body + "\nret;\n}\n";
}

/// What the numbers are after a run.
inline std::vector<std::uint64_t> run(const std::string& text, dim3 block = 1, dim3 grid = 1,
                                      std::size_t shared_bytes = 0) {
  const Numbers numbers(block.x * block.y * block.z);
  const std::uint64_t* argument = numbers.data();
  void* arguments[] = {&argument};
  emulator::ptx_launch_text(text, "kernel", grid, block, shared_bytes, arguments)();
  return numbers.get();
}
/// What one thread leaves in %rd1.
inline std::uint64_t value_of(const std::string& body) {
  return run(kernel(body + " st.global.u64 [%rd0], %rd1;"))[0];
}

/// The text of the fault that a run ends with; empty if it ends well.
inline std::string fault_of(const std::string& text, dim3 block = 1, dim3 grid = 1) {
  try {
    run(text, block, grid);
    return "";
  } catch (const emulator::KernelFault& fault) { return fault.what(); }
}

}  // namespace ptx_kernels
