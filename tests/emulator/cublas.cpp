// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// cuBLAS as far as the examples call it: plain products, which are work of a stream like a kernel.
#include <cublas_v2.h>

#include "emulator.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace emulator {
namespace {

/// A matrix by columns, or its transpose, in device memory.
struct Operand {
  const float* data;
  std::int64_t stride;
  bool transposed;
  float at(std::int64_t row, std::int64_t column) const {
    return host_view(data)[transposed ? row * stride + column : column * stride + row];
  }
};

/// c = alpha * a * b + beta * c, each sum in the order of k. What c held is not read if beta is 0.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a,
              const Operand& b, float beta, float* c, std::int64_t stride) {
  for (std::int64_t column = 0; column < n; ++column) {
    for (std::int64_t row = 0; row < m; ++row) {
      float sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += a.at(row, i) * b.at(i, column);
      float& out = host_view(c)[column * stride + row];
      out = beta == 0 ? alpha * sum : alpha * sum + beta * out;
    }
  }
}

}  // namespace
}  // namespace emulator

using emulator::Operand;

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "a failure";
}

cublasStatus_t cublasSgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                            cublasOperation_t transb, std::int64_t m,
                                            std::int64_t n, std::int64_t k, const float* alpha,
                                            const float* a, std::int64_t lda, long long next_a,
                                            const float* b, std::int64_t ldb, long long next_b,
                                            const float* beta, float* c, std::int64_t ldc,
                                            long long next_c, std::int64_t count) {
  const auto work = [=, alpha = *alpha, beta = *beta] {
    for (std::int64_t i = 0; i < count; ++i) {
      emulator::multiply(m, n, k, alpha, {a + i * next_a, lda, transa != CUBLAS_OP_N},
                         {b + i * next_b, ldb, transb != CUBLAS_OP_N}, beta, c + i * next_c, ldc);
    }
  };
  return emulator::enqueue(handle->stream, "cublasSgemm", work) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t transa,
                                 cublasOperation_t transb, std::int64_t m, std::int64_t n,
                                 std::int64_t k, const float* alpha, const float* a,
                                 std::int64_t lda, const float* b, std::int64_t ldb,
                                 const float* beta, float* c, std::int64_t ldc) {
  return cublasSgemmStridedBatched_64(handle, transa, transb, m, n, k, alpha, a, lda, 0, b, ldb, 0,
                                      beta, c, ldc, 0, 1);
}
}
