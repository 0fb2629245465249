// RUN: mg-opt %s --te-cut-grid | filecheck %s
// RUN: mg-opt %s --te-cut-grid -t cuda | filecheck %s --check-prefix CUDA
// RUN: sed 's/- .thread - 1 >= 0/- %%thread >= 0/' %s | mg-opt --te-cut-grid | filecheck %s --check-prefix KEPT

// Blocks behind the rows and columns of a call have nothing to do, and are not launched.
//
// CHECK: te.kernel "double" %block = 40 grid [8, 5, 1] cut [0, 3, 32, 1, 2, 1] smem 0
// CHECK: te.if %n - %block mod 8 * 32 - 1 >= 0, %m - %block floordiv 8 - 1 >= 0 {
// CHECK-NEXT: te.step "double"
//
// CUDA: int const block = static_cast<int>(blockIdx.x + 8 * blockIdx.y);
// CUDA: y[(block / 8) * n + block % 8 * 32 + thread]
// CUDA: if (extent_m == 0 || extent_n == 0) return;
// CUDA: dim3((n + 31) / 32, m, 1)
//
// A condition that lets one more element through keeps a block more along x.
// KEPT: te.kernel "double" %block = 40 grid [8, 5, 1] cut [1, 2, 1] smem 0
func.func @double(%x: !te.buffer<5x256xf32> {mugraph.extent = ["m", "n"]}, %y: !te.buffer<5x256xf32> {te.result, mugraph.extent = ["m", "n"]}, %m: index {mugraph.extent = "m"}, %n: index {mugraph.extent = "n"}) attributes {kn.workspace_bytes = 0 : i64, mugraph.extents = {m = {largest = 5}, n = {largest = 256}}} {
  te.kernel "double" %block = 40 smem 0 {
    te.threads %thread = 32 {
      te.step "double" {
        te.if %m - %block floordiv 8 - 1 >= 0, %n - %block mod 8 * 32 - %thread - 1 >= 0 {
          %a = te.view %x[%block floordiv 8, %block mod 8 * 32 + %thread] : !te.buffer<5x256xf32>
          %b = arith.addf %a, %a : f32
          te.bind %b, %y[%block floordiv 8, %block mod 8 * 32 + %thread] : !te.buffer<5x256xf32>
        }
      }
    }
  }
  func.return
}
