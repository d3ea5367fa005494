// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <zero/cuda.cuh>

#include "../share.hpp"
#include "cuda_ranks.hpp"
#include "layer.cuh"
#include "training.hpp"

namespace training {

using cuda_tests::add_gradient;
using cuda_tests::Gradient;
using cuda_tests::Layer;
using cuda_tests::Sizes;

template <class T>
void backward(zero::CudaStream& stream, zero::Tensor<T> weight, zero::Tensor<float> gradient,
              const Gradient& g) {
  const auto blocks = static_cast<unsigned>(weight.size() + 63) / 64;
  add_gradient<T>
      <<<blocks, 64, 0, stream.native()>>>(weight.data(), gradient.data(), weight.size(), g);
}
template <class T>
void backward(zero::HostStream& stream, zero::Tensor<T> weight, zero::Tensor<float> gradient,
              const Gradient& g) {
  stream.enqueue("user", [=] {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      gradient.data()[i] += g(i, zero::to_float(weight.data()[i]));
    }
  });
}

/// A stream of the user's own.
template <class Stream>
struct Own {
  zero::CudaDevice device;
  zero::CudaStream& stream = device.make_stream("own");
  cudaStream_t handle = stream.native();
};
template <>
struct Own<zero::HostStream> {
  zero::HostDevice device{{.mode = zero::StreamMode::asynchronous}};
  zero::HostStream& stream = device.make_stream("own");
  zero::HostStream* handle = &stream;
};

template <class Step, class Stream>
void passes(Step& step, const StepPlan& plan, std::size_t rank, bool leaves, Own<Stream>& own) {
  for (std::size_t m = 0; m < plan.micro_steps; ++m) {
    for (auto unit : step.forward()) {
      if (plan.skips_a_unit && unit.index() == 1) unit.skip();
    }
    for (auto unit : step.backward()) {
      if (plan.skips_a_unit && unit.index() == 1) {
        unit.skip();
        continue;
      }
      if (leaves && unit.name() == "block.1") throw std::runtime_error("left on purpose");
      const auto weights = unit.template weights<Layer>();
      const auto gradients = unit.template gradients<Layer>();
      if (gradients.weight.size() == 0) continue;  // frozen
      Gradient g{unit.index() + 5 * rank + 11 * m, plan.exact, plan.not_finite && rank == 0};
      backward(unit.stream(), weights.weight, gradients.weight, g);
      g.key += 100;
      g.not_finite = false;
      if (plan.forks) unit.also_on(own.handle);
      backward(plan.forks ? own.stream : unit.stream(), weights.bias, gradients.bias, g);
    }
  }
}

template <class Module>
std::vector<std::uint32_t> bits_of(Module& trained) {
  std::vector<std::uint32_t> bits;
  const auto keep = [&](const std::vector<float>& values) {
    for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  };
  for (const zero::TensorInfo& tensor : trained.parameters().tensors()) {
    std::vector<float> whole(tensor.shape.elements());
    trained.read_weights(tensor.name, whole);
    keep(whole);
    for (std::size_t k = 0; k < 2 && !tensor.frozen; ++k) {
      trained.read_state(tensor.name, k, whole);
      keep(whole);
    }
  }
  return bits;
}

/// The numbers of a list, one after the other.
template <class F>
void for_each_number(const zero::HeldState& state, F f) {
  for (const zero::HeldTensor& tensor : state.tensors) {
    for (const zero::HeldPart& part : tensor.parts) {
      for (const zero::HeldRange& range : part.ranges) {
        f(static_cast<std::byte*>(range.data), range.count * zero::size_of(part.type));
      }
      for (const zero::HeldRange& range : part.copies) {
        f(static_cast<std::byte*>(range.data), range.count * zero::size_of(part.copy_type));
      }
    }
  }
}
/// Puts back what was held before f() ran.
template <class Module, class F>
void undo(Module& trained, F f) {
  const zero::HeldState before = trained.held_state();
  std::vector<std::byte> numbers;
  for_each_number(before, [&](const std::byte* from, std::size_t bytes) {
    numbers.insert(numbers.end(), from, from + bytes);
  });
  f();
  zero::HeldState after = trained.held_state();
  std::size_t at = 0;
  for_each_number(after, [&](std::byte* to, std::size_t bytes) {
    std::copy_n(numbers.data() + at, bytes, to);
    at += bytes;
  });
  after.step = before.step;
  for (std::size_t t = 0; t < after.tensors.size(); ++t) {
    after.tensors[t].counter = before.tensors[t].counter;
  }
  trained.restore(after);
}

inline std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  zero::detail::check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

template <class T, class Comm>
void train(const Setup& setup, Comm& comm, Result& result) {
  constexpr bool on_device = !zero::detail::OnDevice<typename Comm::Stream>::is_host;
  const auto model = zero::model(
      zero::unit<Layer>("first", Sizes{3, 5}), zero::units<Layer>("block", 2, Sizes{8, 16}),
      zero::unit<Layer>("tiny", Sizes{1, 1}), zero::unit<Layer>("last", Sizes{11, 7}));
  const zero::AdamW adam{
      .learning_rate = [](std::int64_t step) { return 0.05F / static_cast<float>(step + 1); }};
  zero::ModuleOptions options = setup.options;
  options.user_code = zero::UserCode::on_stream;
  const zero::Mesh<Comm> mesh = zero::mesh(comm, setup.replicas);
  Own<typename Comm::Stream> own;
  const std::size_t free_before = on_device ? free_bytes() : 0;
  zero::Module<std::remove_const_t<decltype(model)>, zero::AdamW, Comm, T> trained(
      setup.stage, model, mesh, {adam}, options, setup.types);
  trained.initialize([](const zero::TensorInfo& tensor, std::size_t i) {
    return 0.01F * static_cast<float>((i * 5 + tensor.name.size()) % 23) - 0.1F;
  });
  if (on_device) result.device_bytes = free_before - free_bytes();
  result.held = trained.bytes_held();
  result.predicted = trained.predicted_bytes_held();
  bool frozen = false;
  const bool leaves = setup.leaves && comm.rank() + 1 == comm.size();
  auto run = [&](const StepPlan& plan) {
    auto step = trained.begin_step({.micro_steps = plan.micro_steps, .program = plan.program});
    passes(step, plan, comm.rank(), leaves, own);
    if (plan.waits) return step.finish(plan.finish);
    step.finish_async(plan.finish);
    return zero::StepResult{};
  };
  std::function<void(const StepPlan&)> step = [&](const StepPlan& plan) {
    result.steps.push_back(run(plan));
  };
  if constexpr (on_device) {
    using Captured = decltype(trained.capture([](auto&) {}));
    step = [&, captured = std::shared_ptr<Captured>()](const StepPlan& plan) mutable {
      if (!plan.captured) return result.steps.push_back(run(plan));
      if (!captured) {
        const auto body = [&](auto& made) { passes(made, plan, comm.rank(), leaves, own); };
        captured = std::make_shared<Captured>(trained, body,
                                              zero::StepOptions{plan.micro_steps, plan.program});
      }
      result.steps.push_back(captured->run(plan.finish));
    };
  }
  for (const StepPlan& plan : setup.steps) {
    if (plan.written) {
      const std::vector<float> moments(77, 0.25F);  // those of last.weight
      trained.write_state("last.weight", 0, moments);
      trained.write_state("last.weight", 1, moments);
    }
    if (plan.undone) {
      undo(trained, [&] { step(plan); });
    } else {
      step(plan);
    }
    if (setup.freezes && !std::exchange(frozen, true)) trained.set_frozen("first.*", true);
  }
  trained.synchronize();
  if (on_device) result.more_bytes = free_before - free_bytes() - result.device_bytes;
  result.bits = bits_of(trained);
  result.counter = trained.counter("block.0.weight");
}

template <class Comm>
void train_in(const Setup& setup, Comm& comm, Result& result) {
  switch (setup.types.compute) {
    case zero::DataType::bf16: return train<zero::bf16>(setup, comm, result);
    default: return train<float>(setup, comm, result);
  }
}

std::vector<Result> on_host(const Setup& setup) {
  std::vector<Result> results(setup.ranks);
  zero::run_threads(setup.ranks, [&](zero::ThreadCommunicator& comm) {
    train_in(setup, comm, results[comm.rank()]);
  });
  return results;
}

std::vector<Result> on_cuda(const Setup& setup) {
  std::vector<Result> results(setup.ranks);
  zero::NcclOptions options;
  const zero::NcclBoard board(setup.ranks);
  options.time_limit = setup.options.time_limit;
  options.board = &board;
  try {
    const auto outcomes = cuda_tests::cuda_outcomes(
        setup.ranks, options, [&](auto& comm) { train_in(setup, comm, results[comm.rank()]); });
    for (std::size_t rank = 0; rank < setup.ranks; ++rank) {
      results[rank].error = outcomes[rank].error;
      if (!outcomes[rank].typed) results[rank].error += " (not a zero::Error)";
    }
  } catch (const zero::Error& error) {  // there are no ranks yet
    for (Result& result : results) result.error = error.what();
  }
  return results;
}

/// Two steps of a ShardedOptimizer, of two micro-steps each.
template <class Comm>
std::vector<float> train_flat(Comm& comm) {
  constexpr std::size_t elements = 100;
  zero::ShardedOptimizer optimizer(comm, zero::AdamW{.learning_rate = 0.05F}, elements,
                                   {.user_code = zero::UserCode::on_stream});
  optimizer.module().initialize(
      [](const zero::TensorInfo&, std::size_t i) { return 0.01F * static_cast<float>(i); });
  const zero::Tensor<float> weights(optimizer.weights().data(), {elements}),
      gradients(optimizer.gradients().data(), {elements});
  for (std::size_t k = 0; k < 2; ++k) {
    optimizer.zero_gradients();
    for (std::size_t m = 0; m < 2; ++m) {
      backward(optimizer.stream(), weights, gradients,
               {k + 5 * comm.rank() + 11 * m, false, false});
    }
    (void)optimizer.step();
  }
  std::vector<float> whole(elements);
  optimizer.module().read_weights("flat.elements", whole);
  return whole;
}
std::vector<std::vector<float>> flat_on_host(std::size_t ranks) {
  std::vector<std::vector<float>> weights(ranks);
  zero::run_threads(
      ranks, [&](zero::ThreadCommunicator& comm) { weights[comm.rank()] = train_flat(comm); });
  return weights;
}
std::vector<std::vector<float>> flat_on_cuda(std::size_t ranks) {
  std::vector<std::vector<float>> weights(ranks);
  (void)cuda_tests::cuda_outcomes(ranks, {},
                                  [&](auto& comm) { weights[comm.rank()] = train_flat(comm); });
  return weights;
}

void fit_for_capture(Setup& setup) {
  if (cuda_tests::too_few_devices(setup.ranks)) setup.ranks = setup.replicas = 1;
}

void for_each_stage(
    const std::function<void(const char*, const zero::StageValue&, std::size_t)>& f) {
  f("stage 0", zero::stage_value<zero::Ddp>, 1);
  f("stage 3", zero::stage_value<zero::Zero3>, 1);
  if (share == 1) {  // else a sanitizer is slow
    f("stage 1", zero::stage_value<zero::Zero1>, 1);
    f("stage 2", zero::stage_value<zero::Zero2>, 1);
    f("hybrid", zero::stage_value<zero::Hybrid>, 2);
  }
  f("hpz", zero::stage_value<zero::Hpz>, 2);
}

}  // namespace training
