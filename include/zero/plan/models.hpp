// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Models by name. May include plan/ and schedule/.
#pragma once
#include <zero/plan/model_description.hpp>

namespace zero::plan {

namespace detail {
constexpr ModelDescription gpt2(std::string_view name, std::size_t layers, std::size_t width,
                                std::size_t heads) {
  return {name,
          {.layers = layers,
           .width = width,
           .heads = heads,
           .vocabulary = 50257,
           .context = 1024,
           .dropout = true}};
}
constexpr ModelDescription llama3(std::string_view name, std::size_t layers, std::size_t width,
                                  std::size_t heads, std::size_t inner) {
  return {name,
          {.layers = layers,
           .width = width,
           .heads = heads,
           .key_value_heads = 8,
           .inner = inner,
           .vocabulary = 128256,
           .context = 8192,
           .learned_positions = false,
           .gated = true,
           .tied = false,
           .biases = false}};
}
constexpr ModelDescription mpt(std::string_view name, std::size_t layers, std::size_t width,
                               std::size_t heads) {
  return {name,
          {.layers = layers, .width = width, .heads = heads, .vocabulary = 50368, .context = 2048}};
}
constexpr ModelDescription of_size(std::string_view name, std::size_t parameters,
                                   std::size_t layers, std::size_t width, std::size_t heads) {
  return {name,
          {.layers = layers,
           .width = width,
           .heads = heads,
           .vocabulary = 50257,
           .context = 1024,
           .learned_positions = false},
          parameters};
}
}  // namespace detail

/// Source:  Rajbhandari et al., ZeRO, 2020, table 1 (of these the sizes only: dimensions are such
///          that 12 * layers * width^2 comes near); Radford et al., GPT-2, 2019; Brown et al.,
///          GPT-3, 2020, table 2.1; Llama team, The Llama 3 Herd of Models, 2024, table 3;
///          MosaicML, LLM Foundry, scripts/train/benchmarking (vocabulary padded to 50368).
inline constexpr ModelDescription known_models[] = {
    detail::of_size("zero-7.5b", 7'500'000'000, 72, 3072, 24),
    detail::of_size("zero-128b", 128'000'000'000, 125, 9216, 64),
    detail::of_size("zero-1t", 1'000'000'000'000, 128, 25600, 160),
    detail::gpt2("gpt2", 12, 768, 12),
    detail::gpt2("gpt2-medium", 24, 1024, 16),
    detail::gpt2("gpt2-large", 36, 1280, 20),
    detail::gpt2("gpt2-xl", 48, 1600, 25),
    {"gpt3-175b",
     {.layers = 96, .width = 12288, .heads = 96, .vocabulary = 50257, .context = 2048}},
    detail::llama3("llama3-8b", 32, 4096, 32, 14336),
    detail::llama3("llama3-70b", 80, 8192, 64, 28672),
    detail::llama3("llama3-405b", 126, 16384, 128, 53248),
    detail::mpt("mpt-125m", 12, 768, 12),
    detail::mpt("mpt-350m", 24, 1024, 16),
    detail::mpt("mpt-760m", 24, 1536, 12),
    detail::mpt("mpt-1b", 24, 2048, 16),
    detail::mpt("mpt-3b", 32, 2560, 20),
    detail::mpt("mpt-7b", 32, 4096, 32),
    detail::mpt("mpt-13b", 40, 5120, 40),
    detail::mpt("mpt-30b", 48, 7168, 56),
};

/// The model of that name, or null.
constexpr const ModelDescription* find_model(std::string_view name) {
  for (const ModelDescription& model : known_models) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace zero::plan
