// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains layers on threads, then simulates the same schedule with the steps' measured lengths, and
// draws both executions above one another.
// usage: plan_measured [FILE.svg]
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>
#include <zero/plan/measured.hpp>
#include <zero/plan/simulate.hpp>
#include <zero/plan/timeline_svg.hpp>
#include <zero/zero.hpp>

namespace {

template <class T>
struct Layer {
  zero::Tensor<T> weight;
  static constexpr auto tensors(std::size_t n) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {n, n}));
  }
};
constexpr std::size_t layers = 8, n = 192, rows = 16;

void forward(const Layer<float>& w, const float* in, float* out) {
  for (std::size_t b = 0; b < rows; ++b) {
    for (std::size_t r = 0; r < n; ++r) {
      float sum = 0;
      for (std::size_t c = 0; c < n; ++c) sum += w.weight[r * n + c] * in[b * n + c];
      out[b * n + r] = sum;
    }
  }
}
void backward(const Layer<float>& w, const Layer<float>& g, const float* in, const float* d_out,
              float* d_in) {
  for (std::size_t i = 0; i < rows * n; ++i) d_in[i] = 0;
  for (std::size_t b = 0; b < rows; ++b) {
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n; ++c) {
        g.weight[r * n + c] += d_out[b * n + r] * in[b * n + c];
        d_in[b * n + c] += w.weight[r * n + c] * d_out[b * n + r];
      }
    }
  }
}

struct Measured {
  zero::Schedule schedule;
  zero::List<zero::Span> all, typical;  // of all executions; of the one of median length
};
double length(const zero::List<zero::Span>& spans) {
  double begin = INFINITY, end = 0;
  for (const zero::Span& span : spans) {
    if (span.end <= span.begin) continue;
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  return end - begin;
}

Measured train() {
  Measured measured;
  zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
    zero::ModuleOptions options;
    options.streams = zero::StreamMode::asynchronous;
    options.record_spans = true;
    auto module = zero::shard<zero::Zero3>(zero::model(zero::units<Layer>("layer", layers, n)),
                                           comm, zero::AdamW{}, options);
    module.initialize([](const zero::TensorInfo&, std::size_t i) {
      return i % (n + 1) == 0 ? 1.0f : 0.0f;  // the identity
    });
    std::vector<std::vector<float>> x(layers + 1, std::vector<float>(rows * n, 1)), d = x;
    std::vector<zero::List<zero::Span>> executions;
    for (int k = 0; k < 31; ++k) {
      auto step = module.begin_step();
      for (auto unit : step.forward()) {
        const std::size_t l = unit.index();
        forward(unit.template weights<Layer>(), x[l].data(), x[l + 1].data());
      }
      for (auto unit : step.backward()) {
        const std::size_t l = unit.index();
        backward(unit.template weights<Layer>(), unit.template gradients<Layer>(), x[l].data(),
                 d[l + 1].data(), d[l].data());
      }
      (void)step.finish();
      executions.push_back(module.spans());
    }
    if (comm.rank() != 0) return;
    measured.schedule = module.schedule();
    for (const auto& spans : executions) {
      measured.all.insert(measured.all.end(), spans.begin(), spans.end());
    }
    std::sort(executions.begin(), executions.end(),
              [](const auto& a, const auto& b) { return length(a) < length(b); });
    measured.typical = executions[executions.size() / 2];
  });
  return measured;
}

}  // namespace

int main(int argc, char** argv) {
  const Measured measured = train();
  const zero::plan::MeasuredDuration duration(measured.schedule, measured.all);
  // Threads run the collectives of two streams side by side.
  const zero::plan::Simulation simulated =
      zero::plan::simulate(measured.schedule, duration, {.one_communicator = false});
  const double took = length(measured.typical), would = length(simulated.spans);
  std::printf("A step took %.3f ms; simulated with the median of each kind of step: %.3f ms\n",
              took / 1e3, would / 1e3);
  if (argc > 1) {
    std::ofstream file(argv[1]);
    const zero::TimelinePicture pictures[] = {
        {"Measured: one training step of Zero3 on rank 0 of 2", measured.typical},
        {"Simulated: the same schedule, each step as long as the median of its kind",
         simulated.spans}};
    zero::print_timelines_svg(file, measured.schedule, std::span(pictures),
                              [](std::size_t unit) { return "layer." + std::to_string(unit); });
    file.flush();
    if (!file) {
      std::fprintf(stderr, "plan_measured: '%s' cannot be written.\n", argv[1]);
      return 2;
    }
  }
  return took > 0 && would > 0 ? 0 : 1;
}
