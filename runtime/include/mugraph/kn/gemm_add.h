// A product of row-major matrices plus another one, by cuBLAS. Host only.
//
// D[m, n] = C[m, n] + sum over k of A[m, k] B[k, n], added up in fp32 and rounded once. C may be D.
#pragma once

#include <cublasLt.h>

#include <map>
#include <tuple>

#include "gemm.h"

namespace mugraph {
namespace kn {

// How cuBLAS computes products of some extents, found at the first one of a device and kept.
struct GemmAddPlan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  // cuBLAS's matrices are column-major: D is row-major, so its transpose is computed, B^T A^T.
  GemmAddPlan(cublasLtHandle_t handle, cudaDataType_t type, int m, int n, int k) {
    check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    check(cublasLtMatrixLayoutCreate(&a, type, k, m, k), "cublasLtMatrixLayoutCreate");
    check(cublasLtMatrixLayoutCreate(&b, type, n, k, n), "cublasLtMatrixLayoutCreate");
    check(cublasLtMatrixLayoutCreate(&c, type, n, m, n), "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    // Without a workspace: a sum is not split, and calls on several streams share nothing.
    check(cublasLtMatmulAlgoGetHeuristic(handle, product, b, a, c, c, preference, 1, &found, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    check(cublasLtMatmulPreferenceDestroy(preference), "cublasLtMatmulPreferenceDestroy");
    check(count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : found.state, "finding a product of cuBLAS");
    algorithm = found.algo;
  }
};

// Enqueues it on `stream`. Throws std::runtime_error where cuBLAS refuses.
template <class T>
void gemm_add(cudaStream_t stream, T* d, T const* a, T const* b, T const* c, int m, int n, int k) {
  CublasHandles& handles = CublasHandles::get();
  const std::lock_guard<std::mutex> guard(handles.lock);
  // A handle of cuBLAS is one of cuBLASLt.
  const auto handle = reinterpret_cast<cublasLtHandle_t>(handles.current());
  const cudaDataType_t type = CublasType<T>::value;
  int device = 0;
  mugraph::check(cudaGetDevice(&device), "asking for the current device");
  static auto* const plans = new std::map<std::tuple<int, int, int, int>, GemmAddPlan>();
  const auto key = std::make_tuple(device, m, n, k);
  auto found = plans->find(key);
  if (found == plans->end()) found = plans->emplace(key, GemmAddPlan(handle, type, m, n, k)).first;
  const GemmAddPlan& plan = found->second;
  const float one = 1.0F;
  check(cublasLtMatmul(handle, plan.product, &one, b, plan.b, a, plan.a, &one, c, plan.c, d, plan.c, &plan.algorithm,
                       nullptr, 0, stream),
        "cublasLtMatmul");
}

}  // namespace kn
}  // namespace mugraph
