// Self-test of the parts together: O = (X W) / rms(X) as generated code does it, with cp.async in three stages.
//
// X is [16, 512], W [512, 128]; a block computes 64 columns in 4 steps of 128 along k.
#include "harness.h"

using namespace harness;
using mugraph::half_t;
using cute::Int;
using cute::Layout;
using cute::Shape;
using cute::Stride;

constexpr int kM = 16;
constexpr int kN = 128;
constexpr int kK = 512;
constexpr int kTileN = 64;
constexpr int kTileK = 128;
constexpr int kSteps = kK / kTileK;
constexpr int kStages = 3;
constexpr int kThreads = 128;
constexpr int kXBytes = kM * kTileK * 2;
constexpr int kWBytes = kTileN * kTileK * 2;
constexpr int kSharedBytes = kStages * (kXBytes + kWBytes) + 2 * kM * kTileN * 2 + 128;

// By iteration domain (contiguous dimension first), and as matmul operands (M, K) and (N, K).
using XGlobal = Layout<Shape<Int<kTileK>, Int<kM>>, Stride<Int<1>, Int<kK>>>;
using XTile = Swizzled<3, 3, 4, Layout<Shape<Int<kTileK>, Int<kM>>, Stride<Int<1>, Int<kTileK>>>>;
using XOperand = Swizzled<3, 3, 4, Layout<Shape<Int<kM>, Int<kTileK>>, Stride<Int<kTileK>, Int<1>>>>;
using WGlobal = Layout<Shape<Int<kTileN>, Int<kTileK>>, Stride<Int<1>, Int<kN>>>;
using WTile = Swizzled<3, 3, 3, Layout<Shape<Int<kTileN>, Int<kTileK>>, Stride<Int<1>, Int<kTileN>>>>;
using OTile = Layout<Shape<Int<kTileN>, Int<kM>>, Stride<Int<1>, Int<kTileN>>>;
using OResult = Layout<Shape<Int<kM>, Int<kTileN>>, Stride<Int<kTileN>, Int<1>>>;
using OGlobal = Layout<Shape<Int<kTileN>, Int<kM>>, Stride<Int<1>, Int<kN>>>;
using Norms = Layout<Shape<Int<kM>>, Stride<Int<1>>>;
using NormsAcross = Layout<Shape<Int<kTileN>, Int<kM>>, Stride<Int<0>, Int<1>>>;
using MeanScale = ops::MulScalar<0x3b000000>;  // 1 / 512

__global__ void __launch_bounds__(kThreads, 2) rmsnorm_linear(half_t const* x, half_t const* w, half_t* o) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  half_t* const x_tiles = reinterpret_cast<half_t*>(shared_memory);
  half_t* const w_tiles = reinterpret_cast<half_t*>(shared_memory + kStages * kXBytes);
  half_t* const o_tile = reinterpret_cast<half_t*>(shared_memory + kStages * (kXBytes + kWBytes));
  half_t* const norms = o_tile + 2 * kM * kTileN;
  const int thread = static_cast<int>(threadIdx.x);
  const half_t* const w_block = w + blockIdx.x * kTileN;
  const auto copy = [&](int step, int stage) {
    tb::CopyAsync<kThreads, 8, XTile, XGlobal>::run(x_tiles + stage * kM * kTileK, x + step * kTileK, thread);
    tb::CopyAsync<kThreads, 8, WTile, WGlobal>::run(w_tiles + stage * kTileN * kTileK, w_block + step * kTileK * kN,
                                                    thread);
  };
  using Product = tb::Matmul<1, 4, XOperand, WTile, true, true>;
  using Squares = tb::Elementwise<ops::Square, ops::Chain<MeanScale>, kThreads, 8, XTile, XTile>;
  float acc[Product::kValues];
  float squares[Squares::kValues];
  Product::clear(acc);
  tb::LinearFragment<kThreads, 8, XTile>::clear(squares);
  for (int step = 0; step < kStages - 1; ++step) {
    copy(step, step);
    tb::commit_group();
  }
  tb::Stage<kStages> stage = 0;
  for (int step = 0; step < kSteps; ++step, ++stage) {
    tb::wait_group<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < kSteps) copy(step + kStages - 1, (stage + (kStages - 1)).index());
    tb::commit_group();
    Product::mma(acc, x_tiles + stage.index() * kM * kTileK, w_tiles + stage.index() * kTileN * kTileK, thread);
    Squares::accumulate(squares, thread, x_tiles + stage.index() * kM * kTileK);
  }
  __syncthreads();
  float* const squares_tile = reinterpret_cast<float*>(w_tiles);
  using SquaresTile = Layout<Shape<Int<kTileK>, Int<kM>>, Stride<Int<1>, Int<kTileK>>>;
  tb::LinearFragment<kThreads, 8, SquaresTile>::store<ops::Chain<>>(squares_tile, squares, thread);
  Product::Fragment::store<ops::Chain<>, OResult>(o_tile, acc, thread);
  __syncthreads();
  tb::ReduceSum<ops::Chain<ops::Sqrt>, kThreads, 8, Norms, SquaresTile>::store(norms, squares_tile, thread);
  __syncthreads();
  half_t* const quotient = o_tile + kM * kTileN;
  tb::Elementwise<ops::Div, ops::Chain<>, kThreads, 8, OTile, OTile, NormsAcross>::store(quotient, thread, o_tile,
                                                                                        norms);
  __syncthreads();
  tb::Copy<kThreads, 8, OGlobal, OTile>::run(o + blockIdx.x * kTileN, quotient, thread);
}

int main() {
  using X = Layout<Shape<Int<kM>, Int<kK>>, Stride<Int<kK>, Int<1>>>;
  using W = Layout<Shape<Int<kK>, Int<kN>>, Stride<Int<kN>, Int<1>>>;
  using O = Layout<Shape<Int<kM>, Int<kN>>, Stride<Int<kN>, Int<1>>>;
  const Buffer<half_t> x(offsets_of(X{}), false, 23);
  const Buffer<half_t> w(offsets_of(W{}), false, 29);
  const Buffer<half_t> o(offsets_of(O{}), true, 0);
  std::vector<half_t> first;
  for (int repetition = 0; repetition < 3; ++repetition) {
    mugraph::launch("rmsnorm_linear", rmsnorm_linear, dim3(kN / kTileN), dim3(kThreads), kSharedBytes, cudaStream_t{},
                    x.device, w.device, o.device);
    mugraph::check(cudaDeviceSynchronize(), "running rmsnorm_linear");
    const std::vector<half_t> result = o.fetch();
    if (repetition == 0) first = result;
    report(std::memcmp(first.data(), result.data(), result.size() * sizeof(half_t)) == 0, "rmsnorm_linear",
           "two runs differ");
  }
  const auto expected = [&](int i) {
    const int m = i % kM;
    const int n = i / kM;
    double product = 0.0;
    double squares = 0.0;
    for (int k = 0; k < kK; ++k) {
      product += x.at(m + k * kM) * w.at(k + n * kK);
      squares += x.at(m + k * kM) * x.at(m + k * kM);
    }
    return product / std::sqrt(squares / kK);
  };
  // Three roundings to half_t: the product, the norm and the quotient.
  compare("rmsnorm_linear", o, expected, [&](int i) { return 4.0 * rounding<half_t>(expected(i)) + 1e-3; });
  return finish("pipeline_test");
}
