// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/layout/flat_layout.hpp>

BOOST_AUTO_TEST_SUITE(flat_layout_test)

using zero::FlatLayout;
using zero::Piece;
using Sizes = std::vector<std::size_t>;

// Every property of a layout; true if all hold. Works on any sizes: it counts, it stores nothing.
constexpr bool sound(const Sizes& sizes, std::size_t ranks, std::size_t alignment) {
  const FlatLayout layout(sizes, ranks, alignment);
  if (layout.tensors() != sizes.size() || layout.ranks() != ranks) return false;

  // Tensors follow each other in order, each at the first aligned place.
  std::size_t end = 0, elements = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t offset = layout.tensor_offset(i);
    if (layout.tensor_size(i) != sizes[i]) return false;
    if (offset % alignment != 0 || offset < end || offset - end >= alignment) return false;
    end = offset + sizes[i];
    elements += sizes[i];
  }
  if (layout.elements() != elements) return false;

  // The whole is the smallest multiple of ranks * alignment that holds them.
  const std::size_t multiple = ranks * alignment;
  if (layout.padded() % multiple != 0 || layout.padded() < end) return false;
  if (layout.padded() != 0 && layout.padded() - multiple >= end) return false;
  if (layout.shard() * ranks != layout.padded()) return false;

  // The pieces of all ranks, one after the other, are each tensor from its begin to its end.
  std::size_t tensor = 0, done = 0, owned = 0;
  const auto skip_finished = [&] {
    while (tensor < sizes.size() && done == sizes[tensor]) {
      ++tensor;
      done = 0;
    }
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t in_rank = 0, shard_end = 0;
    for (const Piece piece : layout.pieces(rank)) {
      skip_finished();
      if (piece.count == 0 || piece.tensor != tensor || piece.tensor_begin != done) return false;
      if (piece.shard_begin < shard_end || piece.shard_begin % alignment != 0) return false;
      if (rank * layout.shard() + piece.shard_begin !=
          layout.tensor_offset(tensor) + piece.tensor_begin) {
        return false;
      }
      done += piece.count;
      in_rank += piece.count;
      shard_end = piece.shard_begin + piece.count;
    }
    if (shard_end > layout.shard() || layout.owned(rank) != in_rank) return false;
    owned += in_rank;
  }
  skip_finished();
  return tensor == sizes.size() && owned == elements;
}

// More elements than 32 bits count.
constexpr std::size_t over_31_bits = (std::size_t{1} << 31) + 5;
constexpr std::size_t over_33_bits = (std::size_t{1} << 33) + 1;
static_assert(sound({over_31_bits}, 1, 1) && sound({over_33_bits}, 1, 8));
static_assert(sound({over_31_bits, over_33_bits, 3}, 3, 4));
static_assert(sound({over_31_bits, over_33_bits, 3}, 4, 8));

constexpr std::size_t shard_of(std::size_t size, std::size_t ranks, std::size_t alignment) {
  return FlatLayout(Sizes{size}, ranks, alignment).shard();
}
static_assert(shard_of(over_31_bits, 1, 1) == 2147483653);
static_assert(shard_of(over_31_bits, 3, 1) == 715827885);
static_assert(shard_of(over_31_bits, 4, 8) == 536870920);
static_assert(shard_of(over_33_bits, 1, 1) == 8589934593);
static_assert(shard_of(over_33_bits, 3, 1) == 2863311531);
static_assert(shard_of(over_33_bits, 4, 8) == 2147483656);

constexpr bool last_rank_of_a_large_tensor() {
  const Sizes sizes{5, over_33_bits};
  const FlatLayout layout(sizes, 4, 1);
  const Piece last = *layout.pieces(3).begin();
  return last == Piece{1, 3 * layout.shard() - 5, 0, layout.shard() - 2} && layout.owned(3) > 0;
}
static_assert(last_rank_of_a_large_tensor());

BOOST_AUTO_TEST_CASE(each_element_lies_in_exactly_one_piece_of_one_rank_for_a_grid_of_layouts) {
  const std::vector<Sizes> all_sizes = {{1},
                                        {2},
                                        {3},
                                        {1, 7, 5},
                                        {4, 4},
                                        {1, 7, 5, 44},
                                        {1, 7, 5, 64},
                                        {6},
                                        {6, 1, 3},
                                        {0},
                                        {},
                                        {0, 0, 3},
                                        {3, 0, 0},
                                        {0, 5, 0, 0, 9, 0},
                                        Sizes(60, 1),
                                        {1000003},
                                        {over_31_bits, 7, over_33_bits}};
  for (const Sizes& sizes : all_sizes) {
    for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
      for (const std::size_t alignment : Sizes{1, 4, 8}) {
        BOOST_TEST(sound(sizes, ranks, alignment),
                   sizes.size() << " tensors, " << ranks << " ranks, alignment " << alignment);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(six_elements_on_four_ranks_leave_the_last_rank_without_any) {
  const FlatLayout layout(Sizes{6}, 4, 1);
  const std::array<std::size_t, 4> expected = {2, 2, 2, 0};
  for (std::size_t rank = 0; rank < 4; ++rank) BOOST_TEST(layout.owned(rank) == expected[rank]);
  BOOST_TEST((layout.pieces(3).begin() == layout.pieces(3).end()));
}

BOOST_AUTO_TEST_CASE(sixty_tensors_of_one_element_and_some_of_seven_are_all_found) {
  Sizes sizes;
  for (int i = 1; i <= 60; ++i) {
    sizes.push_back(1);
    if (i % 10 == 0) sizes.push_back(7);
  }
  const FlatLayout layout(sizes, 4, 4);
  BOOST_TEST(layout.elements() == 102U);
  BOOST_TEST(layout.owned(0) + layout.owned(1) + layout.owned(2) + layout.owned(3) == 102U);
}

BOOST_AUTO_TEST_CASE(a_tensor_that_a_shard_border_cuts_has_a_piece_on_both_sides) {
  const FlatLayout layout(Sizes{1, 7, 5}, 3, 4);  // at 0, 4 and 12; 24 elements with padding
  std::vector<std::pair<std::size_t, Piece>> pieces;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    layout.for_each_piece(rank, [&](const Piece& piece) { pieces.push_back({rank, piece}); });
  }
  const std::vector<std::pair<std::size_t, Piece>> expected = {{0, {0, 0, 0, 1}},
                                                               {0, {1, 0, 4, 4}},
                                                               {1, {1, 4, 0, 3}},
                                                               {1, {2, 0, 4, 4}},
                                                               {2, {2, 4, 0, 1}}};
  BOOST_TEST(layout.padded() == 24U);
  BOOST_TEST((pieces == expected));
}

BOOST_AUTO_TEST_CASE(the_layout_of_one_model_on_other_ranks_keeps_the_real_elements) {
  const Sizes sizes{1, 7, 5, 44};
  for (const std::size_t ranks : Sizes{1, 2, 3, 4}) {
    const FlatLayout layout(sizes, ranks, 4);
    std::vector<std::size_t> order;  // the index of each element, as the ranks hold them
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const Piece piece : layout.pieces(rank)) {
        std::size_t before = 0;
        for (std::size_t i = 0; i < piece.tensor; ++i) before += sizes[i];
        for (std::size_t i = 0; i < piece.count; ++i) {
          order.push_back(before + piece.tensor_begin + i);
        }
      }
    }
    BOOST_TEST(order.size() == 57U);
    for (std::size_t i = 0; i < order.size(); ++i) BOOST_TEST(order[i] == i);
  }
}

template <class F>
void refuses(F f, const char* expected) {
  BOOST_CHECK_EXCEPTION(f(), zero::ContractError, [&](const zero::ContractError& error) {
    return std::string(error.what()).find(expected) != std::string::npos;
  });
}

/// Whether tensors from `first` on fit in order into `ranks` shards: tried in all ways.
bool fits(const Sizes& rooms, std::size_t first, std::size_t ranks, std::size_t shard) {
  if (first == rooms.size()) return true;
  std::size_t used = 0;
  for (std::size_t i = first; ranks > 0 && i < rooms.size(); ++i) {
    used += rooms[i];
    if (used > shard) return false;
    if (fits(rooms, i + 1, ranks - 1, shard)) return true;
  }
  return false;
}
BOOST_AUTO_TEST_CASE(whole_tensors_have_one_owner_each_and_shards_are_as_small_as_that_allows) {
  std::size_t tried = 0;
  for (const Sizes& sizes : {Sizes{},
                             {1},
                             {5},
                             {0, 3, 0},
                             {3, 1, 4, 4},
                             {7, 7, 7},
                             {1, 2, 3, 4, 5, 6},
                             {9, 1, 1, 1, 9}}) {
    for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
      for (const std::size_t alignment : {1, 2, 4}) {
        const FlatLayout layout(sizes, ranks, alignment, zero::Cut::between_tensors);
        Sizes rooms, owners(sizes.size(), 0);
        for (const std::size_t size : sizes) {
          rooms.push_back((size + alignment - 1) / alignment * alignment);
        }
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          for (const Piece piece : layout.pieces(rank)) {
            ++owners[piece.tensor];
            BOOST_TEST((piece.tensor_begin == 0 && piece.count == sizes[piece.tensor]));
            BOOST_TEST(rank * layout.shard() + piece.shard_begin ==
                       layout.tensor_offset(piece.tensor));
          }
        }
        for (std::size_t t = 0; t < sizes.size(); ++t) {
          BOOST_TEST(owners[t] == (sizes[t] == 0 ? 0U : 1U));
          BOOST_TEST(layout.tensor_offset(t) % alignment == 0U);
        }
        BOOST_TEST(layout.shard() % alignment == 0U);
        BOOST_TEST(fits(rooms, 0, ranks, layout.shard()));
        if (layout.shard() > 0) { BOOST_TEST(!fits(rooms, 0, ranks, layout.shard() - alignment)); }
        ++tried;
      }
    }
  }
  BOOST_TEST(tried == 8U * 5 * 3);
}

BOOST_AUTO_TEST_CASE(no_ranks_alignment_zero_and_a_rank_outside_are_refused) {
  refuses([] { return FlatLayout(Sizes{1}, 0, 4); }, "at least 1");
  refuses([] { return FlatLayout(Sizes{1}, 4, 0); }, "at least 1");
  const FlatLayout layout(Sizes{1}, 4, 4);
  refuses([&] { return layout.owned(4); }, "below 4, got 4");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_64_bits_is_refused) {
  const std::size_t limit = FlatLayout::max_elements, huge = ~std::size_t{0};
  BOOST_TEST(FlatLayout(Sizes{limit}, 1, 8).padded() == limit);
  BOOST_TEST(FlatLayout(Sizes{limit / 2, limit / 2}, 4, 8).padded() == limit);
  refuses([&] { return FlatLayout(Sizes{limit + 1}, 1, 1); }, "2^58");
  refuses([&] { return FlatLayout(Sizes{limit / 2, limit / 2, 1}, 1, 1); }, "2^58");
  refuses([&] { return FlatLayout(Sizes{limit}, 3, 8); }, "2^58");
  refuses([&] { return FlatLayout(Sizes{huge}, 1, 8); }, "2^58");
  refuses([&] { return FlatLayout(Sizes(40, limit), 1, 8); }, "40 tensors");
  refuses([&] { return FlatLayout(Sizes{1}, huge, 8); }, "2^58");
  refuses([&] { return FlatLayout(Sizes{1}, 8, huge); }, "2^58");
  refuses([&] { return FlatLayout(Sizes{1}, limit, 2); }, "2^58");
}

BOOST_AUTO_TEST_SUITE_END()
