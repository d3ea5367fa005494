// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The cases of conformance.hpp. Included within the test suite of a model, after what they ask for.

using zero::Accumulate;
using zero::Reduction;

BOOST_AUTO_TEST_CASE(all_gather_puts_the_part_of_each_rank_in_its_place) {
  BOOST_TEST(
      conformance::run<World>([](auto& rank) {
        conformance::for_each_type([&]<class T>(T) {
          for (const std::size_t count : conformance::counts) {
            const std::size_t n = rank.comm.size();
            const std::size_t r = rank.comm.rank();
            std::vector<T> wanted;
            for (std::size_t p = 0; p < n; ++p) {
              const auto part = conformance::elements<T>(p, count);
              wanted.insert(wanted.end(), part.begin(), part.end());
            }
            const auto in = conformance::elements<T>(r, count);
            std::vector<T> out(n * count);
            rank.issue(
                [&](auto&... on) { rank.comm.all_gather(on..., in.data(), out.data(), count); });
            rank.expect_bits(out, wanted, "all_gather");
            rank.expect_bits(in, conformance::elements<T>(r, count), "input of all_gather");

            std::vector<T> both(n * count);
            T* mine = both.data() + r * count;
            std::copy(in.begin(), in.end(), mine);
            rank.issue([&](auto&... on) { rank.comm.all_gather(on..., mine, both.data(), count); });
            rank.expect_bits(both, wanted, "all_gather in place");
          }
        });
      }) == "");
}

BOOST_AUTO_TEST_CASE(reduce_scatter_sums_in_rank_order_and_rounds_once) {
  const auto check = []<class T>(auto& rank, T, std::size_t count, Reduction reduction,
                                 Accumulate accumulate) {
    const std::size_t n = rank.comm.size();
    const std::size_t first = rank.comm.rank() * count;
    const std::vector<T> input = conformance::elements<T>(rank.comm.rank(), n * count);
    const std::vector<T> old = conformance::elements<T>(99, count);

    std::vector<T> in = input;
    std::vector<T> out = old;
    std::vector<T> wanted(count);
    for (std::size_t i = 0; i < count; ++i) {
      wanted[i] = conformance::reduced<T>(n, first + i, reduction, accumulate, old[i]);
    }
    rank.issue([&](auto&... on) {
      rank.comm.reduce_scatter(on..., in.data(), out.data(), count, accumulate, {}, reduction);
    });
    rank.expect_bits(out, wanted, "reduce_scatter");
    rank.expect_bits(in, input, "input of reduce_scatter");

    for (std::size_t i = 0; i < count; ++i) {
      wanted[i] = conformance::reduced<T>(n, first + i, reduction, accumulate, input[first + i]);
    }
    T* mine = in.data() + first;
    rank.issue([&](auto&... on) {
      rank.comm.reduce_scatter(on..., in.data(), mine, count, accumulate, {}, reduction);
    });
    rank.expect_bits(std::vector<T>(mine, mine + count), wanted, "reduce_scatter in place");
    std::copy_n(input.data() + first, count, mine);
    rank.expect_bits(in, input, "the other parts of reduce_scatter in place");
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
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               conformance::for_each_type([&]<class T>(T) {
                 for (const std::size_t count : conformance::counts) {
                   for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
                     auto data = conformance::elements<T>(rank.comm.rank(), count);
                     std::vector<T> wanted(count);
                     for (std::size_t i = 0; i < count; ++i) {
                       wanted[i] = conformance::reduced<T>(rank.comm.size(), i, reduction);
                     }
                     rank.issue([&](auto&... on) {
                       rank.comm.all_reduce(on..., data.data(), count, {}, reduction);
                     });
                     rank.expect_bits(data, wanted, "all_reduce");
                   }
                 }
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(broadcast_copies_from_any_root) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               conformance::for_each_type([&]<class T>(T) {
                 for (std::size_t root = 0; root < rank.comm.size(); ++root) {
                   for (const std::size_t count : {0UL, 1UL, 1001UL}) {
                     auto data = conformance::elements<T>(rank.comm.rank(), count);
                     rank.issue([&](auto&... on) {
                       rank.comm.broadcast(on..., data.data(), count, root);
                     });
                     rank.expect_bits(data, conformance::elements<T>(root, count), "broadcast");
                   }
                 }
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(a_barrier_makes_what_all_ranks_wrote_before_it_visible) {
  std::array<std::size_t, 8> written{};
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
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               conformance::for_each_type([&]<class T>(T) {
                 const std::size_t n = rank.comm.size();
                 using Number = std::conditional_t<sizeof(T) == 2, float, T>;
                 const auto number = [](std::size_t x) { return T(static_cast<Number>(x)); };
                 std::vector<T> data(40);
                 std::vector<T> wanted(40);
                 for (std::size_t i = 0; i < data.size(); ++i) {
                   data[i] = number((rank.comm.rank() + i) % 8);
                   std::size_t sum = 0;
                   for (std::size_t r = 0; r < n; ++r) sum += (r + i) % 8;
                   wanted[i] = number(sum);
                 }
                 rank.issue(
                     [&](auto&... on) { rank.comm.all_reduce(on..., data.data(), data.size()); });
                 rank.expect_bits(data, wanted, "all_reduce");
               });
             }) == "");
}

BOOST_AUTO_TEST_CASE(the_average_of_one_to_w_is_half_of_w_plus_one) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               const std::size_t n = rank.comm.size();
               const std::vector<float> in(n * 5, static_cast<float>(rank.comm.rank() + 1));
               std::vector<float> out(5);
               rank.issue([&](auto&... on) {
                 rank.comm.reduce_scatter(on..., in.data(), out.data(), 5, Accumulate::no, {},
                                          Reduction::average);
               });
               rank.expect_bits(out, std::vector<float>(5, static_cast<float>(n + 1) / 2),
                                "average");
             }) == "");
}

BOOST_AUTO_TEST_CASE(an_average_of_fp16_neither_overflows_nor_underflows) {
  BOOST_TEST(
      conformance::run<World>([](auto& rank) {
        const std::vector<zero::fp16> wanted = {zero::fp16(16384.0F), zero::fp16::from_bits(1)};
        std::vector<zero::fp16> data = wanted;
        rank.issue([&](auto&... on) {
          rank.comm.all_reduce(on..., data.data(), 2, {}, Reduction::average);
        });
        rank.expect_bits(data, wanted, "average");
      }) == "");
}

BOOST_AUTO_TEST_CASE(bytes_sent_are_those_of_the_formulas) {
  BOOST_TEST(
      conformance::run<World>([](auto& rank) {
        const std::size_t n = rank.comm.size();
        const std::size_t count = n * 6;
        const auto before = rank.comm.sent();
        std::vector<float> small(count);
        std::vector<float> large(n * count);
        rank.issue(
            [&](auto&... on) { rank.comm.all_gather(on..., small.data(), large.data(), count); });
        rank.issue([&](auto&... on) {
          rank.comm.reduce_scatter(on..., large.data(), small.data(), count);
        });
        rank.issue([&](auto&... on) { rank.comm.all_reduce(on..., small.data(), count); });
        rank.issue([&](auto&... on) { rank.comm.broadcast(on..., small.data(), count, n - 1); });
        const zero::Traffic sent = rank.comm.sent();
        const std::size_t bytes = count * sizeof(float);
        rank.expect(sent.all_gather - before.all_gather == (n - 1) * bytes, "all_gather");
        rank.expect(sent.reduce_scatter - before.reduce_scatter == (n - 1) * bytes,
                    "reduce_scatter");
        rank.expect(sent.all_reduce - before.all_reduce == 2 * (n - 1) * bytes / n, "all_reduce");
        rank.expect(
            sent.broadcast - before.broadcast == (rank.comm.rank() == n - 1 ? (n - 1) * bytes : 0),
            "broadcast");
        rank.expect(
            sent.total() - before.total() == (sent.all_gather - before.all_gather) +
                                                 (sent.reduce_scatter - before.reduce_scatter) +
                                                 (sent.all_reduce - before.all_reduce) +
                                                 (sent.broadcast - before.broadcast),
            "total");
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
        std::vector<float> data(2 * n + 2);
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
               const std::size_t n = rank.comm.size();
               const std::size_t r = rank.comm.rank();
               // Odd and even ranks, in the reverse order.
               auto part = rank.comm.split(static_cast<int>(r % 2), -static_cast<int>(r));
               const std::size_t size = r % 2 == 0 ? (n + 1) / 2 : n / 2;
               rank.expect(part.size() == size, "size");
               rank.expect(part.rank() == size - 1 - r / 2, "rank");
               std::vector<std::uint64_t> members(size);
               const std::uint64_t mine = r;
               rank.issue([&](auto&... on) { part.all_gather(on..., &mine, members.data(), 1); });
               for (std::size_t p = 0; p < size; ++p) {
                 rank.expect(members[p] == 2 * (size - 1 - p) + r % 2, "members");
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
               float value = 1;
               rank.issue([&](auto&... on) { comm.all_reduce(on..., &value, 1); });
               rank.issue([&](auto&... on) { rank.comm.all_reduce(on..., &value, 1); });
               const auto n = static_cast<float>(rank.comm.size());
               rank.expect(value == n * n, "all_reduce");
               rank.expect(moved.sent() == rank.comm.sent(), "traffic");
             }) == "");
}

BOOST_AUTO_TEST_CASE(collectives_on_two_streams_run_in_the_order_of_their_issue) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               using zero::StreamMode;
               for (const StreamMode mode : {StreamMode::asynchronous, StreamMode::shuffled}) {
                 zero::HostDevice device({.mode = mode, .seed = rank.comm.rank() + 17});
                 zero::HostStream& a = device.make_stream("a");
                 zero::HostStream& b = device.make_stream("b");
                 std::vector<float> data(64, 1);
                 for (std::size_t i = 0; i < data.size(); ++i) {
                   // Which of the streams is a matter of the rank.
                   zero::HostStream& on = (i * 5 + rank.comm.rank()) % 3 == 0 ? a : b;
                   rank.comm.all_reduce(on, &data[i], 1,
                                        {.position = static_cast<std::uint32_t>(i)});
                 }
                 device.synchronize();
                 rank.expect_bits(
                     data, std::vector<float>(64, static_cast<float>(rank.comm.size())), "sums");
               }
             }) == "");
}

BOOST_AUTO_TEST_CASE(a_collective_sees_what_its_stream_waited_for) {
  using zero::StreamMode;
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               for (const StreamMode mode : {StreamMode::asynchronous, StreamMode::shuffled}) {
                 zero::HostDevice device({.mode = mode, .seed = rank.comm.rank()});
                 zero::HostStream& compute = device.make_stream("compute");
                 zero::HostStream& side = device.make_stream("side");
                 zero::HostEvent written;
                 zero::HostEvent gathered;
                 const std::size_t n = rank.comm.size();
                 std::vector<float> in(16);
                 std::vector<float> out(n * 16);
                 bool right = true;
                 for (int repeat = 1; repeat <= 25; ++repeat) {
                   const auto r = static_cast<float>(rank.comm.rank());
                   compute.enqueue([&in, value = static_cast<float>(repeat) + r] {
                     std::this_thread::sleep_for(std::chrono::microseconds(50));
                     std::fill(in.begin(), in.end(), value);
                   });
                   compute.record(written);
                   side.wait(written);
                   rank.comm.all_gather(side, in.data(), out.data(), in.size());
                   side.record(gathered);
                   compute.wait(gathered);
                   compute.enqueue([&out, &right, repeat] {
                     for (std::size_t i = 0; i < out.size(); ++i) {
                       right = right &&
                               out[i] == static_cast<float>(repeat) + static_cast<float>(i / 16);
                     }
                   });
                 }
                 device.synchronize();
                 rank.expect(right, "a part was gathered before it was written");
               }
             }) == "");
}

BOOST_AUTO_TEST_CASE(abort_is_sticky_and_may_be_repeated) {
  BOOST_TEST(conformance::run<World>([](auto& rank) {
               const auto comm = rank.comm.split(0, 0);
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
