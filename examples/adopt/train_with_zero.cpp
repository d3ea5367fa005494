// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The training of train_by_hand.cpp, sharded: the argument 0 to 3 chooses the stage.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <zero/zero.hpp>

#include "gpt2.hpp"

using namespace adopt;

// The same tensors, by what is needed together. A unit is one slice of each stacked tensor.
struct Sizes {};
template <class F>
struct Positions {
  zero::Tensor<F> wpe;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(zero::tensor("wpe", &Positions::wpe, {T, C}));
  }
};
template <class F>
struct Norms {  // stay stacked: each layer reads its row and that of the next
  zero::Tensor<F> norm1, normf;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(zero::tensor("norm1", &Norms::norm1, {L, C}),
                         zero::tensor("normf", &Norms::normf, {C}));
  }
};
template <class F>
struct Block {
  zero::Tensor<F> qkv, proj, norm2, up, down;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(
        zero::tensor("qkv", &Block::qkv, {3 * C, C}), zero::tensor("proj", &Block::proj, {C, C}),
        zero::tensor("norm2", &Block::norm2, {C}), zero::tensor("up", &Block::up, {4 * C, C}),
        zero::tensor("down", &Block::down, {C, 4 * C}));
  }
};
template <class F>
struct Head {  // the embedding reads it too
  zero::Tensor<F> wte;
  static constexpr auto tensors(const Sizes&) {
    return zero::tensors(zero::tensor("wte", &Head::wte, {V, C}));
  }
};

/// The numbers of train_by_hand.cpp, in which layers are stacked.
float initial_of(const zero::TensorInfo& tensor, Size element) {
  const char* names[] = {"wte", "wpe", "norm1", "normf", "qkv", "proj", "norm2", "up", "down"};
  const std::string name = tensor.name.substr(tensor.name.rfind('.') + 1);
  Size k = 0;
  while (name != names[k]) ++k;
  if (k == 2 || k == 3 || k == 6) return 1.0F;
  const Size layer = tensor.name.starts_with("block.") ? Size(tensor.name[6] - '0') : 0;
  return initial(k, layer * tensor.shape.elements() + element);
}
Layer layer_of(const Block<float>& w) {
  return {w.qkv.data(), w.proj.data(), w.norm2.data(), w.up.data(), w.down.data()};
}

/// The update of this program, called for each element that the rank owns.
struct Adam {
  static constexpr std::size_t states = 2;
  using Coefficients = AdamStep;
  static Coefficients coefficients(std::int64_t t, std::int64_t, bool) { return adam_step(t); }
  static void element(const AdamStep& s, float g, float& w, float& m, float& v) {
    adam(s, g, w, m, v);
  }
};

void train(zero::ThreadCommunicator& comm, const zero::StageValue& stage) {
  const Size rank = comm.rank();
  auto model = zero::model(
      zero::unit<Positions>("embed", Sizes{}).reads("head"), zero::unit<Norms>("norms", Sizes{}),
      zero::units<Block>("block", L, Sizes{}).reads("norms"), zero::unit<Head>("head", Sizes{}));
  zero::Module<decltype(model), Adam, zero::ThreadCommunicator, float> module(
      stage, std::move(model), zero::mesh(comm), Adam{}, {}, zero::precision_of<float>);
  module.initialize(initial_of);
  const auto acts = std::make_unique<Acts>();
  Acts& a = *acts;
  int tokens[N + 1];
  for (int k = 0; k < steps; ++k) {
    next_batch(tokens, rank, Size(k));
    auto step = module.begin_step();
    {
      auto u = step.forward(0);
      embed(u.weights<Head>().wte.data(), u.weights<Positions>().wpe.data(), tokens, a.layer[0].in);
    }
    residual_norm(a.layer[0].in, a.layer[0].norm1, a.layer[0].in, nullptr,
                  step.forward(1).weights<Norms>().norm1.data());  // whole until the semicolon
    for (Size l = 0; l < L; ++l) {
      auto u = step.forward(2 + l);
      const auto n = u.weights<Norms>();
      const float* next = l + 1 < L ? n.norm1.data() + (l + 1) * C : n.normf.data();
      layer_forward(layer_of(u.weights<Block>()), next, a.layer[l],
                    l + 1 < L ? a.layer[l + 1].in : a.out,
                    l + 1 < L ? a.layer[l + 1].norm1 : a.normed);
    }
    matmul(a.logits, a.normed, step.forward(2 + L).weights<Head>().wte.data(), C, V);
    const float loss = cross_entropy(a.logits, tokens + 1);
    for (float& x : a.d_stream) x = 0;
    {
      auto u = step.backward(2 + L);
      matmul_backward(a.d_norm, u.gradients<Head>().wte.data(), a.logits, a.normed,
                      u.weights<Head>().wte.data(), C, V);
    }
    for (Size l = L; l-- > 0;) {
      auto u = step.backward(2 + l);
      const auto n = u.weights<Norms>(), d = u.gradients<Norms>();
      const float* next = l + 1 < L ? n.norm1.data() + (l + 1) * C : n.normf.data();
      float* d_next = l + 1 < L ? d.norm1.data() + (l + 1) * C : d.normf.data();
      layer_backward(layer_of(u.weights<Block>()), layer_of(u.gradients<Block>()), next, d_next,
                     a.layer[l], l + 1 < L ? a.layer[l + 1].in : a.out, a);
    }
    {
      auto u = step.backward(1);
      norm_backward(a.d_stream, u.gradients<Norms>().norm1.data(), a.d_norm, a.layer[0].in,
                    u.weights<Norms>().norm1.data());
    }
    {
      auto u = step.backward(0);
      embed_backward(u.gradients<Head>().wte.data(), u.gradients<Positions>().wpe.data(), tokens,
                     a.d_stream);
    }
    if (step.finish().skipped()) std::printf("skipped\n");
    if (rank == 0) std::printf("step %2d loss %a\n", k, double(loss));
  }
}

int main(int count, char** arguments) {
  const zero::StageValue stages[] = {zero::stage_value<zero::Ddp>, zero::stage_value<zero::Zero1>,
                                     zero::stage_value<zero::Zero2>,
                                     zero::stage_value<zero::Zero3>};
  const int stage = count > 1 ? std::atoi(arguments[1]) : 3;
  if (stage < 0 || stage > 3) return 2;
  zero::run_threads(2, [&](zero::ThreadCommunicator& comm) { train(comm, stages[stage]); });
}
