// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Published tables of memory and traffic, asked of the schedule.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <zero/plan/memory.hpp>
#include <zero/plan/models.hpp>
#include <zero/policy/stages.hpp>

BOOST_AUTO_TEST_SUITE(memory_test)

using namespace zero::plan;
using zero::Ddp;
using zero::Hpz;
using zero::Hybrid;
using zero::Zero1;
using zero::Zero2;
using zero::Zero3;

const ModelDescription& model(std::string_view name) { return *find_model(name); }
const zero::StageValue& stage(std::size_t level) {
  static constexpr const zero::StageValue* stages[] = {
      &zero::stage_value<Ddp>, &zero::stage_value<Zero1>, &zero::stage_value<Zero2>,
      &zero::stage_value<Zero3>};
  return *stages[level];
}
double gigabytes(std::string_view name, std::size_t level, std::size_t devices,
                 const Accounting& bytes = mixed_16) {
  const ModelDescription& m = model(name);
  const zero::Schedule schedule =
      zero::make_schedule(stage(level), m.shape(), zero::training(m.groups()));
  return static_cast<double>(bytes_held(m, schedule, bytes, {devices, 1}).states()) / 1e9;
}

struct Printed {
  const char* text;
  /// Whether a number is what was printed, to one unit of the last digit: the paper truncates.
  bool is(double value) const {
    const std::string digits = text;
    const std::size_t point = digits.find('.');
    const double places = point == digits.npos ? 0 : static_cast<double>(digits.size() - point - 1);
    return std::abs(value - std::stod(digits)) <= std::pow(10.0, -places);
  }
};

// Source: Rajbhandari et al., ZeRO, 2020, table 1: GB for each device, stages 1, 2, 3.
BOOST_AUTO_TEST_CASE(table_1_of_the_zero_paper_holds_in_all_54_cells) {
  const char* const names[] = {"zero-7.5b", "zero-128b", "zero-1t"};
  const std::size_t devices[] = {1, 4, 16, 64, 256, 1024};
  const Printed table[6][3][3] = {
      {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}},
      {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}},
      {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}},
      {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}},
      {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}},
      {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}}};
  std::size_t cells = 0;
  for (std::size_t d = 0; d < 6; ++d) {
    for (std::size_t m = 0; m < 3; ++m) {
      for (std::size_t s = 0; s < 3; ++s, ++cells) {
        const double value = gigabytes(names[m], s + 1, devices[d]);
        BOOST_TEST(table[d][m][s].is(value), names[m] << " on " << devices[d] << ", stage " << s + 1
                                                      << ": " << value << ", printed "
                                                      << table[d][m][s].text);
      }
    }
  }
  BOOST_TEST(cells == 54U);
}
// Source: the same, figure 1: 7.5B on 64 devices.
BOOST_AUTO_TEST_CASE(figure_1_of_the_zero_paper_holds) {
  const Printed figure[] = {{"120"}, {"31.4"}, {"16.6"}, {"1.9"}};
  for (std::size_t s = 0; s < 4; ++s) BOOST_TEST(figure[s].is(gigabytes("zero-7.5b", s, 64)));
}
BOOST_AUTO_TEST_CASE(llama_3_takes_what_16_bytes_a_parameter_say) {
  BOOST_TEST(Printed{"295.4"}.is(gigabytes("llama3-70b", 1, 64)));
  BOOST_TEST(Printed{"156.5"}.is(gigabytes("llama3-70b", 2, 64)));
  BOOST_TEST(Printed{"17.6"}.is(gigabytes("llama3-70b", 3, 64)));
  BOOST_TEST(Printed{"12.7"}.is(gigabytes("llama3-405b", 3, 512)));
}
BOOST_AUTO_TEST_CASE(without_a_master_a_parameter_takes_12_bytes) {
  const ModelDescription seventy("70b", {.layers = 80, .width = 8192, .heads = 64}, 70'000'000'000);
  const auto gigabytes_on = [&](std::size_t devices) {
    const Held held = held_by_rank<Zero3>(seventy, {devices, 1}, no_master_12);
    return static_cast<double>(held.states()) / 1e9;
  };
  BOOST_TEST(Printed{"840.0"}.is(gigabytes_on(1)));
  BOOST_TEST(Printed{"52.50"}.is(gigabytes_on(16)));
}

// What follows is exact, so that it is about a model whose groups divide.
constexpr std::size_t layers = 10, block = 256 * 1024, total = layers * block;
constexpr ModelDescription even("even", {.layers = layers, .width = 64, .heads = 1}, total);

// Source: Megatron-LM, distributed optimizer: bytes a parameter on d devices.
constexpr std::size_t per_parameter(const Accounting& bytes, std::size_t d) {
  return held_by_rank<Zero1>(even, {d, 1}, bytes).states() * d / total;
}
static_assert(per_parameter(fp32_copies_20, 8) == 4 * 8 + 16);
static_assert(per_parameter(fp32_gradients_18, 8) == 6 * 8 + 12);
static_assert(per_parameter(fp32_16, 8) == 8 * 8 + 8);
static_assert(held_by_rank<Ddp>(even, {8, 1}, fp32_copies_20).states() == 20 * total);
static_assert(held_by_rank<Ddp>(even, {8, 1}, fp32_gradients_18).states() == 18 * total);

// Each in its place.
constexpr Held eighth = held_by_rank<Zero3>(even, {8, 1}, fp32_gradients_18);
static_assert(eighth.weights == 2 * total / 8 && eighth.gradients == 4 * total / 8);
static_assert(eighth.optimizer == 12 * total / 8);
static_assert(held_by_rank<Zero2>(even, {8, 1}, fp32_gradients_18).weights == 2 * total);
static_assert(held_by_rank<Zero1>(even, {8, 1}, fp32_gradients_18).gradients == 4 * total);

// Slots: two whole blocks and two whole gradients; casts: a shard, and a gradient.
constexpr Held slots_of(const Accounting& bytes) {
  return held_by_rank<Zero3>(even, {8, 1}, bytes);
}
static_assert(slots_of(mixed_16).slots == 2 * block * 2 + 2 * block * 2);
static_assert(slots_of(fp32_gradients_18).slots == 2 * block * 2 + 2 * block * 4);
static_assert(slots_of(mixed_16).staging == 0);
static_assert(slots_of(fsdp_fp32_reduce).staging == block / 8 * 2 + block * 4);
static_assert(held_by_rank<Ddp>(even, {8, 1}).slots == 0);

// Bytes sent, with 2-byte gathers and reductions: (n-1)/n of 4N for stages 0 to 2, of 6N for stage
// 3, and of 8N if gradients are reduced in fp32; the block at the turn stays whole.
// Source: Rajbhandari et al. 2020, section 7.
constexpr std::size_t once = total / 8 * 7, turn = block / 8 * 7;
static_assert(sent_by_rank<Ddp>(even, {8, 1}).all_reduce == 4 * once);
static_assert(sent_by_rank<Zero1>(even, {8, 1}).total() == 4 * once);
static_assert(sent_by_rank<Zero2>(even, {8, 1}).total() == 4 * once);
static_assert(sent_by_rank<Zero2>(even, {8, 1}).gather == 2 * once);
// The embedding and the head have no elements here, so that the head is what stays whole.
static_assert(sent_by_rank<Zero3>(even, {8, 1}).total() == 6 * once);
static_assert(sent_by_rank<Zero3>(even, {8, 1}, fp32_gradients_18).total() == 8 * once);
static_assert(sent_by_rank<Zero3>(even, {1, 1}).total() == 0);
// Hybrid: within a group as stage 3 there; across groups an all-reduce of the shard.
// ReplicateParams sends as much, but reduces to parts and gathers weights.
constexpr Sent hybrid = sent_by_rank<Hybrid>(even, {8, 4}), hpz = sent_by_rank<Hpz>(even, {8, 4});
static_assert(hybrid.shard_axis() == 6 * once && hpz.shard_axis() == 6 * once);
static_assert(hybrid.all_reduce_replicas == 2 * 2 * (total / 8) / 4 * 3);
static_assert(hybrid.replica_axis() == hybrid.all_reduce_replicas);
static_assert(hpz.reduce_scatter_replicas == 2 * (total / 8) / 4 * 3);
static_assert(hpz.gather_replicas == hpz.reduce_scatter_replicas && hpz.all_reduce_replicas == 0);
static_assert(held_by_rank<Hpz>(even, {8, 4}).optimizer == 12 * total / 32);
static_assert(held_by_rank<Hybrid>(even, {8, 4}).optimizer == 12 * total / 8);

// A program can refuse to compile for devices on which it would not fit.
constexpr const ModelDescription& llama = *find_model("llama3-8b");
static_assert(held_by_rank<Zero3>(llama, {8, 1}).total() < 80'000'000'000);
static_assert(held_by_rank<Zero1>(llama, {8, 1}).total() < 80'000'000'000);
static_assert(held_by_rank<Ddp>(llama, {8, 1}).total() > 80'000'000'000);

BOOST_AUTO_TEST_CASE(slots_do_not_grow_with_the_depth_of_the_model) {
  ModelDescription deep = even;
  deep.dims.layers *= 8;
  BOOST_TEST(held_by_rank<Zero3>(deep, {8, 1}).slots == held_by_rank<Zero3>(even, {8, 1}).slots);
}

BOOST_AUTO_TEST_CASE(padding_is_less_than_a_line_for_each_rank_and_group) {
  for (const ModelDescription& m : known_models) {
    for (const std::size_t devices : {3U, 8U, 1024U}) {
      const Held held = held_by_rank<Zero3>(m, {devices, 1});
      BOOST_TEST(held.states() * devices >= 16 * m.parameters());
      BOOST_TEST(held.states() * devices <= 16 * (m.parameters() + m.groups() * devices * 32));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
