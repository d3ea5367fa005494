// Tensor parallelism of one's own beside zero: four ranks as two by two. Along one axis zero shards
// each rank's part of the model; along the other the program splits its matrices. Losses and norms
// are those of two ranks that hold whole matrices.
#include <cmath>
#include <cstdio>
#include <vector>
#include <zero/zero.hpp>

struct Config {
  std::size_t width, hidden;  // hidden: of this part
};

template <class T>
struct Mlp {  // y = down relu(up x) + bias
  zero::Tensor<T> up, down, bias;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("up", &Mlp::up, {c.hidden, c.width}),      // part of the rows
                         zero::tensor("down", &Mlp::down, {c.width, c.hidden}),  // of the columns
                         zero::tensor("bias", &Mlp::bias, {c.width}, zero::replicated));
  }
};

constexpr std::size_t layers = 2, width = 6, hidden = 8, steps = 40;
using Vector = std::vector<float>;

struct Run {
  std::vector<double> losses, norms;
};

Run train(const zero::ThreadCommunicator& data, const zero::ThreadCommunicator& tensor) {
  const std::size_t part = hidden / tensor.size(), first = tensor.rank() * part;
  auto module = zero::shard<zero::Zero3>(
      zero::model(zero::units<Mlp>("mlp", layers, Config{width, part})),
      zero::mesh(data).also(tensor),  // norm, skipping and clipping span both axes
      zero::AdamW{.learning_rate = 0.01f});
  module.initialize([&](const zero::TensorInfo& info, std::size_t i) {
    // The same number for an element, whichever part it lies in.
    if (info.name.ends_with("bias")) return 0.0f;
    const bool up = info.name.ends_with("up");
    const std::size_t row = up ? first + i / width : i / part;
    const std::size_t column = up ? i % width : first + i % part;
    return std::sin(float(info.unit * 31 + row * 7 + column * 3 + (up ? 1 : 0))) / 2;
  });

  Run run;
  for (std::size_t k = 0; k < steps; ++k) {
    Vector x[layers + 1], h[layers], d;
    for (std::size_t i = 0; i < width; ++i) x[0].push_back(std::cos(float(5 * data.rank() + i)));

    auto step = module.begin_step();
    for (auto unit : step.forward()) {
      const auto w = unit.weights<Mlp>();
      const std::size_t l = unit.index();
      h[l].assign(part, 0);
      x[l + 1].assign(width, 0);
      for (std::size_t r = 0; r < part; ++r) {
        for (std::size_t c = 0; c < width; ++c) h[l][r] += w.up[r * width + c] * x[l][c];
        h[l][r] = std::fmax(h[l][r], 0.0f);
      }
      for (std::size_t r = 0; r < width; ++r)
        for (std::size_t c = 0; c < part; ++c) x[l + 1][r] += w.down[r * part + c] * h[l][c];
      tensor.all_reduce(x[l + 1].data(), width);  // the sum over the parts
      for (std::size_t r = 0; r < width; ++r) x[l + 1][r] += w.bias[r];
    }
    double loss = 0;  // the task: return the input in reverse order
    for (std::size_t i = 0; i < width; ++i) {
      d.push_back(x[layers][i] - x[0][width - 1 - i]);
      loss += d[i] * d[i] / 2;
    }
    for (auto unit : step.backward()) {
      const auto w = unit.weights<Mlp>();
      const auto g = unit.gradients<Mlp>();
      const std::size_t l = unit.index();
      Vector dh(part, 0), dx(width, 0);
      for (std::size_t r = 0; r < width; ++r) {
        g.bias[r] += d[r];  // the same on all ranks of the tensor axis
        for (std::size_t c = 0; c < part; ++c) {
          g.down[r * part + c] += d[r] * h[l][c];
          dh[c] += h[l][c] > 0 ? w.down[r * part + c] * d[r] : 0;
        }
      }
      for (std::size_t r = 0; r < part; ++r) {
        for (std::size_t c = 0; c < width; ++c) {
          g.up[r * width + c] += dh[r] * x[l][c];
          dx[c] += w.up[r * width + c] * dh[r];
        }
      }
      tensor.all_reduce(dx.data(), width);
      d = dx;
    }
    run.losses.push_back(loss);
    run.norms.push_back(step.finish({.max_norm = 1.0}).norm);
  }
  return run;
}

int main() {
  Run two_axes, one_axis;
  zero::run_threads(4, [&](zero::ThreadCommunicator& comm) {
    const int rank = int(comm.rank());
    const Run run = train(comm.split(rank % 2, rank), comm.split(rank / 2, rank));
    if (rank == 0) two_axes = run;
  });
  zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
    const int rank = int(comm.rank());
    const Run run = train(comm, comm.split(rank, 0));  // alone along the tensor axis
    if (rank == 0) one_axis = run;
  });

  // The parts are added in another order than within a whole matrix: equal up to rounding.
  bool equal = true;
  for (std::size_t k = 0; k < steps; ++k) {
    const bool same = std::fabs(two_axes.losses[k] - one_axis.losses[k]) < 1e-5 &&
                      std::fabs(two_axes.norms[k] - one_axis.norms[k]) < 1e-4;
    equal = equal && same;
    if (k % 13 != 0) continue;
    std::printf("step %2zu  loss %8.5f on two axes, %8.5f on one  gradient norm %8.5f and %8.5f\n",
                k, two_axes.losses[k], one_axis.losses[k], two_axes.norms[k], one_axis.norms[k]);
  }
  const bool learned = two_axes.losses.back() < two_axes.losses.front() / 4;
  std::printf("%s, %s\n", equal ? "equal" : "different", learned ? "learned" : "not learned");
  return equal && learned ? 0 : 1;
}
