// Sharding in a loop of one's own: units by number, memory of the caller's, evaluation in between.
#include <cmath>
#include <cstdio>
#include <memory>
#include <zero/zero.hpp>

struct Config {
  std::size_t width;
};

template <class T>
struct Scale {
  zero::Tensor<T> weight;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Scale::weight, {c.width}));
  }
};

int main() {
  constexpr std::size_t layers = 3, n = 16, ranks = 2;
  bool learned = true;
  zero::run_threads(ranks, [&](zero::ThreadCommunicator& comm) {
    auto model = zero::model(zero::units<Scale>("scale", layers, Config{n}));
    zero::Sgd sgd{.learning_rate = 0.1f};

    // The caller's allocator owns the memory: ask for the size, bind the pointer.
    const std::size_t bytes = zero::bytes_needed<zero::Zero3>(model, ranks, sgd);
    const auto free_it = [](void* p) { std::free(p); };
    std::unique_ptr<void, decltype(free_it)> memory(std::aligned_alloc(64, (bytes + 63) / 64 * 64),
                                                    free_it);
    auto module = zero::shard<zero::Zero3>(
        model, comm, sgd, {.memory = {static_cast<std::byte*>(memory.get()), bytes}});
    module.initialize([](const zero::TensorInfo&, std::size_t) { return 1.0f; });

    float x[layers + 1][n];
    const auto forward = [&](auto& pass) {  // the same code for training and evaluation
      for (std::size_t i = 0; i < n; ++i) x[0][i] = 1 + float(i % 3) / 4;
      for (std::size_t l = 0; l < layers; ++l) {
        auto unit = pass.forward(l);  // whole until the end of this scope
        auto weight = unit.template weights<Scale>().weight;
        for (std::size_t i = 0; i < n; ++i) x[l + 1][i] = weight[i] * x[l][i];
      }
      float loss = 0;
      for (std::size_t i = 0; i < n; ++i) loss += std::pow(x[layers][i] - 2, 2.0f) / 2;
      return loss;
    };

    float before = 0, after = 0;
    for (int k = 0; k <= 100; ++k) {
      if (k % 50 == 0) {
        auto pass = module.evaluate();
        after = forward(pass);
        if (k == 0) before = after;
        if (comm.rank() == 0) std::printf("step %3d  evaluation loss %8.5f\n", k, after);
      }
      auto step = module.begin_step();
      forward(step);
      float error[n];
      for (std::size_t i = 0; i < n; ++i) error[i] = x[layers][i] - 2;
      for (std::size_t l = layers; l-- > 0;) {
        auto unit = step.backward(l);
        auto weight = unit.weights<Scale>().weight;
        auto gradient = unit.gradients<Scale>().weight;
        for (std::size_t i = 0; i < n; ++i) {
          gradient[i] += error[i] * x[l][i];
          error[i] *= weight[i];
        }
      }
      if (step.finish({.max_norm = 1.0}).skipped() && comm.rank() == 0) std::printf("skipped\n");
    }
    if (comm.rank() == 0) learned = after < before / 100;
  });
  return learned ? 0 : 1;
}
