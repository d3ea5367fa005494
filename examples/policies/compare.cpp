// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What five policies of one's own cost, beside Zero3 and Zero2: bytes that a rank holds and sends,
// and collectives, each a latency. The weights that they train are equal bit for bit.
#include <cstdio>
#include <vector>
#include <zero/zero.hpp>

#include "policies.hpp"

struct Config {
  std::size_t width;
};

template <class T>
struct Layer {
  zero::Tensor<T> weight, norm;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {c.width, c.width}),
                         zero::tensor("norm", &Layer::norm, {c.width}, zero::no_decay));
  }
};
template <class T>
struct Scale {  // a unit of few elements
  zero::Tensor<T> factor;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("factor", &Scale::factor, {c.width}));
  }
};

constexpr std::size_t world = 4, layers = 6, width = 64;

struct Outcome {
  std::size_t held = 0, sent = 0, collectives = 0;
  std::vector<float> weights{};
};

/// Gradients that depend on the weights and the rank, as those of a model do.
void backward(const zero::Tensor<float>& w, const zero::Tensor<float>& g, std::size_t rank) {
  for (std::size_t i = 0; i < w.size(); ++i) g[i] += w[i] * float(rank + 1) - float(i % 5);
}

/// Trains five steps. The stage is a value, so that this is compiled once for all of them.
Outcome train(const zero::StageValue& stage) {
  Outcome outcome;
  zero::run_threads(world, [&](zero::ThreadCommunicator& comm) {
    const auto model = zero::model(zero::unit<Scale>("scale", Config{width}),
                                   zero::units<Layer>("layer", layers, Config{width}));
    using Model = std::remove_const_t<decltype(model)>;
    zero::Module<Model, zero::AdamW, zero::ThreadCommunicator, float> module(
        stage, model, zero::mesh(comm), zero::AdamW{.learning_rate = 0.1f}, {});
    module.initialize([](const zero::TensorInfo&, std::size_t i) { return 1 / float(i + 1); });
    std::size_t before = 0;
    for (int k = 0; k < 5; ++k) {
      if (k == 1) before = comm.sent().total();  // the first step compares schedules too
      auto step = module.begin_step();
      for (auto unit : step.forward()) (void)unit;  // a real layer computes here
      for (auto unit : step.backward()) {
        if (unit.index() == 0) {
          const auto w = unit.weights<Scale>(), g = unit.gradients<Scale>();
          backward(w.factor, g.factor, comm.rank());
        } else {
          const auto w = unit.weights<Layer>(), g = unit.gradients<Layer>();
          backward(w.weight, g.weight, comm.rank());
          backward(w.norm, g.norm, comm.rank());
        }
      }
      if (step.finish().skipped()) std::puts("skipped");
    }
    const std::size_t sent = (comm.sent().total() - before) / 4;
    std::vector<float> all;
    for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
      std::vector<float> one(tensor.shape.elements());
      module.read_weights(tensor.name, one);
      all.insert(all.end(), one.begin(), one.end());
    }
    if (comm.rank() != 0) return;
    const zero::Schedule s =
        zero::make_schedule(stage, module.parameters().shape(), zero::training(layers + 1));
    for (const zero::Step& step : s.steps) outcome.collectives += zero::communicates(step.op);
    outcome.held = module.bytes_held().total();
    outcome.sent = sent;
    outcome.weights = all;
  });
  return outcome;
}

int main() {
  struct Row {
    const char* name;
    zero::StageValue stage;
  };
  const Row rows[] = {{"Zero3", zero::stage_value<zero::Zero3>},
                      {"keep the last unit", zero::stage_value<policies::LastKept>},
                      {"shard from 1000 elements", zero::stage_value<policies::LargeSharded>},
                      {"two ahead in backward", zero::stage_value<policies::BackwardAhead>},
                      {"norms and biases whole", zero::stage_value<policies::VectorsWhole>},
                      {"publish lazily", zero::stage_value<policies::Lazy>},
                      {"Zero2", zero::stage_value<zero::Zero2>}};
  std::vector<Outcome> all;
  std::printf("%-26s %10s %14s %12s\n", "stage", "bytes held", "sent per step", "collectives");
  bool equal = true;
  for (const Row& row : rows) {
    const Outcome& now = all.emplace_back(train(row.stage));
    std::printf("%-26s %10zu %14zu %12zu\n", row.name, now.held, now.sent, now.collectives);
    equal = equal && now.weights == all[0].weights;
  }
  std::printf("weights are %s\n", equal ? "equal bit for bit" : "DIFFERENT");
  const Outcome &zero3 = all[0], &last = all[1], &large = all[2], &ahead = all[3],
                &vectors = all[4], &lazy = all[5], &zero2 = all[6];
  const bool as_said = last.held > zero3.held && last.sent == zero3.sent &&
                       large.sent < zero3.sent && large.collectives < zero3.collectives &&
                       ahead.sent == zero3.sent && ahead.held > zero3.held &&
                       vectors.sent < zero3.sent && vectors.collectives > zero3.collectives &&
                       lazy.sent == zero2.sent && lazy.collectives == zero2.collectives;
  if (!as_said) std::puts("the costs are not what docs/policies.md says");
  return equal && as_said ? 0 : 1;
}
