// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Way 3, layer by layer: the loop asks for each layer where it computes; nothing is whole for
// longer.
#include <cstdio>
#include <zero/zero.hpp>

#include "problem.hpp"

using namespace ways_in;

template <class T>
struct Layer {
  zero::Tensor<T> weight, bias;
  static constexpr auto tensors(Size w) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {w, w}),
                         zero::tensor("bias", &Layer::bias, {w}));
  }
};

void train(zero::ThreadCommunicator& comm) {
  auto module = zero::shard<zero::Zero3>(zero::model(zero::units<Layer>("layer", layers, width)),
                                         comm, zero::AdamW{.learning_rate = Adam::learning_rate});
  module.initialize([](const zero::TensorInfo& tensor, Size i) {
    return tensor.shape.rank == 2 ? initial(i) : 0.0F;
  });
  Activations a;
  for (int k = 0; k < steps; ++k) {
    next_input(a.x[0], comm.rank(), k);
    auto step = module.begin_step();
    for (Size l = 0; l < layers; ++l) {
      auto unit = step.forward(l);  // gathered; released at the brace
      const auto w = unit.weights<Layer>();
      forward(w.weight.data(), w.bias.data(), a.x[l], a.x[l + 1]);
    }
    const float loss = loss_and_gradient(a);
    for (Size l = layers; l-- > 0;) {
      auto unit = step.backward(l);  // and gradients reduced at the brace
      const auto g = unit.gradients<Layer>();
      backward(unit.weights<Layer>().weight.data(), g.weight.data(), g.bias.data(), a.x[l],
               a.d[l + 1], a.d[l]);
    }
    if (step.finish().skipped()) std::printf("skipped\n");
    if (comm.rank() == 0) std::printf("step %2d  loss %a\n", k, double(loss));
  }
}

int main() { zero::run_threads(ranks, train); }
