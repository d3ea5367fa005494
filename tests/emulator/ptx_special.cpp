// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Special registers.
#include "ptx_warp.hpp"

namespace emulator::ptx {

namespace {

template <unsigned dim3::*axis, dim3 Execution::*member>
std::uint64_t of_grid(const Execution& e, unsigned) {
  return e.*member.*axis;
}
template <unsigned dim3::*axis>
std::uint64_t of_thread(const Execution& e, unsigned thread) {
  return e.thread_place(thread).*axis;
}
template <std::uint64_t value>
std::uint64_t always(const Execution&, unsigned) {
  return value;
}
std::uint64_t lane(const Execution&, unsigned thread) { return thread % warp_size; }
std::uint64_t warp(const Execution&, unsigned thread) { return thread / warp_size; }
std::uint64_t warps(const Execution& e, unsigned) {
  return (e.threads() + warp_size - 1) / warp_size;
}
Mask bit(unsigned thread) { return Mask{1} << thread % warp_size; }
std::uint64_t lanes_equal(const Execution&, unsigned thread) { return bit(thread); }
std::uint64_t lanes_less(const Execution&, unsigned thread) { return bit(thread) - 1; }
std::uint64_t lanes_up_to(const Execution&, unsigned thread) {
  return bit(thread) | (bit(thread) - 1);
}
std::uint64_t lanes_greater(const Execution&, unsigned thread) {
  return ~(bit(thread) | (bit(thread) - 1));
}
std::uint64_t lanes_from(const Execution&, unsigned thread) { return ~(bit(thread) - 1); }
std::uint64_t shared_in_all(const Execution& e, unsigned) { return e.shared_bytes; }
std::uint64_t shared_of_launch(const Execution& e, unsigned) {
  return e.shared_bytes - e.program.shared_bytes;
}

struct NamedRegister {
  const char* name;
  SpecialValue value;
};
constexpr NamedRegister specials[] = {
    {"%tid.x", of_thread<&dim3::x>},
    {"%tid.y", of_thread<&dim3::y>},
    {"%tid.z", of_thread<&dim3::z>},
    {"%ntid.x", of_grid<&dim3::x, &Execution::size>},
    {"%ntid.y", of_grid<&dim3::y, &Execution::size>},
    {"%ntid.z", of_grid<&dim3::z, &Execution::size>},
    {"%ctaid.x", of_grid<&dim3::x, &Execution::block>},
    {"%ctaid.y", of_grid<&dim3::y, &Execution::block>},
    {"%ctaid.z", of_grid<&dim3::z, &Execution::block>},
    {"%nctaid.x", of_grid<&dim3::x, &Execution::grid>},
    {"%nctaid.y", of_grid<&dim3::y, &Execution::grid>},
    {"%nctaid.z", of_grid<&dim3::z, &Execution::grid>},
    {"%laneid", lane},
    {"%warpid", warp},
    {"%nwarpid", warps},
    {"%lanemask_eq", lanes_equal},
    {"%lanemask_lt", lanes_less},
    {"%lanemask_le", lanes_up_to},
    {"%lanemask_gt", lanes_greater},
    {"%lanemask_ge", lanes_from},
    {"%smid", always<0>},
    {"%nsmid", always<1>},
    {"%gridid", always<0>},
    {"%clock", always<0>},
    {"%clock64", always<0>},
    {"%globaltimer", always<0>},
    {"%cluster_ctarank", always<0>},
    {"%cluster_nctarank", always<1>},
    {"%total_smem_size", shared_in_all},
    {"%dynamic_smem_size", shared_of_launch},
};
}  // namespace

SpecialValue special_register(const std::string& name) {
  for (const NamedRegister& special : specials) {
    if (name == special.name) return special.value;
  }
  return nullptr;
}

}  // namespace emulator::ptx
