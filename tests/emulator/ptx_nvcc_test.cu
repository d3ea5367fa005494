// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What nvcc makes of CUB and of CUDA's own headers runs as it would on a GPU.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_reduce.cuh>
#include <cuda/on_device.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(ptx_nvcc_test)

using on_device::Copy;

BOOST_AUTO_TEST_CASE(cub_reduces_an_array) {
  for (const int n : {1, 100, 20000}) {
    std::vector<int> values(static_cast<std::size_t>(n));
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += values[static_cast<std::size_t>(i)] = i % 91 - 30;
    const Copy<int> in(values), out({0});
    std::size_t bytes = 0;
    on_device::check(cub::DeviceReduce::Sum(nullptr, bytes, in.data(), out.data(), n));
    const Copy<char> room{std::vector<char>(bytes)};
    on_device::check(cub::DeviceReduce::Sum(room.data(), bytes, in.data(), out.data(), n));
    BOOST_TEST(out.get()[0] == sum);
  }
}

__global__ void scan(const int* in, int* out) {
  using Scan = cub::BlockScan<int, 96>;
  __shared__ typename Scan::TempStorage room;
  int mine = in[threadIdx.x], before = 0;
  Scan(room).ExclusiveSum(mine, before);
  out[threadIdx.x] = before;
}
BOOST_AUTO_TEST_CASE(cub_scans_a_block) {
  std::vector<int> values(96), expected(96);
  for (int i = 0; i < 96; ++i) {
    values[static_cast<std::size_t>(i)] = i * 5 % 7;
    if (i > 0) {
      expected[static_cast<std::size_t>(i)] =
          expected[static_cast<std::size_t>(i - 1)] + values[static_cast<std::size_t>(i - 1)];
    }
  }
  const Copy<int> in(values), out(values);
  scan<<<1, 96>>>(in.data(), out.data());
  BOOST_TEST(out.get() == expected, boost::test_tools::per_element());
}

__global__ void narrow(const float* in, float* out) {
  const float x = in[threadIdx.x];
  const __nv_bfloat16 b = __float2bfloat16(x);
  const __half h = __float2half(x);
  const __nv_bfloat162 both = __floats2bfloat162_rn(x, -x);
  out[threadIdx.x] = __bfloat162float(b * b + b) + __half2float(h + h) +
                     __bfloat162float(__high2bfloat16(__hmul2(both, both)));
}
BOOST_AUTO_TEST_CASE(narrow_types_of_cuda_compute) {
  const std::vector<float> values = {1, 2, -3, 0.5F};
  const Copy<float> in(values), out(values);
  narrow<<<1, 4>>>(in.data(), out.data());
  const std::vector<float> expected = {5, 14, 9, 2};  // 2 x^2 + 3 x
  BOOST_TEST(out.get() == expected, boost::test_tools::per_element());
}

__global__ void functions(const float* in, float* out, double* wide) {
  const float x = in[threadIdx.x];
  out[threadIdx.x] = expf(x) + logf(x + 10) + tanhf(x) + rsqrtf(x + 10) + sinf(x) + erff(x);
  wide[threadIdx.x] =
      exp(double{x}) + pow(double{x} + 10, 1.5) + log(double{x} + 10) + cos(double{x});
}
BOOST_AUTO_TEST_CASE(functions_of_cuda_are_near_those_of_the_host) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(static_cast<float>(i) * 0.25F - 8);
  const Copy<float> in(values), out(values);
  const Copy<double> wide(std::vector<double>(64));
  functions<<<1, 64>>>(in.data(), out.data(), wide.data());
  const std::vector<float> found = out.get();
  const std::vector<double> found_wide = wide.get();
  for (std::size_t i = 0; i < 64; ++i) {
    const double x = values[i];
    BOOST_TEST(found[i] == std::exp(x) + std::log(x + 10) + std::tanh(x) + 1 / std::sqrt(x + 10) +
                               std::sin(x) + std::erf(x),
               boost::test_tools::tolerance(1e-5));
    BOOST_TEST(
        found_wide[i] == std::exp(x) + std::pow(x + 10, 1.5) + std::log(x + 10) + std::cos(x),
        boost::test_tools::tolerance(1e-14));
  }
}

__global__ void count(int* out) {
  const int odd = __syncthreads_count(threadIdx.x % 2);
  const bool all = __syncthreads_and(threadIdx.x < 80) != 0;
  int sum = static_cast<int>(threadIdx.x);
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, by);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
  if (threadIdx.x == 0) out[1] = odd + (all ? 1000 : 0);
}
BOOST_AUTO_TEST_CASE(threads_count_and_shuffle) {
  const Copy<int> out({0, 0});
  count<<<1, 96>>>(out.data());
  BOOST_TEST(out.get()[0] == 96 * 95 / 2);
  BOOST_TEST(out.get()[1] == 48);
}

BOOST_AUTO_TEST_SUITE_END()
