// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What threads of a kernel do together, and the memory that they share.
#include <algorithm>
#include <emulator/ptx_test.hpp>

BOOST_AUTO_TEST_SUITE(ptx_threads_test)

using ptx_kernels::kernel;
using ptx_kernels::run;

BOOST_AUTO_TEST_CASE(threads_that_took_different_ways_meet_again) {
  // Each thread doubles 1 as often as its number says; then all lanes of a warp add up.
  const auto found = run(kernel(R"(
      mov.u32 %r1, 0; mov.u32 %r2, 1;
    LOOP: setp.ge.u32 %p1, %r1, %r0; @%p1 bra DONE;
      add.u32 %r2, %r2, %r2; add.u32 %r1, %r1, 1; bra LOOP;
    DONE: redux.sync.add.u32 %r3, %r2, -1;
      cvt.u64.u32 %rd1, %r3; st.global.u64 [%rd0], %rd1;)"),
                         20);
  for (const std::uint64_t value : found) BOOST_TEST(value == (1U << 20) - 1);
}

BOOST_AUTO_TEST_CASE(shuffles_take_values_from_where_they_should) {
  const auto shuffled = [](const std::string& kind, unsigned by, unsigned bounds) {
    return run(kernel("shfl.sync." + kind + ".b32 %r1|%p1, %r0, " + std::to_string(by) + ", " +
                      std::to_string(bounds) +
                      ", -1; selp.u32 %r2, 100, 0, %p1; add.u32 %r1, %r1, %r2;"
                      "cvt.u64.u32 %rd1, %r1; st.global.u64 [%rd0], %rd1;"),
               32);
  };
  const auto up = shuffled("up", 3, 0), down = shuffled("down", 5, 31),
             butterfly = shuffled("bfly", 9, 31), index = shuffled("idx", 7, 31),
             segments = shuffled("down", 1, (24 << 8) | 31);  // of 8 lanes
  for (unsigned k = 0; k < 32; ++k) {
    BOOST_TEST(up[k] == (k >= 3 ? 100 + k - 3 : k));
    BOOST_TEST(down[k] == (k + 5 < 32 ? 100 + k + 5 : k));
    BOOST_TEST(butterfly[k] == 100 + (k ^ 9));
    BOOST_TEST(index[k] == 107);
    BOOST_TEST(segments[k] == (k % 8 < 7 ? 100 + k + 1 : k));
  }
}

BOOST_AUTO_TEST_CASE(votes_and_matches_see_the_lanes_of_their_mask) {
  const auto found = run(kernel(R"(
      and.b32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 1;
      vote.sync.ballot.b32 %r2, %p1, -1;
      vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, !%p1, -1;
      match.any.sync.b32 %r3, %r1, -1;
      setp.lt.u32 %p4, %r0, 10; @!%p4 bra AFTER;
      activemask.b32 %r4;
      bar.warp.sync 0x3ff;
    AFTER: mov.b64 %rd1, {%r2, %r3};
      @%p4 cvt.u64.u32 %rd1, %r4;
      selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 2, 0, %p3; add.u32 %r5, %r5, %r6;
      cvt.u64.u32 %rd2, %r5; shl.b64 %rd2, %rd2, 62; xor.b64 %rd1, %rd1, %rd2;
      st.global.u64 [%rd0], %rd1;)"),
                         32);
  constexpr std::uint64_t any = std::uint64_t{1} << 62;
  BOOST_TEST(found[0] == (any ^ 0x3FF));
  for (unsigned k = 10; k < 32; ++k) {
    const std::uint64_t same = 0x11111111ULL << k % 4;
    BOOST_TEST(found[k] == (any ^ (same << 32 | 0x22222222)));
  }
}

BOOST_AUTO_TEST_CASE(a_block_exchanges_through_shared_memory_and_barriers) {
  // 70 threads turn their numbers around; two ended before.
  const auto found = run(kernel(R"(
      .shared .align 8 .b8 room[560];
      setp.ge.u32 %p1, %r0, 70; @%p1 exit;
      mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 8, %r1;
      cvt.u64.u32 %rd1, %r0; st.shared.u64 [%r2], %rd1;
      barrier.sync.aligned 0;
      sub.u32 %r3, 69, %r0; mad.lo.u32 %r2, %r3, 8, %r1;
      ld.shared.u64 %rd1, [%r2]; st.global.u64 [%rd0], %rd1;)"),
                         72);
  for (unsigned k = 0; k < 70; ++k) BOOST_TEST(found[k] == 69 - k);
}

BOOST_AUTO_TEST_CASE(shared_memory_of_a_launch_lies_behind_the_rest_and_begins_as_no_number) {
  const auto found = run(kernel(R"(
      .shared .align 4 .b8 fixed[4];
      mov.u32 %r1, more; mov.u32 %r2, fixed; sub.u32 %r3, %r1, %r2;
      ld.shared.u32 %r4, [more+12];
      mov.b64 %rd1, {%r3, %r4}; st.global.u64 [%rd0], %rd1;)",
                                ".extern .shared .align 16 .b8 more[];\n"),
                         1, 1, 16);
  BOOST_TEST(found[0] == (0xFFFFFFFF00000000 | 16));
}

BOOST_AUTO_TEST_CASE(barriers_count_and_name) {
  const auto found = run(kernel(R"(
      setp.lt.u32 %p1, %r0, 40;
      bar.red.popc.u32 %r1, 0, %p1;
      bar.red.and.pred %p2, 1, %p1; bar.red.or.pred %p3, 1, %p1;
      @!%p1 bra END;
      bar.sync 2, 64;
    END: @%p1 bra OUT; setp.lt.u32 %p4, %r0, 64; @%p4 bar.sync 2, 64;
    OUT: selp.u32 %r2, 1000, 0, %p2; selp.u32 %r3, 100, 0, %p3;
      add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
      cvt.u64.u32 %rd1, %r1; st.global.u64 [%rd0], %rd1;)"),
                         96);
  for (const std::uint64_t value : found) BOOST_TEST(value == 140);
}

BOOST_AUTO_TEST_CASE(atomics_of_all_threads_and_blocks_add_up) {
  const auto found = run(kernel(R"(
      ld.param.u64 %rd2, [kernel_numbers];
      atom.global.add.u64 %rd3, [%rd2], 2;
      red.global.max.u32 [%rd2+8], %r0;
      atom.global.cas.b32 %r1, [%rd2+16], 0, 77;
      atom.global.add.f64 %fd1, [%rd2+24], 0d3FF0000000000000;
      atom.global.inc.u32 %r2, [%rd2+32], 9;
      atom.global.exch.b32 %r3, [%rd2+40], 5;
      red.global.and.b32 [%rd2+48], %r0;)"),
                         50, {3, 2, 1});
  BOOST_TEST(found[0] == 600U);
  BOOST_TEST(found[1] == 49U);
  BOOST_TEST(found[2] == 77U);
  BOOST_TEST(found[3] == 0x4072C00000000000U);  // 300
  BOOST_TEST(found[4] == 0U);                   // 300 steps of 10
  BOOST_TEST(found[5] == 5U);
  BOOST_TEST(found[6] == 0U);
}

BOOST_AUTO_TEST_CASE(every_place_of_grid_and_block_is_visited) {
  const auto found = run(kernel(R"(
      ld.param.u64 %rd2, [kernel_numbers];
      mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.u32 %r1, %r1, %r2, %r0;
      mul.wide.u32 %rd3, %r1, 8; add.s64 %rd2, %rd2, %rd3;
      mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.z; mov.u32 %r5, %nctaid.z;
      mad.lo.u32 %r3, %r3, %r5, %r4; add.u32 %r3, %r3, 1;
      cvt.u64.u32 %rd4, %r3; red.global.add.u64 [%rd2], %rd4;)"),
                         {5, 3, 1}, {2, 1, 3});
  for (const std::uint64_t value : found) BOOST_TEST(value == 21);  // 1 + .. + 6
}

BOOST_AUTO_TEST_CASE(functions_are_called_with_what_is_passed) {
  const char* const twice = R"(
    .func (.param .b64 out) twice(.param .align 8 .b8 in[16])
    { .reg .b64 %rd<3>; .reg .pred %p<2>;
      ld.param.u64 %rd1, [in+8]; setp.gt.u64 %p1, %rd1, 100; @%p1 bra BIG;
      add.s64 %rd1, %rd1, %rd1; st.param.b64 [out], %rd1; ret;
    BIG: st.param.b64 [out], 1; ret; }
  )";
  const auto found = run(kernel(R"(
      cvt.u64.u32 %rd1, %r0; mul.lo.u64 %rd1, %rd1, 60; setp.ne.u32 %p1, %r0, 3;
      { .param .align 8 .b8 p0[16]; .param .b64 r0;
        st.param.b64 [p0+8], %rd1; st.param.b64 [r0], 5;
        @%p1 call.uni (r0), twice, (p0);
        ld.param.b64 %rd2, [r0]; }
      { .param .align 8 .b8 p0[16]; .param .b64 r0;
        st.param.b64 [p0+8], %rd2; call.uni (r0), twice, (p0);
        ld.param.b64 %rd2, [r0]; }
      st.global.u64 [%rd0], %rd2;)",
                                twice),
                         4);
  BOOST_TEST(found == (std::vector<std::uint64_t>{0, 1, 2, 10}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(variables_of_a_module_and_of_a_thread_are_there) {
  const auto found = run(kernel(R"(
      .local .align 8 .b8 own[32];
      mov.u64 %rd1, own; cvta.local.u64 %rd2, %rd1;
      mul.wide.u32 %rd3, %r0, 8; add.s64 %rd3, %rd3, %rd2;
      cvt.u64.u32 %rd4, %r0; st.u64 [%rd3], %rd4; ld.local.u64 %rd5, [own+8];
      ld.const.u32 %r1, [table+4]; atom.global.add.u32 %r2, [counter], %r1;
      cvt.u64.u32 %rd6, %r2; shl.b64 %rd6, %rd6, 32;
      setp.eq.u32 %p1, %r0, 1; selp.u64 %rd5, %rd5, 9, %p1;
      or.b64 %rd5, %rd5, %rd6; st.global.u64 [%rd0], %rd5;)",
                                ".const .align 4 .u32 table[3] = {1, 20, 3};\n"
                                ".global .align 4 .u32 counter = 7;\n"),
                         3);
  BOOST_TEST(
      found == (std::vector<std::uint64_t>{7ULL << 32 | 9, 27ULL << 32 | 1, 47ULL << 32 | 9}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(vectors_are_loaded_and_stored_in_order) {
  const auto found = run(kernel(R"(
      ld.param.u64 %rd2, [kernel_numbers]; setp.ne.u32 %p1, %r0, 0; @%p1 exit;
      st.global.v4.u32 [%rd2], {1, 2, 3, 4}; st.global.v2.u64 [%rd2+16], {5, 6};
      ld.global.v2.u64 {%rd3, _}, [%rd2]; ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [%rd2+4];
      ld.volatile.global.s8 %rs5, [%rd2+8]; st.global.u64 [%rd2+32], %rd3;
      st.global.v4.u16 [%rd2+40], {%rs1, %rs2, %rs3, %rs5};)"),
                         6);
  const std::vector<std::uint64_t> expected = {0x200000001, 0x400000003, 5,
                                               6,           0x200000001, 0x0003000000000002};
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
