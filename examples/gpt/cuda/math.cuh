// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The Math of a CUDA device: cuBLAS for the products, kernels for the rest. Includes check.hpp and
// kernels.cuh.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "check.hpp"
#include "kernels.cuh"

namespace gpt {

/// Computes on a stream of its own, on the device that is current when it is made.
///
/// Order:   all but download() enqueue; none allocates; all but upload() and download() can be
///          captured into a graph.
class CudaMath {
 public:
  template <class T>
  using Memory = DeviceArray<T>;

  CudaMath() : CudaMath(nullptr) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cublasCreate(&blas_), "cublasCreate");
    check(cublasSetStream(blas_, stream_), "cublasSetStream");
    // Of its own, so that a captured product allocates nothing and equal inputs give equal bits.
    check(cublasSetWorkspace(blas_, workspace_.data(), workspace_.size()), "cublasSetWorkspace");
  }
  CudaMath(const CudaMath&) = delete;
  CudaMath& operator=(const CudaMath&) = delete;
  ~CudaMath() {
    if (blas_ != nullptr) cublasDestroy(blas_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  /// For ModuleOptions::cuda_streams: a module whose units compute on it.
  cudaStream_t stream() const { return stream_; }

  template <class T>
  void copy(T* to, const T* from, Size count) {
    move(to, from, count, cudaMemcpyDeviceToDevice);
  }
  template <class T>
  void upload(T* to, const T* from, Size count) {
    move(to, from, count, cudaMemcpyHostToDevice);
  }
  template <class T>
  void download(T* to, const T* from, Size count) {
    move(to, from, count, cudaMemcpyDeviceToHost);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  template <class T>
  void clear(T* data, Size count) {
    check(cudaMemsetAsync(data, 0, bytes<T>(count), stream_), "cudaMemsetAsync");
  }

  void matmul(const Products& p, float alpha, const Factor<float>& a, const Factor<float>& b,
              float beta, const Product<float>& c) {
    // cuBLAS reads columns where rows are meant: each matrix is its transpose to it, and
    // c^T = b^T a^T.
    const auto op = [](Transpose t) { return t == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    check(p.count == 1
              ? cublasSgemm_64(blas_, op(b.transpose), op(a.transpose), p.n, p.m, p.k, &alpha,
                               b.data, b.stride, a.data, a.stride, &beta, c.data, c.stride)
              : cublasSgemmStridedBatched_64(blas_, op(b.transpose), op(a.transpose), p.n, p.m, p.k,
                                             &alpha, b.data, b.stride, b.next, a.data, a.stride,
                                             a.next, &beta, c.data, c.stride, c.next, p.count),
          "cublasSgemm");
  }

  void embedding_forward(float* out, const float* byte, const float* position,
                         const std::uint8_t* bytes, const EmbeddingShape& s) {
    launch(s.tokens * s.width, kernels::embedding_forward, out, byte, position, bytes, s);
  }
  void embedding_backward(float* d_byte, float* d_position, const float* d_out,
                          const std::uint8_t* bytes, const EmbeddingShape& s) {
    constexpr Size classes = 256;
    launch(classes * s.width, kernels::embedding_byte_backward, d_byte, d_out, bytes, s, classes);
    launch(s.length * s.width, kernels::embedding_position_backward, d_position, d_out, s);
  }

  void layer_norm_forward(float* out, float* mean, float* inverse_deviation, const float* in,
                          const float* gain, Size tokens, Size width) {
    launch(by_warps(tokens), kernels::layer_norm_forward, out, mean, inverse_deviation, in, gain,
           tokens, width);
  }
  void layer_norm_backward(float* d_in, float* d_gain, const float* d_out, const float* in,
                           const float* gain, const float* mean, const float* inverse_deviation,
                           Size tokens, Size width) {
    launch(by_warps(tokens), kernels::layer_norm_backward, d_in, d_out, in, gain, mean,
           inverse_deviation, tokens, width);
    constexpr Size threads_of_a_column = kernels::block_threads / kernels::warp_threads;
    launch(width * threads_of_a_column, kernels::layer_norm_gain_backward, d_gain, d_out, in, mean,
           inverse_deviation, tokens, width);
  }

  void gelu_forward(float* out, const float* in, Size n) {
    launch(n, kernels::gelu_forward, out, in, n);
  }
  void gelu_backward(float* d, const float* in, Size n) {
    launch(n, kernels::gelu_backward, d, in, n);
  }

  void softmax_causal_forward(float* scores, Size matrices, Size length) {
    launch(by_warps(matrices * length), kernels::softmax_causal_forward, scores, matrices, length);
  }
  void softmax_causal_backward(float* d, const float* chances, Size matrices, Size length) {
    launch(by_warps(matrices * length), kernels::softmax_causal_backward, d, chances, matrices,
           length);
  }

  void softmax_cross_entropy(double* sum, float* losses, float* logits, const std::uint8_t* targets,
                             float weight, Size tokens, Size classes) {
    launch(by_warps(tokens), kernels::softmax_cross_entropy, losses, logits, targets,
           weight / static_cast<float>(tokens), tokens, classes);
    launch(1, kernels::add_mean, sum, losses, tokens);
  }

 private:
  /// Holds what there is, should the rest of the construction fail.
  explicit CudaMath(std::nullptr_t) {}

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  template <class T>
  static std::size_t bytes(Size count) {
    return static_cast<std::size_t>(count) * sizeof(T);
  }
  static Size by_warps(Size rows) { return rows * Size{kernels::warp_threads}; }

  template <class T>
  void move(T* to, const T* from, Size count, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes<T>(count), kind, stream_), "cudaMemcpyAsync");
  }

  /// Starts a kernel with at least one block, and as many as `threads` need up to a bound.
  template <class... Parameters>
  void launch(Size threads, void (*kernel)(Parameters...),
              const std::type_identity_t<Parameters>&... arguments) {
    constexpr Size block = kernels::block_threads, most_blocks = 4096;
    const Size blocks = std::clamp<Size>((threads + block - 1) / block, 1, most_blocks);
    kernel<<<static_cast<unsigned>(blocks), kernels::block_threads, 0, stream_>>>(arguments...);
    check(cudaGetLastError(), "launching a kernel");
  }

  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  DeviceArray<std::byte> workspace_{workspace_bytes};
};

}  // namespace gpt
