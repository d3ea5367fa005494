// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The cases of conformance.hpp. Included within the test suite of a model, after what they ask for.

using zero::Accumulate;
using zero::Reduction;

BOOST_AUTO_TEST_CASE(all_gather_puts_the_part_of_each_rank_in_its_place) {
  const auto check = [](auto& rank, auto type, std::size_t count) {
    using T = decltype(type);
    const std::size_t n = rank.comm.size(), r = rank.comm.rank();
    std::vector<T> wanted;
    for (std::size_t p = 0; p < n; ++p) {
      const auto part = rank.elements(type, p, count);
      wanted.insert(wanted.end(), part.begin(), part.end());
    }
    const std::vector<T> input = rank.elements(type, r, count);
    auto in = rank.hold(input);
    auto out = rank.hold(std::vector<T>(n * count));
    rank.issue([&](auto&... on) {
      rank.comm.all_gather(on..., static_cast<const T*>(in.data()), out.data(), count);
    });
    rank.expect_bits(out.values(), wanted, "all_gather");
    rank.expect_bits(in.values(), input, "input of all_gather");

    std::vector<T> with_own(n * count);
    std::copy(input.begin(), input.end(), with_own.data() + r * count);
    auto both = rank.hold(with_own);
    const T* mine = both.data() + r * count;
    rank.issue([&](auto&... on) { rank.comm.all_gather(on..., mine, both.data(), count); });
    rank.expect_bits(both.values(), wanted, "all_gather in place");
  };
  BOOST_TEST(conformance::run<World>([&](auto& rank) {
               conformance::for_each_type([&](auto type) {
                 for (const std::size_t count : conformance::counts) check(rank, type, count);
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(reduce_scatter_sums_in_rank_order_and_rounds_once) {
  const auto check = [](auto& rank, auto type, std::size_t count, Reduction reduction,
                        Accumulate accumulate) {
    using T = decltype(type);
    const std::size_t n = rank.comm.size();
    const std::size_t first = rank.comm.rank() * count;
    const std::vector<T> input = rank.elements(type, rank.comm.rank(), n * count);
    const std::vector<T> old = rank.elements(type, 99, count);
    auto in = rank.hold(input);
    auto out = rank.hold(old);
    const auto reduce = [&](T* to) {
      rank.issue([&](auto&... on) {
        rank.comm.reduce_scatter(on..., static_cast<const T*>(in.data()), to, count, accumulate, {},
                                 reduction);
      });
    };
    if (accumulate == Accumulate::yes && !World::accumulates) {
      try {
        reduce(out.data());
        rank.expect(false, "an accumulation was not refused");
      } catch (const zero::ContractError&) {}
      return;
    }
    std::vector<T> wanted(count);
    for (std::size_t i = 0; i < count; ++i) {
      wanted[i] = rank.reduced(type, first + i, reduction, accumulate, old[i]);
    }
    reduce(out.data());
    rank.expect_bits(out.values(), wanted, "reduce_scatter");
    rank.expect_bits(in.values(), input, "input of reduce_scatter");

    std::vector<T> after = input;
    for (std::size_t i = 0; i < count; ++i) {
      after[first + i] = rank.reduced(type, first + i, reduction, accumulate, input[first + i]);
    }
    reduce(in.data() + first);
    rank.expect_bits(in.values(), after, "reduce_scatter in place, and the other parts");
  };
  BOOST_TEST(conformance::run<World>([&](auto& rank) {
               conformance::for_each_type([&](auto type) {
                 for (const std::size_t count : conformance::counts) {
                   for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
                     check(rank, type, count, reduction, Accumulate::no);
                     check(rank, type, count, reduction, Accumulate::yes);
                   }
                 }
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(all_reduce_gives_the_same_bits_on_all_ranks) {
  const auto check = [](auto& rank, auto type, std::size_t count, Reduction reduction) {
    std::vector wanted(count, type);
    for (std::size_t i = 0; i < count; ++i) wanted[i] = rank.reduced(type, i, reduction);
    auto data = rank.hold(rank.elements(type, rank.comm.rank(), count));
    rank.issue(
        [&](auto&... on) { rank.comm.all_reduce(on..., data.data(), count, {}, reduction); });
    rank.expect_bits(data.values(), wanted, "all_reduce");
  };
  BOOST_TEST(conformance::run<World>([&](auto& rank) {
               conformance::for_each_type([&](auto type) {
                 for (const std::size_t count : conformance::counts) {
                   check(rank, type, count, Reduction::sum);
                   check(rank, type, count, Reduction::average);
                 }
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(broadcast_copies_from_any_root) {
  const auto check = [](auto& rank, auto type, std::size_t root, std::size_t count) {
    auto data = rank.hold(rank.elements(type, rank.comm.rank(), count));
    rank.issue([&](auto&... on) { rank.comm.broadcast(on..., data.data(), count, root); });
    rank.expect_bits(data.values(), rank.elements(type, root, count), "broadcast");
  };
  BOOST_TEST(conformance::run<World>([&](auto& rank) {
               conformance::for_each_type([&](auto type) {
                 for (std::size_t root = 0; root < rank.comm.size(); ++root) {
                   for (const std::size_t count : {0UL, 1UL, 1001UL})
                     check(rank, type, root, count);
                 }
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(a_barrier_makes_what_all_ranks_wrote_before_it_visible) {
  auto& written = conformance::shared_numbers<World>();
  BOOST_TEST(conformance::run<World>([&](auto& rank) {
               for (std::size_t turn = 1; turn < 50; ++turn) {
                 written[rank.comm.rank()] = turn;
                 rank.issue([&](auto&... on) { rank.comm.barrier(on...); });
                 for (std::size_t r = 0; r < rank.comm.size(); ++r) {
                   rank.expect(written[r] == turn, "a barrier was passed early");
                 }
                 rank.issue([&](auto&... on) { rank.comm.barrier(on...); });
               }
             }) == "");
}

BOOST_AUTO_TEST_CASE(sums_of_small_integers_are_exact_in_every_type) {
  const auto check = []<class T>(auto& rank, T) {
    using Number = std::conditional_t<sizeof(T) == 2, float, T>;
    const auto number = [](std::size_t x) { return T(static_cast<Number>(x)); };
    std::vector<T> mine(40), wanted(40);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = number((rank.comm.rank() + i) % 8);
      std::size_t sum = 0;
      for (std::size_t r = 0; r < rank.comm.size(); ++r) sum += (r + i) % 8;
      wanted[i] = number(sum);
    }
    auto data = rank.hold(mine);
    rank.issue([&](auto&... on) { rank.comm.all_reduce(on..., data.data(), mine.size()); });
    rank.expect_bits(data.values(), wanted, "all_reduce");
  };
  BOOST_TEST(conformance::run<World>([&](auto& rank) {
               conformance::for_each_type([&](auto type) { check(rank, type); });
             }) == "");
}

BOOST_AUTO_TEST_CASE(the_average_of_one_to_w_is_half_of_w_plus_one) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               const std::size_t n = rank.comm.size();
               // Divided before or after it is added, a multiple of n is exact.
               const auto mine = static_cast<float>((rank.comm.rank() + 1) * n);
               auto in = rank.hold(std::vector<float>(n * 5, mine));
               auto out = rank.hold(std::vector<float>(5));
               rank.issue([&](auto&... on) {
                 const float* from = in.data();
                 rank.comm.reduce_scatter(on..., from, out.data(), 5, Accumulate::no, {},
                                          Reduction::average);
               });
               rank.expect_bits(out.values(),
                                std::vector<float>(5, static_cast<float>(n * (n + 1)) / 2),
                                "average");
             }) == "");
}

BOOST_AUTO_TEST_CASE(an_average_of_fp16_neither_overflows_nor_underflows) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               const zero::fp16 large(16384.0F), small = zero::fp16::from_bits(1);
               std::vector<zero::fp16> wanted = {large, World::in_rank_order ? small : large};
               auto data = rank.hold(wanted);
               rank.issue([&](auto&... on) {
                 rank.comm.all_reduce(on..., data.data(), 2, {}, Reduction::average);
               });
               // A model that divides first rounds the quotient to fp16.
               for (const zero::fp16 got : data.values()) {
                 rank.expect(std::abs(static_cast<float>(got) - 16384.0F) <= 32.0F ||
                                 (World::in_rank_order && got.bits == 1),
                             "average");
               }
               if (World::in_rank_order) rank.expect_bits(data.values(), wanted, "average");
             }) == "");
}

BOOST_AUTO_TEST_CASE(bytes_sent_are_those_of_the_formulas) {
  BOOST_TEST(
      conformance::run<World>([](auto& rank) {
        const std::size_t n = rank.comm.size();
        const std::size_t count = n * 6;
        const auto before = rank.comm.sent();
        auto small = rank.hold(std::vector<float>(count));
        auto large = rank.hold(std::vector<float>(n * count));
        const float *part = small.data(), *all = large.data();
        rank.issue([&](auto&... on) { rank.comm.all_gather(on..., part, large.data(), count); });
        rank.issue([&](auto&... on) { rank.comm.reduce_scatter(on..., all, small.data(), count); });
        rank.issue([&](auto&... on) { rank.comm.all_reduce(on..., small.data(), count); });
        rank.issue([&](auto&... on) { rank.comm.broadcast(on..., small.data(), count, n - 1); });
        const zero::Traffic sent = rank.comm.sent();
        const std::size_t bytes = count * sizeof(float);
        const bool root = rank.comm.rank() == n - 1;
        const zero::Traffic grown = {
            sent.all_gather - before.all_gather, sent.reduce_scatter - before.reduce_scatter,
            sent.all_reduce - before.all_reduce, sent.broadcast - before.broadcast};
        rank.expect(grown.all_gather == (n - 1) * bytes, "all_gather");
        rank.expect(grown.reduce_scatter == (n - 1) * bytes, "reduce_scatter");
        rank.expect(grown.all_reduce == 2 * (n - 1) * bytes / n, "all_reduce");
        rank.expect(grown.broadcast == (root ? (n - 1) * bytes : 0), "broadcast");
        rank.expect(sent.total() - before.total() == grown.total(), "total");
      }) == "");
}

BOOST_AUTO_TEST_CASE(nothing_may_be_sent_from_and_to_nowhere) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               float* const nowhere = nullptr;
               rank.issue([&](auto&... on) { rank.comm.all_gather(on..., nowhere, nowhere, 0); });
               rank.issue(
                   [&](auto&... on) { rank.comm.reduce_scatter(on..., nowhere, nowhere, 0); });
               rank.issue([&](auto&... on) { rank.comm.all_reduce(on..., nowhere, 0); });
               rank.issue([&](auto&... on) { rank.comm.broadcast(on..., nowhere, 0, 0); });
               rank.expect(rank.comm.sent().total() == 0, "something was sent");
             }) == "");
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused_on_the_calling_rank) {
  BOOST_TEST(
      conformance::run<World>([](auto& rank) {
        const std::size_t n = rank.comm.size();
        const auto refused = [&](const std::string& why, auto call) {
          try {
            rank.issue(call);
            rank.expect(false, "not refused: " + why);
          } catch (const zero::ContractError& error) {
            rank.expect(std::string(error.what()).find(why) != std::string::npos, error.what());
          }
        };
        auto data = rank.hold(std::vector<float>(2 * n + 2));
        float* const all = data.data();
        float* const nowhere = nullptr;
        refused("null", [&](auto&... on) { rank.comm.all_reduce(on..., nowhere, 1); });
        refused("null", [&](auto&... on) { rank.comm.all_gather(on..., all, nowhere, 1); });
        refused("root", [&](auto&... on) { rank.comm.broadcast(on..., all, 1, n); });
        refused("address space",
                [&](auto&... on) { rank.comm.all_gather(on..., all, all, SIZE_MAX / 4 / n + 1); });
        float* const shifted = all + 2 * rank.comm.rank() + 1;
        refused("overlap", [&](auto&... on) { rank.comm.all_gather(on..., shifted, all, 2); });
        refused("overlap", [&](auto&... on) { rank.comm.reduce_scatter(on..., all, shifted, 2); });
        rank.issue([&](auto&... on) { rank.comm.barrier(on...); });
      }) == "");
}

BOOST_AUTO_TEST_CASE(split_makes_groups_by_color_ordered_by_key) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               const std::size_t n = rank.comm.size(), r = rank.comm.rank();
               // Odd and even ranks, in the reverse order.
               auto part = rank.comm.split(static_cast<int>(r % 2), -static_cast<int>(r));
               const std::size_t size = r % 2 == 0 ? (n + 1) / 2 : n / 2;
               rank.expect(part.size() == size, "size");
               rank.expect(part.rank() == size - 1 - r / 2, "rank");
               auto members = rank.hold(std::vector<std::uint64_t>(size));
               auto mine = rank.hold(std::vector<std::uint64_t>{r});
               rank.issue([&](auto&... on) {
                 const std::uint64_t* from = mine.data();
                 part.all_gather(on..., from, members.data(), 1);
               });
               for (std::size_t p = 0; p < size; ++p) {
                 rank.expect(members.values()[p] == 2 * (size - 1 - p) + r % 2, "members");
               }
               // Equal keys keep the order of ranks, and a group may be split again.
               auto alone = part.split(static_cast<int>(r), 0);
               rank.expect(alone.size() == 1 && alone.rank() == 0, "a group of one rank");
               auto whole = rank.comm.split(5, 0);
               rank.expect(whole.size() == n && whole.rank() == r, "the whole group");
             }) == "");
}

BOOST_AUTO_TEST_CASE(a_copy_is_another_name_of_the_same_rank) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               auto copy = rank.comm;
               auto moved = std::move(copy);
               auto& comm = rank.comm.rank() % 2 == 0 ? moved : rank.comm;
               auto value = rank.hold(std::vector<float>{1});
               rank.issue([&](auto&... on) { comm.all_reduce(on..., value.data(), 1); });
               rank.issue([&](auto&... on) { rank.comm.all_reduce(on..., value.data(), 1); });
               const auto n = static_cast<float>(rank.comm.size());
               rank.expect(value.values()[0] == n * n, "all_reduce");
               rank.expect(moved.sent() == rank.comm.sent(), "traffic");
             }) == "");
}

BOOST_AUTO_TEST_CASE(collectives_on_two_streams_run_in_the_order_of_their_issue) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               World::Place::on_devices(rank.comm.rank(), [&](auto& device) {
                 auto& a = device.make_stream("a");
                 auto& b = device.make_stream("b");
                 auto data = World::Place::hold_on_device(std::vector<float>(64, 1));
                 for (std::size_t i = 0; i < 64; ++i) {
                   // Which of the streams is a matter of the rank.
                   auto& on = (i * 5 + rank.comm.rank()) % 3 == 0 ? a : b;
                   rank.comm.all_reduce(on, data.data() + i, 1,
                                        {.position = static_cast<std::uint32_t>(i)});
                 }
                 device.synchronize();
                 const auto sum = static_cast<float>(rank.comm.size());
                 rank.expect_bits(data.values(), std::vector<float>(64, sum), "sums");
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(a_collective_sees_what_its_stream_waited_for) {
  constexpr std::size_t rounds = 25, count = 16;
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               World::Place::on_devices(rank.comm.rank(), [&](auto& device) {
                 auto& compute = device.make_stream("compute");
                 auto& side = device.make_stream("side");
                 typename std::remove_cvref_t<decltype(device)>::Event written, gathered;
                 const std::size_t n = rank.comm.size();
                 auto in = World::Place::hold_on_device(std::vector<float>(count));
                 auto out = World::Place::hold_on_device(std::vector<float>(n * count));
                 std::vector<float> given(rounds * count), got(rounds * n * count), wanted;
                 for (std::size_t round = 0; round < rounds; ++round) {
                   float* const mine = given.data() + round * count;
                   std::fill_n(mine, count, static_cast<float>(100 * round + rank.comm.rank()));
                   for (std::size_t i = 0; i < n * count; ++i) {
                     wanted.push_back(static_cast<float>(100 * round + i / count));
                   }
                   World::Place::copy(compute, in.data(), mine, count * sizeof(float));
                   compute.record(written);
                   side.wait(written);
                   const float* from = in.data();
                   rank.comm.all_gather(side, from, out.data(), count);
                   side.record(gathered);
                   compute.wait(gathered);
                   World::Place::copy(compute, got.data() + round * n * count, out.data(),
                                      n * count * sizeof(float));
                 }
                 device.synchronize();
                 rank.expect_bits(got, wanted, "what was gathered after it was written");
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(abort_is_sticky_and_may_be_repeated) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               const auto comm = rank.comm.split(0, 0);
               conformance::meet<World>(comm.size());
               if (comm.rank() == 0) comm.abort("the disk is full");
               comm.abort("again");
               for (int i = 0; i < 2; ++i) {
                 try {
                   rank.issue([&](auto&... on) {
                     comm.barrier(on..., zero::Label{.unit = "block.3", .position = 17});
                   });
                   rank.expect(false, "a barrier after an abort");
                 } catch (const zero::CommunicatorError& error) {
                   const std::string text = error.what();
                   rank.expect(text.find("barrier of unit block.3 at schedule position 17") == 0 &&
                                   text.find("aborted on rank") != std::string::npos,
                               text);
                 }
               }
             }) == "");
}
