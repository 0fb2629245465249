// Batched matrix products of whole tensors, by cuBLAS. Host only.
//
// C[b, m, n] = sum over k of A[b, m, k] B[b, k, n], each operand given by the strides of its dimensions in elements.
// One of the last two dimensions of each operand must be contiguous. `Compute` says what products are added up in:
// CUBLAS_COMPUTE_16F in fp16, CUBLAS_COMPUTE_32F in fp32, CUBLAS_COMPUTE_32F_FAST_TF32 in fp32 of operands rounded to
// TF32; results are rounded to T. CUBLAS_COMPUTE_32I adds products of int8_t up into int32_t.
#pragma once

#include <cublas_v2.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "../arch/cute.h"
#include "../check.h"

namespace mugraph {
namespace kn {

inline void check(cublasStatus_t status, char const* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("mugraph: ") + what + " failed: " + cublasGetStatusString(status) + ".");
}

template <class T>
struct CublasType;
template <>
struct CublasType<cutlass::half_t> {
  static constexpr cudaDataType_t value = CUDA_R_16F;
};
template <>
struct CublasType<cutlass::bfloat16_t> {
  static constexpr cudaDataType_t value = CUDA_R_16BF;
};
template <>
struct CublasType<float> {
  static constexpr cudaDataType_t value = CUDA_R_32F;
};
template <>
struct CublasType<int8_t> {
  static constexpr cudaDataType_t value = CUDA_R_8I;
};
template <>
struct CublasType<int32_t> {
  static constexpr cudaDataType_t value = CUDA_R_32I;
};

// One handle a device, made at its first use and kept until the process ends (its device memory goes with the
// context). A handle serves one host thread at a time: hold the lock while using it.
struct CublasHandles {
  std::mutex lock;
  std::map<int, cublasHandle_t> by_device;

  static CublasHandles& get() {
    static CublasHandles* const handles = new CublasHandles();
    return *handles;
  }

  cublasHandle_t current() {
    int device = 0;
    mugraph::check(cudaGetDevice(&device), "asking for the current device");
    const auto found = by_device.find(device);
    if (found != by_device.end()) return found->second;
    cublasHandle_t handle = nullptr;
    check(cublasCreate(&handle), "making a cuBLAS handle");
    by_device.emplace(device, handle);
    return handle;
  }
};

// A matrix as cuBLAS sees it: column-major with a leading dimension, perhaps transposed.
struct ColumnMajor {
  cublasOperation_t operation;
  int leading;
};

// The matrix of `rows` x `columns` with these strides. Throws where neither dimension is contiguous.
inline ColumnMajor column_major(char const* name, int rows, int columns, int row_stride, int column_stride) {
  // A dimension of extent 1 may have any stride, so it never decides.
  const bool rows_contiguous = row_stride == 1 || rows == 1;
  const bool columns_contiguous = column_stride == 1 || columns == 1;
  const int column_leading = columns == 1 ? std::max(rows, column_stride) : column_stride;
  const int row_leading = rows == 1 ? std::max(columns, row_stride) : row_stride;
  if (rows_contiguous && column_leading >= std::max(rows, 1)) return {CUBLAS_OP_N, column_leading};
  if (columns_contiguous && row_leading >= std::max(columns, 1)) return {CUBLAS_OP_T, row_leading};
  throw std::runtime_error(std::string("mugraph: kn::gemm cannot pass operand ") + name + " (" + std::to_string(rows) +
                           " x " + std::to_string(columns) + ", strides " + std::to_string(row_stride) + " and " +
                           std::to_string(column_stride) +
                           ") to cuBLAS: one of its last two dimensions must have stride 1, and the other a stride "
                           "of at least that dimension's extent.");
}

// Of products that cuBLAS computes without a workspace.
constexpr int kFewestRowsAlone = 65;

// Enqueues the product on `stream`, with the cuBLAS handle of the current device. Strides and batch strides count
// elements. Throws std::runtime_error where cuBLAS or the layout refuses.
template <cublasComputeType_t Compute, class D, class T>
void gemm(cudaStream_t stream, D* c, T const* a, T const* b, int m, int n, int k, int a_stride_m, int a_stride_k,
          int b_stride_k, int b_stride_n, int c_stride_m, int c_stride_n, int batch, long long a_batch,
          long long b_batch, long long c_batch) {
  static_assert(Compute == CUBLAS_COMPUTE_16F || Compute == CUBLAS_COMPUTE_32F ||
                    Compute == CUBLAS_COMPUTE_32F_FAST_TF32 || Compute == CUBLAS_COMPUTE_32I,
                "kn::gemm computes in CUBLAS_COMPUTE_16F, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 or "
                "CUBLAS_COMPUTE_32I");
  using Scale = std::conditional_t<Compute == CUBLAS_COMPUTE_16F, cutlass::half_t,
                                   std::conditional_t<Compute == CUBLAS_COMPUTE_32I, int32_t, float>>;
  const Scale alpha(1);
  const Scale beta(0);
  const ColumnMajor c_matrix = column_major("C", m, n, c_stride_m, c_stride_n);
  CublasHandles& handles = CublasHandles::get();
  const std::lock_guard<std::mutex> guard(handles.lock);
  cublasHandle_t handle = handles.current();
  check(cublasSetStream(handle, stream), "setting the stream of cuBLAS");  // and its own workspace
  // Of kernels that need no workspace cuBLAS chooses faster ones: 141 products of 65 to 8192 rows in 16 bits took 0.98
  // of their time on an H200 in the geometric mean, 0.82 to 1.12 (benchmarks/results/library_products_h200.md).
  constexpr bool kIsMeasured = Compute == CUBLAS_COMPUTE_32F && sizeof(T) == 2 && sizeof(D) == 2;
  const bool is_alone = kIsMeasured && batch == 1 && m >= kFewestRowsAlone &&
                        cublasSetWorkspace(handle, nullptr, 0) == CUBLAS_STATUS_SUCCESS;
  const cudaDataType_t type = CublasType<T>::value;
  const cudaDataType_t c_type = CublasType<D>::value;
  const auto multiply = [&] {
    if (c_matrix.operation == CUBLAS_OP_N) {
      const ColumnMajor a_matrix = column_major("A", m, k, a_stride_m, a_stride_k);
      const ColumnMajor b_matrix = column_major("B", k, n, b_stride_k, b_stride_n);
      return cublasGemmStridedBatchedEx(handle, a_matrix.operation, b_matrix.operation, m, n, k, &alpha, a, type,
                                        a_matrix.leading, a_batch, b, type, b_matrix.leading, b_batch, &beta, c, c_type,
                                        c_matrix.leading, c_batch, batch, Compute, CUBLAS_GEMM_DEFAULT);
    }
    // cuBLAS writes column-major results only: C is row-major, so compute its transpose, B^T A^T.
    const ColumnMajor a_matrix = column_major("A", k, m, a_stride_k, a_stride_m);
    const ColumnMajor b_matrix = column_major("B", n, k, b_stride_n, b_stride_k);
    return cublasGemmStridedBatchedEx(handle, b_matrix.operation, a_matrix.operation, n, m, k, &alpha, b, type,
                                      b_matrix.leading, b_batch, a, type, a_matrix.leading, a_batch, &beta, c, c_type,
                                      c_matrix.leading, c_batch, batch, Compute, CUBLAS_GEMM_DEFAULT);
  };
  cublasStatus_t status = multiply();
  if (status != CUBLAS_STATUS_SUCCESS && is_alone) {
    // Some products may fail without a workspace, CUBLAS_STATUS_ALLOC_FAILED: they get cuBLAS's own again.
    check(cublasSetStream(handle, stream), "setting the stream of cuBLAS");
    status = multiply();
  }
  check(status, "cublasGemmStridedBatchedEx");
}

}  // namespace kn
}  // namespace mugraph
