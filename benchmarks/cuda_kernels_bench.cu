// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near do the kernels come to the speed of a copy within the device? Each line is an object of
// JSON; `ratio_to_copy` compares the bytes a second that a kernel reads and writes with those of
// cudaMemcpyAsync for as many bytes, measured beside it. The best of several rounds counts.
// usage: cuda_kernels_bench [ELEMENTS [ROUNDS]]
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>
#include <zero/optim/adamw.hpp>
#include <zero/optim/cast.cuh>
#include <zero/optim/norm.cuh>
#include <zero/optim/pack.cuh>
#include <zero/optim/quantise.cuh>
#include <zero/optim/sgd.hpp>
#include <zero/optim/update.cuh>

namespace {

using zero::Array;
using zero::DataType;
constexpr DataType fp32 = DataType::fp32, bf16 = DataType::bf16, fp16 = DataType::fp16;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "cuda_kernels_bench: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

/// Device memory, all zeros.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    check(cudaMalloc(&data_, bytes));
    check(cudaMemset(data_, 0, bytes));
  }
  template <class T>
  explicit Memory(const std::vector<T>& values) : Memory(values.size() * sizeof(T)) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  Array array(std::size_t count, DataType type) const { return {data_, count, type}; }

 private:
  void* data_ = nullptr;
};

class Bench {
 public:
  Bench(std::size_t elements, int rounds)
      : n_(elements), rounds_(rounds), from_(n_ * 16), to_(n_ * 16) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  cudaStream_t stream() const { return stream_; }

  /// Prints what a kernel that reads and writes so many bytes an element takes.
  template <class F>
  void run(const char* name, double bytes_per_element, const F& kernel) {
    const double bytes = bytes_per_element * static_cast<double>(n_);
    const auto half = static_cast<std::size_t>(bytes / 2);
    const auto copy = [&] {
      check(cudaMemcpyAsync(to_.as<void>(), from_.as<void>(), half, cudaMemcpyDeviceToDevice,
                            stream_));
    };
    double kernel_ms = std::numeric_limits<double>::infinity(), copy_ms = kernel_ms;
    for (int round = 0; round < rounds_; ++round) {
      kernel_ms = std::min(kernel_ms, milliseconds(kernel));
      copy_ms = std::min(copy_ms, milliseconds(copy));
    }
    std::printf(
        "{\"kernel\": \"%s\", \"elements\": %zu, \"bytes\": %.0f, \"us\": %.2f, "
        "\"gb_per_s\": %.1f, \"copy_gb_per_s\": %.1f, \"ratio_to_copy\": %.3f}\n",
        name, n_, bytes, kernel_ms * 1e3, bytes / kernel_ms * 1e-6, bytes / copy_ms * 1e-6,
        copy_ms / kernel_ms);
    std::fflush(stdout);
  }

 private:
  /// Of one call, out of several in a row.
  template <class F>
  double milliseconds(const F& work) {
    constexpr int calls = 5;
    float elapsed = 0;
    work();
    check(cudaEventRecord(begin_, stream_));
    for (int k = 0; k < calls; ++k) work();
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    check(cudaEventElapsedTime(&elapsed, begin_, end_));
    return std::max(double{elapsed}, 1e-6) / calls;
  }

  std::size_t n_;
  int rounds_;
  Memory from_, to_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// Tensors of equal size that fill `elements`.
std::vector<zero::TensorRange> ranges_of(std::size_t elements, std::size_t tensors) {
  std::vector<zero::TensorRange> made;
  const std::size_t size = std::max<std::size_t>(elements / tensors / 32, 1) * 32;
  for (std::size_t t = 0; t < tensors && t * size < elements; ++t) {
    made.push_back(
        {t * size, std::min(size, elements - t * size), static_cast<std::uint32_t>(t), 1});
  }
  return made;
}

template <class O>
void bench_update(Bench& bench, const char* name, std::size_t n, std::size_t tensors,
                  DataType gradient_type, const O& optimizer) {
  const auto table = ranges_of(n, tensors);
  const Memory gradient(n * 4), master(n * 4), compute(n * 2), ranges(table),
      present(std::vector<std::uint8_t>(table.size(), 1)),
      decision(std::vector<zero::UpdateDecision>{{1, 2, 1}}),
      coefficients(
          std::vector<typename O::Coefficients>(table.size(), optimizer.coefficients(1, 0, true)));
  const Memory states(n * 4 * O::states);
  zero::GroupUpdate<O> u;
  u.gradient = gradient.array(n, gradient_type), u.master = master.array(n, fp32);
  u.compute = compute.array(n, bf16), u.gather = bf16;
  for (std::size_t k = 0; k < O::states; ++k) {
    u.states[k] = states.array(n * O::states, fp32).part(k * n, n);
  }
  u.ranges = ranges.as<zero::TensorRange>();
  u.range_count = static_cast<std::uint32_t>(table.size());
  u.decision = decision.as<zero::UpdateDecision>();
  u.present = present.as<std::uint8_t>();
  u.coefficients = coefficients.as<typename O::Coefficients>();
  const double bytes = static_cast<double>(zero::size_of(gradient_type) + 8 + 8 * O::states + 2);
  bench.run(name, bytes, [&] { zero::update_group<O>(bench.stream(), u); });
}

void bench_norm(Bench& bench, const char* name, std::size_t n, std::size_t tensors, DataType type,
                double order) {
  const auto table = ranges_of(n, tensors);
  const Memory own(n * 4), ranges(table), scratch((zero::norm_scratch + 1) * sizeof(double));
  bench.run(name, static_cast<double>(zero::size_of(type)), [&] {
    zero::norm_part(bench.stream(), own.array(n, type), ranges.as<zero::TensorRange>(),
                    static_cast<std::uint32_t>(table.size()), 0, order, scratch.as<double>() + 1,
                    scratch.as<double>());
  });
}

void bench_cast(Bench& bench, const char* name, std::size_t n, DataType from, DataType to,
                bool adds) {
  const Memory in(n * 4), out(n * 4);
  const std::size_t bytes = zero::size_of(from) + zero::size_of(to) * (adds ? 2 : 1);
  bench.run(name, static_cast<double>(bytes), [&] {
    zero::cast_scaled(bench.stream(), in.array(n, from), out.array(n, to), adds ? 0.5F : 1.0F,
                      adds);
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t n = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : std::size_t{1} << 27;
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 5;
  if (n < 1024 || rounds < 1) {
    std::fprintf(stderr, "usage: cuda_kernels_bench [ELEMENTS (1024 or more) [ROUNDS]]\n");
    return 2;
  }
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0));
  std::printf("{\"device\": \"%s\", \"elements\": %zu, \"rounds\": %d}\n", device.name, n, rounds);
  Bench bench(n, rounds);
  bench_update(bench, "adamw, fp32 gradient", n, 1, fp32, zero::AdamW{});
  bench_update(bench, "adamw, bf16 gradient", n, 1, bf16, zero::AdamW{});
  bench_update(bench, "adamw, fp32 gradient, 1000 tensors", n, 1000, fp32, zero::AdamW{});
  bench_update(bench, "sgd, fp32 gradient", n, 1, fp32, zero::Sgd{});
  bench_cast(bench, "cast fp32 to bf16", n, fp32, bf16, false);
  bench_cast(bench, "cast bf16 to fp32", n, bf16, fp32, false);
  bench_cast(bench, "cast fp32 to fp16", n, fp32, fp16, false);
  bench_cast(bench, "cast bf16 to fp16", n, bf16, fp16, false);
  bench_cast(bench, "add bf16 to fp32, scaled", n, bf16, fp32, true);
  const double infinity = std::numeric_limits<double>::infinity();
  bench_norm(bench, "norm of order 2, fp32", n, 1, fp32, 2);
  bench_norm(bench, "norm of order 2, bf16", n, 1, bf16, 2);
  bench_norm(bench, "norm of order 2, fp32, 1000 tensors", n, 1000, fp32, 2);
  bench_norm(bench, "norm of order infinity, fp32", n, 1, fp32, infinity);
  {
    const Memory in(n * 4), codes(n), scales(zero::quantised_scales(n) * sizeof(float));
    const zero::QuantisedArray quantised{codes.as<std::int8_t>(), scales.as<float>(), n};
    const Array array = in.array(n, fp32);
    bench.run("quantise fp32", 5, [&] { zero::quantise(bench.stream(), array, quantised); });
    bench.run("dequantise fp32", 5, [&] { zero::dequantise(bench.stream(), quantised, array); });
  }
  {
    const Memory flat(n * 2), tensors(n * 2);
    std::vector<zero::PackedTensor> table;
    for (const zero::TensorRange& range : ranges_of(n, 100)) {
      table.push_back({tensors.array(n, bf16).part(range.offset, range.size), range.offset});
    }
    const Memory packed(table);
    const auto size = static_cast<std::uint32_t>(table.size());
    bench.run("pack 100 tensors of bf16", 4, [&] {
      zero::pack(bench.stream(), packed.as<zero::PackedTensor>(), size, flat.array(n, bf16));
    });
  }
  return 0;
}
