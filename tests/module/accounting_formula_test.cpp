// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bytes held follow the formulas of the ZeRO paper, and an allocator that counts sees the same.
#include <boost/test/unit_test.hpp>

#include "../counting_new.hpp"
#include "grid.hpp"

BOOST_AUTO_TEST_SUITE(accounting_formula_test)

using zero::bf16;
using zero::BytesHeld;

template <class T>
struct Layer {
  zero::Tensor<T> weight;
  static constexpr auto tensors(std::size_t n) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {n}));
  }
};

/// What one rank holds for `units` layers of `n` elements.
template <class StageType, class T>
BytesHeld held(std::size_t world, std::size_t units, std::size_t n) {
  BytesHeld bytes;
  zero::run_threads(world, [&](zero::ThreadCommunicator& comm) {
    auto module = zero::shard<StageType, T>(zero::model(zero::units<Layer>("layer", units, n)),
                                            comm, zero::AdamW{});
    if (comm.rank() == 0) bytes = module.bytes_held();
    comm.barrier();
  });
  return bytes;
}

/// Bytes that building a module allocates with the alignment of its memory, on one rank.
template <class StageType, class T>
std::size_t allocated(const grid::Shapes& shapes, std::span<std::byte> memory, BytesHeld* bytes) {
  zero::SelfCommunicator comm;
  const auto mesh = zero::mesh(comm);
  const std::size_t before = aligned_bytes;
  auto module = zero::shard<StageType, T>(grid::make_model(shapes), mesh, grid::adam,
                                          zero::ModuleOptions{.memory = memory});
  const std::size_t after = aligned_bytes;
  *bytes = module.bytes_held();
  return after - before;
}
template <class StageType, class T>
void check_allocator() {
  for (const grid::Shapes& shapes : grid::models) {
    const std::size_t needed =
        zero::bytes_needed<StageType, T>(grid::make_model(shapes), 1, grid::adam);
    struct alignas(zero::memory_alignment) Line {
      std::byte bytes[zero::memory_alignment];
    };
    std::vector<Line> given(needed / sizeof(Line) + 1);
    BytesHeld own, lent;
    const std::size_t with_block = allocated<StageType, T>(shapes, {}, &own);
    const std::size_t without = allocated<StageType, T>(
        shapes, std::as_writable_bytes(std::span(given)).first(needed), &lent);
    BOOST_TEST(with_block - without == own.total());
    BOOST_TEST(needed == own.total());
    BOOST_TEST((own == lent));
  }
}

constexpr std::size_t units = 24, layer = 3840, elements = units * layer;

/// Bytes of weights, gradients and optimizer are this many per element and, over the ranks, as many
/// more; slots are for so many units.
template <class StageType, class T>
void check_formula(std::size_t whole, std::size_t over_ranks, std::size_t param_slots,
                   std::size_t gradient_slots) {
  for (const std::size_t world : {1U, 2U, 3U, 4U, 5U, 8U}) {
    const BytesHeld bytes = held<StageType, T>(world, units, layer);
    BOOST_TEST(bytes.weights + bytes.gradients + bytes.optimizer ==
               whole * elements + over_ranks * elements / world);
    BOOST_TEST(bytes.slots == (param_slots * sizeof(T) + gradient_slots * sizeof(float)) * layer);
    BOOST_TEST(bytes.control <=
               1024 + (96 + sizeof(zero::AdamW::Coefficients)) * (units + 1) + 8 * world);
  }
}

// Source: Rajbhandari et al., ZeRO, 2020, section 3.1 and figure 1; gradients are fp32 here.
BOOST_AUTO_TEST_CASE(fp32_takes_16_bytes_an_element_of_which_stages_shard_8_12_and_16) {
  check_formula<zero::Ddp, float>(16, 0, 0, 0);
  check_formula<zero::Zero1, float>(8, 8, 0, 0);
  check_formula<zero::Zero2, float>(4, 12, 0, 2);
  check_formula<zero::Zero3, float>(0, 16, 2, 2);
}
BOOST_AUTO_TEST_CASE(bf16_takes_18_bytes_an_element_of_which_stages_shard_12_16_and_18) {
  check_formula<zero::Ddp, bf16>(18, 0, 0, 0);
  check_formula<zero::Zero1, bf16>(6, 12, 0, 0);
  check_formula<zero::Zero2, bf16>(2, 16, 0, 2);
  check_formula<zero::Zero3, bf16>(0, 18, 2, 2);
}
BOOST_AUTO_TEST_CASE(slots_do_not_grow_with_the_depth_of_the_model) {
  const std::size_t shallow = held<zero::Zero3, float>(2, 4, layer).slots;
  BOOST_TEST((shallow == held<zero::Zero3, float>(2, 96, layer).slots));
}
BOOST_AUTO_TEST_CASE(an_allocator_that_counts_sees_the_bytes_that_are_held) {
  check_allocator<zero::Ddp, float>();
  check_allocator<zero::Zero1, bf16>();
  check_allocator<zero::Zero3, float>();
  check_allocator<zero::Zero3, bf16>();
}

BOOST_AUTO_TEST_SUITE_END()
