// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The training of train_by_hand.cu, sharded: the argument 0 to 3 chooses the stage. Communicator,
// streams and memory stay the program's own and are lent.
#include <zero/cuda.cuh>

#include "kernels.cuh"
#include "units.hpp"

using namespace adopt;

constexpr int steps = 12;

// The kernel of train_by_hand.cu, for one piece of one tensor instead of all elements.
__global__ void adam_kernel(zero::OwnedPiece<AdamStep, 2> p) {
  const Size i = kernels::thread();
  if (i >= p.count || !p.applies()) return;
  adam(*p.coefficients, p.gradient_at(i), p.weights[i], p.states[0][i], p.states[1][i]);
}
struct KernelAdam : Adam {
  static void enqueue(cudaStream_t stream, const zero::OwnedPiece<AdamStep, 2>& piece) {
    kernels::launch(Gpu{stream}, piece.count, adam_kernel, piece);
  }
};

void train(const Rank& r, const zero::StageValue& stage) {
  const Gpu gpu{r.compute};
  auto comm = zero::NcclCommunicator::adopt(r.comm);
  zero::ModuleOptions options{.user_code = zero::UserCode::on_stream};
  options.cuda_streams[Size(zero::StreamId::compute)] = r.compute;
  options.cuda_streams[Size(zero::StreamId::reduce)] = r.comms;
  const Size bytes = zero::bytes_needed(stage, gpt2(), zero::mesh(comm), KernelAdam{}, options);
  const auto memory = allocate<std::byte>(bytes);
  options.memory = {memory.get(), bytes};
  auto sharded = zero::shard(stage, gpt2(), comm, KernelAdam{}, options);
  sharded.initialize(initial_of);
  const auto acts = allocate<Acts>(1);
  Acts& a = acts[0];
  for (int k = 0; k < steps; ++k) {
    load_tokens(a.tokens, r.number, Size(k), gpu);
    auto step = sharded.begin_step();
    {
      auto u = step.forward(0);
      const Params w = pointers(u.weights<Embedding>(), u.weights<Head>());
      embed_forward(w, a, gpu);
    }
    for (Size l = 0; l < L; ++l) {
      auto u = step.forward(1 + l);
      const Params w = pointers(u.weights<Block>(), u.weights<Embedding>());
      layer_forward(layer_of(w, l), next_gain(w, l), a, l, gpu);
    }
    {
      auto u = step.forward(1 + L);
      const Params w = pointers(u.weights<Head>());
      head_forward(w.wte, a, gpu);
    }
    const float loss = cross_entropy(a.logits, a.tokens + 1, a.losses, gpu);
    {
      auto u = step.backward(1 + L);
      const Params w = pointers(u.weights<Head>()), g = pointers(u.gradients<Head>());
      head_backward(w.wte, g.wte, a, gpu);
    }
    for (Size l = L; l-- > 0;) {
      auto u = step.backward(1 + l);
      const Params w = pointers(u.weights<Block>(), u.weights<Embedding>());
      const Params g = pointers(u.gradients<Block>(), u.gradients<Embedding>());
      layer_backward(layer_of(w, l), layer_of(g, l), next_gain(w, l), next_gain(g, l), a, l, gpu);
    }
    {
      auto u = step.backward(0);
      const Params w = pointers(u.weights<Embedding>(), u.weights<Head>());
      const Params g = pointers(u.gradients<Embedding>(), u.gradients<Head>());
      embed_backward(w, g, a, gpu);
    }
    if (step.finish().skipped()) std::printf("skipped\n");
    if (r.number == 0) std::printf("step %2d loss %a\n", k, double(loss));
  }
}

int main(int count, char** arguments) {
  const int stage = count > 1 ? std::atoi(arguments[1]) : 3;
  if (stage < 0 || stage > 3) return 2;
  run_ranks(2, [&](const Rank& r) { train(r, *stages[stage]); });
}
