// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Loads the public model all-MiniLM-L6-v2 into shards on three ranks, in bf16 with fp32 masters,
// and saves it. For python_test.sh. usage: minilm MODEL DIRECTORY     a safetensors file or a
// folder; where the checkpoint goes
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <zero/checkpoint.hpp>
#include <zero/zero.hpp>

struct Config {
  std::size_t width = 384, hidden = 1536, words = 30522, positions = 512;
};

template <class T>
struct Embedding {
  zero::Tensor<T> word, position, kind, norm, norm_bias;

  static auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("word", &Embedding::word, {c.words, c.width}),
                         zero::tensor("position", &Embedding::position, {c.positions, c.width}),
                         zero::tensor("kind", &Embedding::kind, {2, c.width}),
                         zero::tensor("norm", &Embedding::norm, {c.width}),
                         zero::tensor("norm_bias", &Embedding::norm_bias, {c.width}));
  }
};
template <class T>
struct Block {
  zero::Tensor<T> query, key, value, out, up, down;
  zero::Tensor<T> query_bias, key_bias, value_bias, out_bias, up_bias, down_bias;
  zero::Tensor<T> norm, norm_bias, last_norm, last_norm_bias;

  static auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("query.weight", &Block::query, {c.width, c.width}),
                         zero::tensor("key.weight", &Block::key, {c.width, c.width}),
                         zero::tensor("value.weight", &Block::value, {c.width, c.width}),
                         zero::tensor("out.weight", &Block::out, {c.width, c.width}),
                         zero::tensor("up.weight", &Block::up, {c.hidden, c.width}),
                         zero::tensor("down.weight", &Block::down, {c.width, c.hidden}),
                         zero::tensor("query.bias", &Block::query_bias, {c.width}),
                         zero::tensor("key.bias", &Block::key_bias, {c.width}),
                         zero::tensor("value.bias", &Block::value_bias, {c.width}),
                         zero::tensor("out.bias", &Block::out_bias, {c.width}),
                         zero::tensor("up.bias", &Block::up_bias, {c.hidden}),
                         zero::tensor("down.bias", &Block::down_bias, {c.width}),
                         zero::tensor("norm.weight", &Block::norm, {c.width}),
                         zero::tensor("norm.bias", &Block::norm_bias, {c.width}),
                         zero::tensor("last_norm.weight", &Block::last_norm, {c.width}),
                         zero::tensor("last_norm.bias", &Block::last_norm_bias, {c.width}));
  }
};
template <class T>
struct Pooler {
  zero::Tensor<T> weight, bias;

  static auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Pooler::weight, {c.width, c.width}),
                         zero::tensor("bias", &Pooler::bias, {c.width}));
  }
};

/// What the file calls a tensor: block.N.KIND.TENSOR is encoder.layer.N.PLACE.TENSOR.
std::string name_in_file(const std::string& name) {
  static const std::map<std::string, std::string> places{{"query", "attention.self.query"},
                                                         {"key", "attention.self.key"},
                                                         {"value", "attention.self.value"},
                                                         {"out", "attention.output.dense"},
                                                         {"norm", "attention.output.LayerNorm"},
                                                         {"up", "intermediate.dense"},
                                                         {"down", "output.dense"},
                                                         {"last_norm", "output.LayerNorm"}};
  if (!name.starts_with("block.")) return name;
  const std::size_t place = name.find('.', 6) + 1, tensor = name.rfind('.');
  return "encoder.layer." + name.substr(6, place - 6) +
         places.at(name.substr(place, tensor - place)) + name.substr(tensor);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    zero::run_threads(3, [&](zero::ThreadCommunicator& comm) {
      const Config config;
      auto module = zero::shard<zero::Zero3, zero::bf16>(
          zero::model(zero::unit<Embedding>("embeddings", config),
                      zero::units<Block>("block", 6, config),
                      zero::unit<Pooler>("pooler.dense", config)),
          comm, zero::AdamW{.learning_rate = 0.1F});
      const zero::LoadReport report = zero::load_weights(
          module, argv[1],
          {.names = name_in_file,
           .table = {{"embeddings.word", "embeddings.word_embeddings.weight"},
                     {"embeddings.position", "embeddings.position_embeddings.weight"},
                     {"embeddings.kind", "embeddings.token_type_embeddings.weight"},
                     {"embeddings.norm", "embeddings.LayerNorm.weight"},
                     {"embeddings.norm_bias", "embeddings.LayerNorm.bias"}},
           .relaxed = true});
      zero::save(module, argv[2]);
      if (comm.rank() != 0) return;
      for (const std::string& name : report.missing) std::printf("missing: %s\n", name.c_str());
      for (const std::string& name : report.unexpected) std::printf("left: %s\n", name.c_str());
      for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
        std::printf("%s\n", tensor.name.c_str());
      }
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "minilm: %s\n", error.what());
    return 1;
  }
}
