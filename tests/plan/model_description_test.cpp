// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Models by name have exactly as many parameters as those who trained them say.
#include <boost/test/unit_test.hpp>
#include <zero/plan/activations.hpp>
#include <zero/plan/models.hpp>

#include "published.hpp"

BOOST_AUTO_TEST_SUITE(model_description_test)

using namespace zero::plan;

constexpr std::size_t parameters(std::string_view name) { return find_model(name)->parameters(); }

// Sources: as at known_models; the counts of Llama 3 and GPT-2 are those of the published weights.
static_assert(parameters("llama3-8b") == 8'030'261'248);
static_assert(parameters("llama3-70b") == 70'553'706'496);
static_assert(parameters("llama3-405b") == 405'853'388'800);
static_assert(parameters("gpt2") == 124'439'808);
static_assert(parameters("gpt2-medium") == 354'823'168);
static_assert(parameters("gpt2-large") == 774'030'080);
static_assert(parameters("gpt2-xl") == 1'557'611'200);
static_assert(parameters("zero-7.5b") == 7'500'000'000);
static_assert(parameters("zero-128b") == 128'000'000'000);
static_assert(parameters("zero-1t") == 1'000'000'000'000);
static_assert(find_model("gpt5") == nullptr);

BOOST_AUTO_TEST_CASE(mpt_models_have_the_parameters_that_were_published_with_their_throughput) {
  for (const published::Throughput& row : published::mpt) {
    const ModelDescription* const model = find_model(row.model);
    BOOST_REQUIRE(model != nullptr);
    BOOST_TEST(model->parameters() == row.parameters, row.model);
  }
}

BOOST_AUTO_TEST_CASE(groups_add_up_to_the_model_and_match_its_shape) {
  for (const ModelDescription& model : known_models) {
    std::size_t sum = 0;
    for (std::size_t g = 0; g < model.groups(); ++g) sum += model.elements(g);
    BOOST_TEST(sum == model.parameters(), model.name);
    BOOST_TEST(model.shape().groups() == model.groups(), model.name);
  }
}

BOOST_AUTO_TEST_CASE(learned_positions_grow_with_the_context_and_rotated_ones_do_not) {
  const ModelDescription& mpt = *find_model("mpt-30b");
  // The same source, on sequences of 512 and of 8192 tokens.
  BOOST_TEST(mpt.with_context(512).parameters() == 29'964'204'032U);
  BOOST_TEST(mpt.with_context(8192).parameters() == 30'019'254'272U);
  const ModelDescription& llama = *find_model("llama3-8b");
  BOOST_TEST(llama.with_context(512).parameters() == llama.parameters());
  BOOST_TEST(llama.with_context(512).flops_per_token() < llama.flops_per_token());
}

// Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, 2021,
// section 5.1: 96 B s l h^2 (1 + s / 6h + V / 16lh) with recomputation, of which 3/4 without. It
// leaves out vectors and positions, which flops_per_token counts as parameters.
BOOST_AUTO_TEST_CASE(operations_follow_the_formula_of_megatron_to_a_thousandth) {
  const ModelDescription& m = *find_model("gpt3-175b");
  const double s = 2048, l = 96, h = 12288, v = 50257;
  const double formula = 72 * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  // The last term counts the logits with 4 s h V of 96, that is 6 s h V of a step: like ours.
  BOOST_TEST(m.flops_per_token() / formula == 1.0, boost::test_tools::tolerance(2e-3));
  double forward = 0;
  for (std::size_t u = 0; u < m.groups(); ++u) forward += m.forward_flops(u);
  BOOST_TEST(3 * forward / formula == 1.0, boost::test_tools::tolerance(2e-3));
}

// Source: Korthikanti et al. 2022, equations 2 and 6, and section 4.3.
constexpr Transformer gpt{
    .layers = 4, .width = 1024, .heads = 16, .vocabulary = 50000, .context = 2048, .dropout = true};
constexpr double sbh = 3.0 * 2048 * 1024, sb = 3.0 * 2048;
constexpr Activations of(Attention attention, Recompute recompute) {
  return activations(gpt, 3, attention, recompute);
}
static_assert(of(Attention::plain, Recompute::none).block == sbh * (34 + 5 * 16 * 2048.0 / 1024));
static_assert(of(Attention::plain, Recompute::selective).block == sbh * 34);
static_assert(of(Attention::plain, Recompute::full).block == sbh * 2);
static_assert(of(Attention::plain, Recompute::none).embedding == sbh);
static_assert(of(Attention::plain, Recompute::none).head == 4 * sbh + 4 * sb * 50000);
// The log-sum-exp of 16 heads.
static_assert(of(Attention::flash, Recompute::none).block == sbh * 34 + 4 * 16 * sb);
static_assert(of(Attention::plain, Recompute::full).working ==
              of(Attention::plain, Recompute::none).block);

BOOST_AUTO_TEST_SUITE_END()
