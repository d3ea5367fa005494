// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Saves in the middle of a training, on four ranks, and goes on from there: on four ranks with the
// bits of a run that was never interrupted, and on three in another stage with the same weights.
// usage: 04_resume [DIRECTORY]     keeps the checkpoint in DIRECTORY
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>
#include <zero/checkpoint.hpp>
#include <zero/zero.hpp>

struct Config {
  std::size_t width;
};

template <class T>
struct Linear {
  zero::Tensor<T> weight, bias;

  static auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Linear::weight, {c.width, c.width}),
                         zero::tensor("bias", &Linear::bias, {c.width}, zero::no_decay));
  }
};

auto make_model() { return zero::model(zero::units<Linear>("layer", 3, Config{7})); }

/// A made-up gradient that pulls every weight to a place of its own.
template <class Module>
void train(Module& module, std::int64_t until) {
  while (module.step() < until) {
    auto step = module.begin_step();
    for (auto unit : step.forward()) (void)unit.template weights<Linear>();
    for (auto unit : step.backward()) {
      const auto w = unit.template weights<Linear>();
      const auto g = unit.template gradients<Linear>();
      for (std::size_t i = 0; i < w.weight.size(); ++i) {
        g.weight[i] += w.weight[i] - static_cast<float>((i + unit.index()) % 5);
      }
      for (std::size_t i = 0; i < w.bias.size(); ++i) g.bias[i] += w.bias[i] + 1;
    }
    if (step.finish({.max_norm = 10}).skipped()) std::abort();
  }
}

/// All weights, bit by bit the same on every rank.
template <class Module>
std::vector<float> weights_of(Module& module) {
  std::vector<float> all;
  for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
    std::vector<float> whole(tensor.shape.elements());
    module.read_weights(tensor.name, whole);
    all.insert(all.end(), whole.begin(), whole.end());
  }
  return all;
}

/// Runs body(module) on `ranks` ranks and returns the weights that it leaves.
template <class Stage, class Body>
std::vector<float> run(std::size_t ranks, Body body) {
  std::vector<float> weights;
  zero::run_threads(ranks, [&](zero::ThreadCommunicator& comm) {
    auto module = zero::shard<Stage>(make_model(), comm, zero::AdamW{.learning_rate = 0.1F});
    body(module);
    const std::vector<float> mine = weights_of(module);
    if (comm.rank() == 0) weights = mine;
  });
  return weights;
}

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const std::string path =
      argc > 1 ? argv[1] : (fs::temp_directory_path() / "zero-example-resume").string();

  const auto never_stopped = run<zero::Zero3>(4, [&](auto& module) { train(module, 20); });
  const auto at_ten = run<zero::Zero3>(4, [&](auto& module) {
    train(module, 10);
    zero::save(module, path, {.keep = 2, .user = {{"next_batch", "10"}}});
  });
  const auto resumed = run<zero::Zero3>(4, [&](auto& module) {
    const zero::LoadReport report = zero::load(module, path);
    train(module, 20);
    if (module.mesh().world.rank() == 0) {
      std::printf("loaded step %lld, next batch %s\n", static_cast<long long>(report.step),
                  report.user.at("next_batch").c_str());
    }
  });
  const auto elsewhere = run<zero::Zero1>(3, [&](auto& module) { zero::load(module, path); });

  std::printf("resumed on 4 ranks, step 20: %s\n",
              resumed == never_stopped ? "the bits of a run that never stopped" : "WRONG");
  std::printf("loaded on 3 ranks in another stage: %s\n",
              elsewhere == at_ten ? "the weights that 4 ranks saved" : "WRONG");
  if (argc == 1) fs::remove_all(path);
  return resumed == never_stopped && elsewhere == at_ten ? 0 : 1;
}
