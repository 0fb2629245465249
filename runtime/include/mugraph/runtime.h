// The mugraph runtime: what generated CUDA files include.
//
// A generated file says
//     #include "runtime.h"
//     using namespace cute;
// and is compiled with this folder and CUTLASS's `include` on the include path, as C++17, for sm_80 or newer.
// Everything is in namespace mugraph; `kn` (whole-GPU operations called from the host), `tb` (operations of one
// thread block, called from inside a kernel) and `ops` (scalar functions) are visible at global scope as well.
//
// The headers take every policy as a template parameter, allocate nothing and choose nothing that changes a result.
// Layouts are static CuTe layouts of ELEMENT offsets: Layout<Shape, Stride>, or ComposedLayout<Swizzle<B, M, S>,
// Int<offset>, Layout<Shape, Stride>>. Linear indices are CuTe's: mode 0 runs fastest.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cstdint>
#include <vector>
#endif

#include "arch/async_copy.h"
#include "arch/grid_dependency.h"
#include "arch/prefetch.h"
#include "arch/tensor_core.h"
#include "arch/thread.h"
#include "atoms.h"
#include "layout.h"
#include "numbers.h"
#include "ops.h"
#include "ragged.h"
#include "tb/copy.h"
#include "tb/copy_through.h"
#include "tb/copy_shifted.h"
#include "tb/copy_row.h"
#include "tb/copy_within.h"
#include "tb/elementwise.h"
#include "tb/fill.h"
#include "tb/linear_fragment.h"
#include "tb/mask.h"
#include "tb/matmul.h"
#include "tb/mma_fragment.h"
#include "tb/placed_row.h"
#include "tb/quad_store.h"
#include "tb/raster.h"
#include "tb/reduce_sum.h"
#include "tb/registers.h"
#include "tb/rows.h"
#include "tb/register_matmul.h"
#include "tb/row_fragment.h"
#include "tb/scalar_matmul.h"
#include "tb/stage.h"
#include "tb/sum_parts.h"
#include "tb/line_matmul.h"
#include "tb/swapped_matmul.h"
#include "tb/warpgroup_matmul.h"
#include "vector_access.h"

#if !defined(__CUDACC_RTC__)
#include "check.h"
#include "kn/arg_max.h"
#include "kn/copy.h"
#include "kn/elementwise.h"
#include "kn/extent.h"
#include "kn/gather.h"
#include "kn/groups.h"
#include "kn/mask.h"
#include "kn/random.h"
#include "kn/reduce.h"
#include "kn/rms_norm.h"
#include "kn/scan.h"
#include "kn/scatter.h"
#include "kn/top_k.h"
#include "launch.h"
#if __has_include(<cublas_v2.h>)
#include "kn/gemm.h"
#endif
#if __has_include(<cublasLt.h>)
#include "kn/gemm_add.h"
#endif
#endif

namespace mugraph {
namespace kn {}
}  // namespace mugraph

namespace kn = mugraph::kn;
namespace tb = mugraph::tb;
namespace ops = mugraph::ops;
namespace atoms = mugraph::atoms;
