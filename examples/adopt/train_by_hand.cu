// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// GPT-2 trained data-parallel by hand on two GPUs: every rank holds all weights, gradients and
// moments; gradients of a layer are summed by NCCL, on a stream of its own, while the next
// computes.
#include <array>

#include "kernels.cuh"

using namespace adopt;

constexpr int steps = 12, ranks = 2;

Layer layer_of(const Params& p, Size l) {
  return {p.qkv + l * 3 * C * C, p.proj + l * C * C, p.norm2 + l * C, p.up + l * 4 * C * C,
          p.down + l * 4 * C * C};
}

__global__ void adam_kernel(AdamStep s, const float* gradients, float* weights, float* m,
                            float* v) {
  const Size i = kernels::thread();
  if (i < total) adam(s, gradients[i] / ranks, weights[i], m[i], v[i]);
}

// The hand-placed all-reduce: `comms` waits for what was computed, then sums each piece.
struct Piece {
  float* data;
  Size count;
};
std::array<Piece, 5> pieces_of(const Layer& g) {
  return {
      {{g.qkv, 3 * C * C}, {g.proj, C * C}, {g.norm2, C}, {g.up, 4 * C * C}, {g.down, 4 * C * C}}};
}
std::array<Piece, 4> rest_of(const Params& g) {
  return {{{g.wte, V * C}, {g.wpe, T * C}, {g.norm1, L * C}, {g.normf, C}}};
}
template <Size count>
void all_reduce(const std::array<Piece, count>& pieces, const Rank& r, cudaEvent_t computed) {
  MUST(cudaEventRecord(computed, r.compute));
  MUST(cudaStreamWaitEvent(r.comms, computed, 0));
  MUST(ncclGroupStart());
  for (const Piece& p : pieces)
    MUST(ncclAllReduce(p.data, p.data, p.count, ncclFloat, ncclSum, r.comm, r.comms));
  MUST(ncclGroupEnd());
}

void train(const Rank& r) {
  const Gpu gpu{r.compute};
  cudaEvent_t computed, reduced;
  MUST(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));
  const auto weights = allocate<float>(total), gradients = allocate<float>(total);
  const auto m = allocate<float>(total), v = allocate<float>(total);
  std::vector<float> first(total);
  initialize(first.data());
  MUST(cudaMemcpy(weights.get(), first.data(), total * sizeof(float), cudaMemcpyHostToDevice));
  clear(m.get(), total, gpu);
  clear(v.get(), total, gpu);
  const Params w = point_into(weights.get()), g = point_into(gradients.get());
  const auto acts = allocate<Acts>(1);
  Acts& a = acts[0];
  for (int k = 0; k < steps; ++k) {
    load_tokens(a.tokens, r.number, Size(k), gpu);
    clear(g.wte, total, gpu);
    embed_forward(w, a, gpu);
    for (Size l = 0; l < L; ++l) { layer_forward(layer_of(w, l), next_gain(w, l), a, l, gpu); }
    head_forward(w.wte, a, gpu);
    const float loss = cross_entropy(a.logits, a.tokens + 1, a.losses, gpu);
    head_backward(w.wte, g.wte, a, gpu);
    for (Size l = L; l-- > 0;) {
      layer_backward(layer_of(w, l), layer_of(g, l), next_gain(w, l), next_gain(g, l), a, l, gpu);
      all_reduce(pieces_of(layer_of(g, l)), r, computed);
    }
    embed_backward(w, g, a, gpu);
    all_reduce(rest_of(g), r, computed);
    MUST(cudaEventRecord(reduced, r.comms));
    MUST(cudaStreamWaitEvent(r.compute, reduced, 0));
    kernels::launch(gpu, total, adam_kernel, adam_step(k + 1), g.wte, w.wte, m.get(), v.get());
    if (r.number == 0) std::printf("step %2d loss %a\n", k, double(loss));
  }
  MUST(cudaStreamSynchronize(r.compute));
  MUST(cudaEventDestroy(computed));
  MUST(cudaEventDestroy(reduced));
}

int main() { run_ranks(ranks, train); }
