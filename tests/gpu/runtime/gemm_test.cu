// Self-test of kn::gemm: every combination of contiguous dimensions, extents of 1, padded leading dimensions, batches.
#include "harness.h"

#if !__has_include(<cublas_v2.h>)
#error "this test needs cuBLAS's headers"
#endif

using namespace harness;
using mugraph::half_t;

struct Strides {
  int row;
  int column;
  int batch;
};

// The strides of a batch of row- or column-major matrices whose lines are padded by `padding` elements.
Strides strides_of(bool row_major, int rows, int columns, int padding) {
  if (row_major) return {columns + padding, 1, rows * (columns + padding) + 3};
  return {1, rows + padding, columns * (rows + padding) + 3};
}

template <class T>
struct DeviceArray {
  std::vector<T> host;
  T* device = nullptr;
  DeviceArray(int count, uint32_t seed) : host(count) {
    Random random(seed);
    for (T& value : host) value = seed == 0 ? poison<T>() : T(static_cast<float>(random.next()));
    mugraph::check(cudaMalloc(&device, count * sizeof(T)), "allocating a matrix");
    mugraph::check(cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice), "filling a matrix");
  }
  ~DeviceArray() { static_cast<void>(cudaFree(device)); }
};

template <cublasComputeType_t kCompute, class T>
void test(int m, int n, int k, int batch, bool a_row, bool b_row, bool c_row, int padding) {
  const Strides sa = strides_of(a_row, m, k, padding);
  const Strides sb = strides_of(b_row, k, n, padding);
  const Strides sc = strides_of(c_row, m, n, padding);
  const DeviceArray<T> a(sa.batch * batch, 3);
  const DeviceArray<T> b(sb.batch * batch, 5);
  DeviceArray<T> c(sc.batch * batch, 0);
  kn::gemm<kCompute>(cudaStream_t{}, c.device, static_cast<T const*>(a.device), static_cast<T const*>(b.device), m, n,
                     k, sa.row, sa.column, sb.row, sb.column, sc.row, sc.column, batch, sa.batch, sb.batch, sc.batch);
  mugraph::check(cudaDeviceSynchronize(), "kn::gemm");
  std::vector<T> result(c.host.size());
  mugraph::check(cudaMemcpy(result.data(), c.device, result.size() * sizeof(T), cudaMemcpyDeviceToHost), "reading C");
  std::vector<bool> is_element(result.size(), false);
  bool is_right = true;
  for (int i = 0; i < batch; ++i) {
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        double expected = 0.0;
        double magnitude = 0.0;
        for (int p = 0; p < k; ++p) {
          const double x = static_cast<double>(static_cast<float>(a.host[i * sa.batch + row * sa.row + p * sa.column]));
          const double y =
              static_cast<double>(static_cast<float>(b.host[i * sb.batch + p * sb.row + column * sb.column]));
          expected += x * y;
          magnitude += std::fabs(x * y);
        }
        const int offset = i * sc.batch + row * sc.row + column * sc.column;
        is_element[offset] = true;
        const double value = static_cast<double>(static_cast<float>(result[offset]));
        const double step = kCompute == CUBLAS_COMPUTE_16F ? rounding<half_t>(magnitude) : rounding<float>(magnitude);
        is_right = is_right && std::fabs(value - expected) <= rounding<T>(expected) * 1.01 + (k + 4) * step;
      }
    }
  }
  char name[128];
  std::snprintf(name, sizeof(name), "gemm %dx%dx%d, batch %d, %s %s %s, padding %d", m, n, k, batch,
                a_row ? "row" : "column", b_row ? "row" : "column", c_row ? "row" : "column", padding);
  report(is_right, name, "an element of C is wrong");
  bool is_untouched = true;
  for (std::size_t offset = 0; offset < result.size(); ++offset) {
    is_untouched = is_untouched && (is_element[offset] || same_bits(result[offset], c.host[offset]));
  }
  report(is_untouched, name, "memory between the elements of C was written");
}

void test_refusal() {
  half_t* none = nullptr;
  bool refused = false;
  try {
    kn::gemm<CUBLAS_COMPUTE_32F>(cudaStream_t{}, none, static_cast<half_t const*>(none),
                                 static_cast<half_t const*>(none), 4, 4, 4, 8, 2, 4, 1, 4, 1, 1, 0, 0, 0);
  } catch (std::runtime_error const& error) {
    refused = std::string(error.what()).find("operand A (4 x 4, strides 8 and 2)") != std::string::npos ||
              std::string(error.what()).find("operand A (4 x 4, strides 2 and 8)") != std::string::npos;
  }
  report(refused, "gemm", "a matrix without a contiguous dimension is not refused in words");
}

int main() {
  for (int majors = 0; majors < 8; ++majors) {
    const bool a_row = majors & 1;
    const bool b_row = majors & 2;
    const bool c_row = majors & 4;
    test<CUBLAS_COMPUTE_16F, half_t>(6, 4, 9, 3, a_row, b_row, c_row, 7);
    test<CUBLAS_COMPUTE_32F, half_t>(40, 24, 33, 2, a_row, b_row, c_row, 0);
    test<CUBLAS_COMPUTE_32F, float>(7, 5, 3, 1, a_row, b_row, c_row, 2);
    test<CUBLAS_COMPUTE_32F, half_t>(1, 16, 8, 2, a_row, b_row, c_row, 0);
    test<CUBLAS_COMPUTE_32F, half_t>(16, 1, 8, 2, a_row, b_row, c_row, 4);
    test<CUBLAS_COMPUTE_32F, half_t>(8, 8, 1, 1, a_row, b_row, c_row, 0);
  }
  test_refusal();
  return finish("gemm_test");
}
