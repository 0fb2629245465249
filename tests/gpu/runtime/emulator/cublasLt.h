// Stands in for the part of cuBLASLt that kn::gemm_add calls when kernels are emulated on the CPU.
#pragma once

#include "cublas_v2.h"

struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;
struct EmulatedLtMatrix {
  cudaDataType_t type;
  int rows;
  int columns;
  long long leading;
};
using cublasLtMatrixLayout_t = EmulatedLtMatrix*;
using cublasLtMatmulDesc_t = cublasOperation_t*;
using cublasLtMatmulPreference_t = int*;
struct cublasLtMatmulAlgo_t {};
enum cublasLtMatmulDescAttributes_t { CUBLASLT_MATMUL_DESC_TRANSA = 3 };
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  cublasStatus_t state;
};

inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t, cudaDataType_t) {
  *product = new cublasOperation_t(CUBLAS_OP_N);
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t,
                                                     void const* operation, size_t) {
  *product = *static_cast<cublasOperation_t const*>(operation);
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matrix, cudaDataType_t type, int rows,
                                                 int columns, long long leading) {
  if (leading < rows) return CUBLAS_STATUS_INVALID_VALUE;
  *matrix = new EmulatedLtMatrix{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new int(0);
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t, void const*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                                     cublasLtMatmulHeuristicResult_t* found, int* count) {
  *found = {{}, CUBLAS_STATUS_SUCCESS};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// Column-major, as cuBLAS: D = A B + C, or of A transposed. alpha and beta must be 1.
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, void const* alpha, void const* a,
                                     cublasLtMatrixLayout_t a_matrix, void const* b, cublasLtMatrixLayout_t b_matrix,
                                     void const* beta, void const* c, cublasLtMatrixLayout_t c_matrix, void* d,
                                     cublasLtMatrixLayout_t d_matrix, cublasLtMatmulAlgo_t const*, void*, size_t,
                                     cudaStream_t) {
  const bool turned = *product == CUBLAS_OP_T;
  const int rows = turned ? a_matrix->columns : a_matrix->rows;
  const int depth = turned ? a_matrix->rows : a_matrix->columns;
  const bool fits = rows == d_matrix->rows && depth == b_matrix->rows &&
                    b_matrix->columns == d_matrix->columns && c_matrix->rows == d_matrix->rows &&
                    c_matrix->columns == d_matrix->columns;
  if (!fits || *static_cast<float const*>(alpha) != 1.0F || *static_cast<float const*>(beta) != 1.0F) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (int column = 0; column < d_matrix->columns; ++column) {
    for (int row = 0; row < d_matrix->rows; ++row) {
      const long long index = row + column * d_matrix->leading;
      double sum = emulator::gemm_element(c, c_matrix->type, row + column * c_matrix->leading);
      for (int k = 0; k < depth; ++k) {
        const long long place = turned ? k + row * a_matrix->leading : row + k * a_matrix->leading;
        sum += emulator::gemm_element(a, a_matrix->type, place) *
               emulator::gemm_element(b, b_matrix->type, k + column * b_matrix->leading);
      }
      if (d_matrix->type == CUDA_R_16F) {
        static_cast<__half*>(d)[index] = __float2half_rn(static_cast<float>(sum));
      } else if (d_matrix->type == CUDA_R_16BF) {
        static_cast<cutlass::bfloat16_t*>(d)[index] = cutlass::bfloat16_t(static_cast<float>(sum));
      } else {
        return CUBLAS_STATUS_INVALID_VALUE;
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
