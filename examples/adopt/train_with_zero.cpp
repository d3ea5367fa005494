// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The training of train_by_hand.cpp, sharded: the argument 0 to 3 chooses the stage.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <zero/zero.hpp>

#include "math.hpp"
#include "units.hpp"

using namespace adopt;

constexpr int steps = 12;

void train(zero::ThreadCommunicator& comm, const zero::StageValue& stage) {
  const Size rank = comm.rank();
  auto sharded = zero::shard(stage, gpt2(), comm, Adam{});
  sharded.initialize(initial_of);
  const auto acts = std::make_unique<Acts>();
  Acts& a = *acts;
  const Cpu cpu;
  for (int k = 0; k < steps; ++k) {
    load_tokens(a.tokens, rank, Size(k), cpu);
    auto step = sharded.begin_step();
    {
      auto u = step.forward(0);
      const Params w = pointers(u.weights<Embedding>(), u.weights<Head>());
      embed_forward(w, a, cpu);
    }
    for (Size l = 0; l < L; ++l) {
      auto u = step.forward(1 + l);
      const Params w = pointers(u.weights<Block>(), u.weights<Embedding>());
      layer_forward(layer_of(w, l), next_gain(w, l), a, l, cpu);
    }
    {
      auto u = step.forward(1 + L);
      const Params w = pointers(u.weights<Head>());
      head_forward(w.wte, a, cpu);
    }
    const float loss = cross_entropy(a.logits, a.tokens + 1, a.losses, cpu);
    {
      auto u = step.backward(1 + L);
      const Params w = pointers(u.weights<Head>()), g = pointers(u.gradients<Head>());
      head_backward(w.wte, g.wte, a, cpu);
    }
    for (Size l = L; l-- > 0;) {
      auto u = step.backward(1 + l);
      const Params w = pointers(u.weights<Block>(), u.weights<Embedding>());
      const Params g = pointers(u.gradients<Block>(), u.gradients<Embedding>());
      layer_backward(layer_of(w, l), layer_of(g, l), next_gain(w, l), next_gain(g, l), a, l, cpu);
    }
    {
      auto u = step.backward(0);
      const Params w = pointers(u.weights<Embedding>(), u.weights<Head>());
      const Params g = pointers(u.gradients<Embedding>(), u.gradients<Head>());
      embed_backward(w, g, a, cpu);
    }
    if (step.finish().skipped()) std::printf("skipped\n");
    if (rank == 0) std::printf("step %2d loss %a\n", k, double(loss));
  }
}

int main(int count, char** arguments) {
  const int stage = count > 1 ? std::atoi(arguments[1]) : 3;
  if (stage < 0 || stage > 3) return 2;
  zero::run_threads(2, [&](zero::ThreadCommunicator& comm) { train(comm, *stages[stage]); });
}
