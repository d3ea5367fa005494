// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Kernels that go wrong: where, and why.
#include <cstring>
#include <emulator/emulator.hpp>
#include <emulator/ptx_test.hpp>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(ptx_faults_test)

using ptx_kernels::fault_of;
using ptx_kernels::kernel;

bool says(const std::string& text, const std::vector<const char*>& parts) {
  bool all = true;
  for (const char* const part : parts) {
    all = all && text.find(part) != std::string::npos;
    BOOST_TEST_INFO("'" << part << "' is to be in: " << text);
    BOOST_TEST(text.find(part) != std::string::npos);
  }
  return all;
}

BOOST_AUTO_TEST_CASE(a_store_out_of_bounds_is_located) {
  // Thread 6 of block 1 writes behind what 7 threads have.
  const std::string text = kernel(R"(
      mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 8; add.s64 %rd0, %rd0, %rd1;
      st.global.u64 [%rd0], %rd1;)");
  says(fault_of(text, 7, 2),
       {"kernel kernel", "block (1, 0, 0)", "thread (6, 0, 0)", "`st.global.u64 [%rd0], %rd1;`",
        "the 8 bytes at 0x", "no allocation"});
  BOOST_TEST(fault_of(text, 7, 1) == "");
}

BOOST_AUTO_TEST_CASE(loads_and_atomics_out_of_bounds_are_located) {
  says(fault_of(kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+16];"), 1),
       {"thread (0, 0, 0)", "the 16 bytes at 0x", "no allocation"});
  says(fault_of(kernel("ld.u32 %r1, [0];")), {"the 4 bytes at 0x0 lie"});
  says(fault_of(kernel("atom.global.add.u32 %r1, [%rd0+8], 1;")), {"no allocation"});
}

BOOST_AUTO_TEST_CASE(freed_memory_is_no_longer_to_be_accessed) {
  std::uint64_t* memory = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&memory), 8);
  void* arguments[] = {&memory};
  const auto run =
      emulator::ptx_launch_text(kernel("st.global.u64 [%rd0], 5;"), "kernel", 1, 1, 0, arguments);
  run();
  run();  // any number of times
  cudaFree(memory);
  BOOST_CHECK_THROW(run(), emulator::KernelFault);
}

BOOST_AUTO_TEST_CASE(an_access_that_is_not_aligned_is_located) {
  const std::string text = kernel(
      "mul.wide.u32 %rd1, %r0, 2; sub.s64 %rd0, %rd0, %rd1;"
      "ld.global.u32 %r1, [%rd0];");
  says(fault_of(text, 3), {"thread (1, 0, 0)", "not aligned"});
}

BOOST_AUTO_TEST_CASE(shared_local_and_parameter_memory_have_ends) {
  says(fault_of(kernel(".shared .b8 room[32]; mov.u32 %r1, room; st.shared.u32 [%r1+32], 1;")),
       {"lie outside of the shared memory of 32 bytes"});
  says(fault_of(kernel(".local .align 4 .b8 own[16]; mov.u64 %rd1, own; cvta.local.u64 %rd1, %rd1;"
                       "st.u32 [%rd1+12], 1; st.local.u32 [own+16], 1;")),
       {"`st.local.u32 [own+16], 1;`", "lie outside of the local memory of 16 bytes"});
  says(fault_of(kernel("ld.param.u64 %rd1, [kernel_numbers+8];")),
       {"lie outside of the parameter memory of 8 bytes"});
}

BOOST_AUTO_TEST_CASE(an_instruction_that_is_not_known_is_an_error_when_it_is_reached) {
  const std::string text = kernel("setp.eq.u32 %p1, %r0, 1; @%p1 wgmma.fence.sync.aligned;");
  BOOST_TEST(fault_of(text, 1) == "");
  says(fault_of(text, 2), {"thread (1, 0, 0)", "`@%p1 wgmma.fence.sync.aligned;`",
                           "the interpreter does not know this instruction"});
  says(fault_of(kernel("call.uni somewhere, ();")), {"does not know"});
}

BOOST_AUTO_TEST_CASE(a_kernel_may_stop_itself) {
  says(fault_of(kernel("trap;")), {"`trap;`", "stops itself"});
}

BOOST_AUTO_TEST_CASE(threads_that_wait_for_each_other_at_different_places_are_named) {
  // Lane 3 waits at the barrier for lanes that wait for it at the shuffle.
  says(fault_of(kernel(R"(
           setp.eq.u32 %p1, %r0, 3; @%p1 bra OTHER;
           shfl.sync.idx.b32 %r1, %r0, 3, 31, -1; bar.sync 0; bra END;
         OTHER: bar.sync 0;
         END: mov.u32 %r2, 0;)"),
                8),
       {"thread (0, 0, 0)", "`shfl.sync.idx.b32 %r1, %r0, 3, 31, -1;`", "divergence"});
  says(fault_of(kernel("setp.eq.u32 %p1, %r0, 3; @%p1 bar.sync 1; @!%p1 bar.sync 0;"), 8),
       {"divergence"});
}

BOOST_AUTO_TEST_CASE(text_that_is_no_ptx_is_quoted) {
  const auto refusal = [](const std::string& text) {
    try {
      void* nothing[] = {nullptr};
      emulator::ptx_launch_text(text, "kernel", 1, 1, 0, nothing);
    } catch (const std::runtime_error& error) { return std::string(error.what()); }
    return std::string();
  };
  says(refusal("int main() {}"), {"expected a directive before 'int main"});
  says(refusal(kernel("bra NOWHERE;")), {"no label", "bra NOWHERE;"});
  says(refusal(kernel("mov.u32 %r1, nothing;")), {"nothing is called 'nothing'"});
  says(refusal(kernel("mov.u32 %r1, %unheard;")), {"special register %unheard"});
  says(refusal(".version 9.0\n.visible .entry kernel("), {"expected more"});
  void* nothing[] = {nullptr};
  BOOST_TEST(!emulator::ptx_launch_text(".version 9.0\n", "kernel", 1, 1, 0, nothing));
}

BOOST_AUTO_TEST_CASE(a_fat_binary_gives_its_ptx_and_what_is_none_is_refused) {
  const std::string text = kernel("st.global.u64 [%rd0], 5;");
  struct {
    std::uint32_t magic = 0xBA55ED50;
    std::uint16_t version = 1, header_bytes = 16;
    std::uint64_t bytes = 0;
    std::uint16_t kind = 1, entry_version = 1;
    std::uint32_t entry_header_bytes = 16;
    std::uint64_t text_bytes = 0;
    char content[2000] = {};
  } binary;
  std::memcpy(binary.content, text.data(), text.size());
  binary.text_bytes = (text.size() + 8) / 8 * 8;
  binary.bytes = 16 + binary.text_bytes;
  const ptx_kernels::Numbers numbers(1);
  const std::uint64_t* argument = numbers.data();
  void* arguments[] = {&argument};
  emulator::ptx_launch(&binary, "kernel", 1, 1, 0, arguments)();
  BOOST_TEST(numbers.get()[0] == 5U);
  BOOST_TEST(!emulator::ptx_launch(&binary, "other", 1, 1, 0, arguments));
  auto compressed = binary;
  std::memset(compressed.content, 'z', text.size());
  BOOST_CHECK_THROW(emulator::ptx_launch(&compressed, "kernel", 1, 1, 0, arguments),
                    std::runtime_error);
  const std::uint64_t something[4] = {1, 2, 3, 4};
  BOOST_CHECK_THROW(emulator::ptx_launch(something, "kernel", 1, 1, 0, arguments),
                    std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
