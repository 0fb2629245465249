// Stands in for the part of cuBLAS that kn::gemm calls when kernels are emulated on the CPU.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include <cutlass/bfloat16.h>

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t { CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32I = 72, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
struct cublasContext {
  cudaStream_t stream;
  bool has_workspace;
};
using cublasHandle_t = cublasContext*;

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext{};
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  handle->has_workspace = true;  // its own
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, size_t bytes) {
  handle->has_workspace = bytes > 0;
  return CUBLAS_STATUS_SUCCESS;
}

inline char const* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "the operation completed successfully" : "an invalid value was passed";
}

namespace emulator {

inline double gemm_element(void const* matrix, cudaDataType_t type, long long index) {
  if (type == CUDA_R_16F) return static_cast<double>(__half2float(static_cast<__half const*>(matrix)[index]));
  if (type == CUDA_R_16BF) return static_cast<double>(static_cast<cutlass::bfloat16_t const*>(matrix)[index]);
  if (type == CUDA_R_8I) return static_cast<int8_t const*>(matrix)[index];
  if (type == CUDA_R_32I) return static_cast<int32_t const*>(matrix)[index];
  return static_cast<double>(static_cast<float const*>(matrix)[index]);
}

// With 10 bits of mantissa, ties away from zero.
inline double tf32(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
}

}  // namespace emulator

// Column-major, as cuBLAS: op(A) is m x k, op(B) is k x n, C is m x n. alpha must be 1 and beta 0.  Some products fail
// without a workspace, as cuBLAS's may: here those of an odd k.
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                                 int n, int k, void const* alpha, void const* a, cudaDataType_t a_type,
                                                 int lda, long long a_batch, void const* b, cudaDataType_t b_type,
                                                 int ldb, long long b_batch, void const* beta, void* c,
                                                 cudaDataType_t c_type, int ldc, long long c_batch, int batch,
                                                 cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool is_integer = compute == CUBLAS_COMPUTE_32I;
  const bool is_tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const cudaDataType_t scale_type = compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F : is_integer ? CUDA_R_32I : CUDA_R_32F;
  const bool fits = lda >= (op_a == CUBLAS_OP_N ? m : k) && ldb >= (op_b == CUBLAS_OP_N ? k : n) && ldc >= m;
  const bool is_aligned = !is_integer || (lda % 4 == 0 && ldb % 4 == 0);
  if (!fits || !is_aligned || emulator::gemm_element(alpha, scale_type, 0) != 1.0 ||
      emulator::gemm_element(beta, scale_type, 0) != 0.0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!handle->has_workspace && k % 2 == 1) return CUBLAS_STATUS_ALLOC_FAILED;
  for (int i = 0; i < batch; ++i) {
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        double sum = 0.0;
        for (int p = 0; p < k; ++p) {
          const long long a_index = i * a_batch + (op_a == CUBLAS_OP_N ? row + 1LL * p * lda : p + 1LL * row * lda);
          const long long b_index =
              i * b_batch + (op_b == CUBLAS_OP_N ? p + 1LL * column * ldb : column + 1LL * p * ldb);
          const double one = emulator::gemm_element(a, a_type, a_index);
          const double other = emulator::gemm_element(b, b_type, b_index);
          sum += is_tf32 ? emulator::tf32(one) * emulator::tf32(other) : one * other;
        }
        const long long c_index = i * c_batch + row + 1LL * column * ldc;
        if (c_type == CUDA_R_16F) {
          static_cast<__half*>(c)[c_index] = __float2half_rn(static_cast<float>(sum));
        } else if (c_type == CUDA_R_16BF) {
          static_cast<cutlass::bfloat16_t*>(c)[c_index] = cutlass::bfloat16_t(static_cast<float>(sum));
        } else if (c_type == CUDA_R_32I) {
          static_cast<int32_t*>(c)[c_index] = static_cast<int32_t>(static_cast<int64_t>(sum));
        } else {
          static_cast<float*>(c)[c_index] = static_cast<float>(sum);
        }
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
