// A product of matrices plus another one, by cuBLAS. Host only.
//
// D[m, n] = C[m, n] + sum over k of A[m, k] B[k, n], added up in fp32 and rounded once. C may be D.
// Matrices are row-major; B may be column-major. Rows, or columns, may be further apart than they are long: the
// leading dimension of a matrix says how far.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "gemm.h"

namespace mugraph {
namespace kn {

// The bytes of which an address is a multiple, as far as cuBLAS asks.
inline uint32_t alignment_of(void const* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<uint32_t>(std::min<std::uintptr_t>(value & (~value + 1), 256));
}

// The extents of a product, and the leading dimensions of its matrices in elements.
struct GemmAddShape {
  int m, n, k;
  int ldd, lda, ldb, ldc;
  bool b_by_columns;

  auto key() const { return std::make_tuple(m, n, k, ldd, lda, ldb, ldc, b_by_columns); }
};

// How cuBLAS computes products of some extents and alignments, found at the first one of a device and kept.
struct GemmAddPlan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  // cuBLAS's matrices are column-major: D is row-major, so its transpose is computed, B^T A^T.
  GemmAddPlan(cublasLtHandle_t handle, cudaDataType_t type, GemmAddShape const& shape,
              std::array<uint32_t, 4> const& alignments) {
    const int m = shape.m, n = shape.n, k = shape.k;
    check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    check(cublasLtMatrixLayoutCreate(&a, type, k, m, shape.lda), "cublasLtMatrixLayoutCreate");
    if (shape.b_by_columns) {
      const cublasOperation_t turned = CUBLAS_OP_T;
      check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned)),
            "cublasLtMatmulDescSetAttribute");
      check(cublasLtMatrixLayoutCreate(&b, type, k, n, shape.ldb), "cublasLtMatrixLayoutCreate");
    } else {
      check(cublasLtMatrixLayoutCreate(&b, type, n, k, shape.ldb), "cublasLtMatrixLayoutCreate");
    }
    check(cublasLtMatrixLayoutCreate(&c, type, n, m, shape.ldc), "cublasLtMatrixLayoutCreate");
    check(cublasLtMatrixLayoutCreate(&d, type, n, m, shape.ldd), "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    // Of its operands, as it has them, of what is added, and of the result.
    constexpr std::array<cublasLtMatmulPreferenceAttributes_t, 4> kAlignments = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int each = 0; each < 4; ++each) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, kAlignments[each], &alignments[each], sizeof(uint32_t)),
            "cublasLtMatmulPreferenceSetAttribute");
    }
    // Without a workspace: a sum is not split, and calls on several streams share nothing.
    check(cublasLtMatmulAlgoGetHeuristic(handle, product, b, a, c, d, preference, 1, &found, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    check(cublasLtMatmulPreferenceDestroy(preference), "cublasLtMatmulPreferenceDestroy");
    check(count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : found.state, "finding a product of cuBLAS");
    algorithm = found.algo;
  }
};

// Enqueues it on `stream`. Throws std::runtime_error where cuBLAS refuses.
template <class T>
void gemm_add(cudaStream_t stream, T* d, T const* a, T const* b, T const* c, GemmAddShape const& shape) {
  CublasHandles& handles = CublasHandles::get();
  const std::lock_guard<std::mutex> guard(handles.lock);
  // A handle of cuBLAS is one of cuBLASLt.
  const auto handle = reinterpret_cast<cublasLtHandle_t>(handles.current());
  const cudaDataType_t type = CublasType<T>::value;
  int device = 0;
  mugraph::check(cudaGetDevice(&device), "asking for the current device");
  const std::array<uint32_t, 4> alignments = {alignment_of(b), alignment_of(a), alignment_of(c), alignment_of(d)};
  using Key = std::tuple<int, decltype(shape.key()), std::array<uint32_t, 4>>;
  static auto* const plans = new std::map<Key, GemmAddPlan>();
  const Key key{device, shape.key(), alignments};
  auto found = plans->find(key);
  if (found == plans->end()) found = plans->emplace(key, GemmAddPlan(handle, type, shape, alignments)).first;
  const GemmAddPlan& plan = found->second;
  const float one = 1.0F;
  check(cublasLtMatmul(handle, plan.product, &one, b, plan.b, a, plan.a, &one, c, plan.c, d, plan.d, &plan.algorithm,
                       nullptr, 0, stream),
        "cublasLtMatmul");
}

}  // namespace kn
}  // namespace mugraph
