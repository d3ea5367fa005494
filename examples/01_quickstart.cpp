#include <cstdio>
#include <zero/zero.hpp>

struct Config {
  std::size_t width;
};

template <class T>
struct Linear {  // a unit kind: its tensors, as the layer's code sees them
  zero::Tensor<T> weight, bias;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Linear::weight, {c.width, c.width}),
                         zero::tensor("bias", &Linear::bias, {c.width}, zero::no_decay));
  }
};

constexpr std::size_t layers = 4, n = 8;

void forward(const Linear<float>& w, const float* in, float* out) {
  for (std::size_t r = 0; r < n; ++r) {
    out[r] = w.bias[r];
    for (std::size_t c = 0; c < n; ++c) out[r] += w.weight[r * n + c] * in[c];
  }
}
void backward(const Linear<float>& w, const Linear<float>& g, const float* in, const float* d_out,
              float* d_in) {
  for (std::size_t c = 0; c < n; ++c) d_in[c] = 0;
  for (std::size_t r = 0; r < n; ++r) {
    g.bias[r] += d_out[r];  // gradients are added to
    for (std::size_t c = 0; c < n; ++c) {
      g.weight[r * n + c] += d_out[r] * in[c];
      d_in[c] += w.weight[r * n + c] * d_out[r];
    }
  }
}

int main() {
  zero::run_threads(4, [](zero::ThreadCommunicator& comm) {  // four ranks
    auto model = zero::model(zero::units<Linear>("layer", layers, Config{n}));
    auto module = zero::shard<zero::Zero3>(model, comm, zero::AdamW{.learning_rate = 0.01f});
    module.initialize([](const zero::TensorInfo& tensor, std::size_t i) {
      return tensor.shape.rank == 2 && i % (n + 1) == 0 ? 0.5f : 0.0f;  // half the identity
    });

    float x[layers + 1][n], d[layers + 1][n];  // activations and their gradients
    for (std::size_t k = 0; k <= 300; ++k) {
      for (std::size_t i = 0; i < n; ++i)
        x[0][i] = float((k * 5 + comm.rank() * 3 + i * i) % 7) - 3;

      auto step = module.begin_step();
      for (auto unit : step.forward()) {  // whole from here to the brace, then released
        forward(unit.weights<Linear>(), x[unit.index()], x[unit.index() + 1]);
      }
      float loss = 0;  // the task: return the input in reverse order
      for (std::size_t i = 0; i < n; ++i) {
        d[layers][i] = x[layers][i] - x[0][n - 1 - i];
        loss += d[layers][i] * d[layers][i] / 2;
      }
      for (auto unit : step.backward()) {  // gradients are reduced at the brace
        const std::size_t l = unit.index();
        backward(unit.weights<Linear>(), unit.gradients<Linear>(), x[l], d[l + 1], d[l]);
      }
      zero::StepResult result = step.finish();

      if (comm.rank() == 0 && k % 100 == 0) {
        std::printf("step %3zu  loss %9.5f  gradient norm %9.5f\n", k, loss, result.norm);
      }
    }
    if (comm.rank() == 0) {
      std::printf("%zu parameters, %zu bytes on each of %zu ranks\n",
                  module.parameters().elements(), module.bytes_held().total(), comm.size());
    }
  });
}
