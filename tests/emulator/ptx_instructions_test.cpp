// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What single instructions of PTX give, as the manual says.
#include <emulator/ptx_test.hpp>
#include <utility>

BOOST_AUTO_TEST_SUITE(ptx_instructions_test)

using ptx_kernels::value_of;
using Cases = std::vector<std::pair<const char*, std::uint64_t>>;

void check(const Cases& cases) {
  for (const auto& [body, expected] : cases) {
    BOOST_TEST_CONTEXT(body) BOOST_TEST(value_of(body) == expected);
  }
}
constexpr std::uint64_t all_ones = ~std::uint64_t{0};

BOOST_AUTO_TEST_CASE(integers_wrap_extend_and_divide) {
  check({
      {"mov.u32 %r1, 0x7fffffff; add.s32 %r2, %r1, 1; cvt.s64.s32 %rd1, %r2;", 0xFFFFFFFF80000000},
      {"mov.u32 %r1, 0; sub.u32 %r2, %r1, 1; cvt.u64.u32 %rd1, %r2;", 0xFFFFFFFF},
      {"mul.lo.s32 %r1, -3, 5; cvt.s64.s32 %rd1, %r1;", all_ones - 14},
      {"mul.hi.s32 %r1, -3, 5; cvt.s64.s32 %rd1, %r1;", all_ones},
      {"mul.hi.u32 %r1, 0xffffffff, 16; cvt.u64.u32 %rd1, %r1;", 15},
      {"mul.hi.u64 %rd1, -1, -1;", all_ones - 1},
      {"mul.hi.s64 %rd1, -1, -1;", 0},
      {"mul.wide.s32 %rd1, -3, 5;", all_ones - 14},
      {"mul.wide.u16 %r1, 65535, 65535; cvt.u64.u32 %rd1, %r1;", 4294836225},
      {"mov.u64 %rd2, 7; mad.wide.u32 %rd1, 0xffffffff, 2, %rd2;", 0x200000005},
      {"mad.lo.s32 %r1, 3, 4, -13; cvt.s64.s32 %rd1, %r1;", all_ones},
      {"mad.hi.u32 %r1, 0xffffffff, 16, 4; cvt.u64.u32 %rd1, %r1;", 19},
      {"div.s32 %r1, -7, 2; cvt.s64.s32 %rd1, %r1;", all_ones - 2},
      {"div.u32 %r1, 7, 0; cvt.u64.u32 %rd1, %r1;", 0xFFFFFFFF},
      {"mov.u64 %rd2, 0x8000000000000000; div.s64 %rd1, %rd2, -1;", std::uint64_t{1} << 63},
      {"rem.s32 %r1, -7, 2; cvt.s64.s32 %rd1, %r1;", all_ones},
      {"rem.u64 %rd1, 7, 0;", 7},
      {"min.s32 %r1, -1, 1; cvt.s64.s32 %rd1, %r1;", all_ones},
      {"min.u32 %r1, -1, 1; cvt.u64.u32 %rd1, %r1;", 1},
      {"max.s16 %rs1, -1, 1; cvt.u64.u16 %rd1, %rs1;", 1},
      {"abs.s32 %r1, -5; cvt.u64.u32 %rd1, %r1;", 5},
      {"neg.s64 %rd1, 5;", all_ones - 4},
  });
}

BOOST_AUTO_TEST_CASE(bits_are_moved_counted_and_chosen) {
  check({
      {"shl.b32 %r1, 1, 32; cvt.u64.u32 %rd1, %r1;", 0},
      {"shl.b64 %rd1, 3, 62;", std::uint64_t{3} << 62},
      {"shr.s32 %r1, -8, 40; cvt.s64.s32 %rd1, %r1;", all_ones},
      {"shr.u32 %r1, -8, 28; cvt.u64.u32 %rd1, %r1;", 15},
      {"shr.u32 %r1, -8, 32; cvt.u64.u32 %rd1, %r1;", 0},
      {"shf.l.wrap.b32 %r1, 0x80000000, 1, 1; cvt.u64.u32 %rd1, %r1;", 3},
      {"shf.r.clamp.b32 %r1, 5, 9, 40; cvt.u64.u32 %rd1, %r1;", 9},
      {"lop3.b32 %r1, 0xf0, 0xcc, 0xaa, 0x96; cvt.u64.u32 %rd1, %r1;", 0xF0 ^ 0xCC ^ 0xAA},
      {"bfe.u32 %r1, 0xabcd, 4, 8; cvt.u64.u32 %rd1, %r1;", 0xBC},
      {"bfe.s32 %r1, 0xabcd, 4, 8; cvt.s64.s32 %rd1, %r1;", 0xFFFFFFFFFFFFFFBC},
      {"bfi.b32 %r1, 0xff, 0x11111111, 8, 4; cvt.u64.u32 %rd1, %r1;", 0x11111F11},
      {"prmt.b32 %r1, 0x33221100, 0x77665544, 0x7810; cvt.u64.u32 %rd1, %r1;", 0x77001100},
      {"popc.b64 %r1, -1; cvt.u64.u32 %rd1, %r1;", 64},
      {"clz.b32 %r1, 1; cvt.u64.u32 %rd1, %r1;", 31},
      {"brev.b32 %r1, 1; cvt.u64.u32 %rd1, %r1;", 0x80000000},
      {"bfind.s32 %r1, -1; cvt.u64.u32 %rd1, %r1;", 0xFFFFFFFF},
      {"bfind.u32 %r1, 0x10; cvt.u64.u32 %rd1, %r1;", 4},
      {"not.b32 %r1, 0; cvt.u64.u32 %rd1, %r1;", 0xFFFFFFFF},
      {"mov.b64 %rd1, {1, 2};", 0x200000001},
      {"mov.u64 %rd2, 0x500000006; mov.b64 {%r1, %r2}, %rd2; cvt.u64.u32 %rd1, %r2;", 5},
      {"setp.lt.s32 %p1, -1, 1; selp.u64 %rd1, 7, 9, %p1;", 7},
      {"setp.lt.u32 %p1, -1, 1; selp.u64 %rd1, 7, 9, %p1;", 9},
      {"setp.lt.s32 %p1, 1, 2; setp.gt.and.s32 %p2|%p3, 1, 2, %p1; selp.u64 %rd1, 7, 9, %p3;", 7},
      {"setp.eq.s32 %p1, 1, 2; not.pred %p2, %p1; and.pred %p3, %p2, %p2; selp.u64 %rd1, 7, 9, "
       "%p3;",
       7},
      {"setp.eq.s32 %p1, 1, 2; mov.u64 %rd1, 1; @%p1 mov.u64 %rd1, 2; @!%p1 add.s64 %rd1, %rd1, 4;",
       5},
  });
}

BOOST_AUTO_TEST_CASE(floats_are_rounded_as_ieee_754_says) {
  check({
      {"add.rn.f32 %f1, 0f3F800000, 0f33800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x3F800000},  // 1 + 2^-24: to even
      {"add.rp.f32 %f1, 0f3F800000, 0f33800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x3F800001},
      {"fma.rm.f32 %f1, 0fBF800000, 0f3F800000, 0fB3800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, "
       "%r1;",
       0xBF800001},
      {"add.rn.sat.f32 %f1, 0f3F800000, 0f3F800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x3F800000},
      {"sub.rn.f32 %f1, 0f7F800000, 0f7F800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x7FFFFFFF},  // the one that is not a number
      {"fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, "
       "%r1;",
       0x28800000},  // 2^-46, lost if the product is rounded
      {"div.rn.f64 %fd1, 0d3FF0000000000000, 0d4008000000000000; mov.b64 %rd1, %fd1;",
       0x3FD5555555555555},
      {"sqrt.rn.f32 %f1, 0f40000000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;", 0x3FB504F3},
      {"rcp.approx.ftz.f64 %fd1, 0d4008000000000000; mov.b64 %rd1, %fd1;", 0x3FD5555500000000},
      {"max.f32 %f1, 0f7FC00000, 0f3F800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;", 0x3F800000},
      {"max.NaN.f32 %f1, 0f7FC00000, 0f3F800000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x7FFFFFFF},
      {"min.f32 %f1, 0f00000000, 0f80000000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;", 0x80000000},
      {"setp.ne.f32 %p1, 0f7FC00000, 0f7FC00000; selp.u64 %rd1, 7, 9, %p1;", 9},
      {"setp.neu.f32 %p1, 0f7FC00000, 0f7FC00000; selp.u64 %rd1, 7, 9, %p1;", 7},
      {"setp.gtu.f64 %p1, 0d7FF8000000000000, 0d0000000000000000; selp.u64 %rd1, 7, 9, %p1;", 7},
      {"ex2.approx.ftz.f32 %f1, 0f40400000; cvt.rzi.u64.f32 %rd1, %f1;", 8},
  });
}

BOOST_AUTO_TEST_CASE(conversions_round_clamp_and_extend) {
  check({
      {"cvt.rzi.s32.f32 %r1, 0fC0200000; cvt.s64.s32 %rd1, %r1;", all_ones - 1},  // -2.5
      {"cvt.rni.s32.f32 %r1, 0f40200000; cvt.s64.s32 %rd1, %r1;", 2},
      {"cvt.rmi.s32.f32 %r1, 0fC0200000; cvt.s64.s32 %rd1, %r1;", all_ones - 2},
      {"cvt.rpi.u64.f32 %rd1, 0f40200000;", 3},
      {"cvt.rzi.u32.f32 %r1, 0fBF800000; cvt.u64.u32 %rd1, %r1;", 0},
      {"cvt.rzi.s32.f32 %r1, 0f7F800000; cvt.u64.u32 %rd1, %r1;", 0x7FFFFFFF},
      {"cvt.rzi.s64.f64 %rd1, 0dFFF0000000000000;", std::uint64_t{1} << 63},
      {"cvt.rzi.u64.f32 %rd1, 0f7FC00000;", 0},
      {"cvt.rn.f32.u64 %f1, 0xffffffffffffffff; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x5F800000},
      {"cvt.rz.f32.f64 %f1, 0d3FF000001FFFFFFF; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x3F800000},
      {"cvt.rn.f32.f64 %f1, 0d3FF000001FFFFFFF; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;",
       0x3F800001},
      {"mov.u32 %r1, 0x1ff; cvt.s32.s8 %r2, %r1; cvt.s64.s32 %rd1, %r2;", all_ones},
      {"mov.u32 %r1, 0x1ff; cvt.u16.u32 %rs1, %r1; cvt.u64.u8 %rd1, %rs1;", 0xFF},
      {"cvt.rn.bf16.f32 %rs1, 0f3F808000; cvt.u64.u16 %rd1, %rs1;", 0x3F80},
      {"cvt.rn.bf16x2.f32 %r1, 0f40000000, 0f3F800000; cvt.u64.u32 %rd1, %r1;", 0x40003F80},
      {"cvt.rn.f16.f32 %rs1, 0f477FE000; cvt.u64.u16 %rd1, %rs1;", 0x7BFF},
      {"mov.u16 %rs1, 0x3C00; cvt.f32.f16 %f1, %rs1; cvt.rzi.u64.f32 %rd1, %f1;", 1},
      {"mov.u32 %r1, 0x3C003C00; add.rn.f16x2 %r2, %r1, %r1; cvt.u64.u32 %rd1, %r2;", 0x40004000},
      {"mov.u16 %rs1, 0x3F80; fma.rn.bf16 %rs2, %rs1, %rs1, %rs1; cvt.u64.u16 %rd1, %rs2;", 0x4000},
      {"cvt.rmi.f32.f32 %f1, 0fC0200000; mov.b32 %r1, %f1; cvt.u64.u32 %rd1, %r1;", 0xC0400000},
  });
}

BOOST_AUTO_TEST_SUITE_END()
