// RUN: mg-opt --resolve-layout --explain-swizzle %s 2>&1 >/dev/null | filecheck %s
// RUN: mg-opt --resolve-layout --lower-threadblock --pipeline-loads --explain-swizzle %s 2>&1 >/dev/null | filecheck %s --check-prefix EXACT
// Nothing changes.
// RUN: mg-opt --resolve-layout --explain-swizzle %s 2>/dev/null | filecheck %s --check-prefix SAME
// SAME: -> !tb.stensor<32x48xf16, (32,48):(48,1)>

// Declared by the operators, the product's tile is read along rows of 16 bytes.
// CHECK-LABEL: %w 32x48xf16: S<1,3,3> o (32,48):(48,1), ideal: no layout needs fewer wavefronts
// CHECK-NEXT:   access  along dimension 1 by 8, 6 warp instructions
// CHECK-NEXT:   access  along dimension 0 by 8, 6 warp instructions
// CHECK-NEXT:   as it was {{ +}}72 wavefronts     3072 bytes  (32,48):(48,1)
// Rows of 7 chunks suit the product, but not the copy, whose threads go on from row to row.
// CHECK:        none {{ +}}72 wavefronts
// CHECK:        xor, best {{ +}}48 wavefronts     3072 bytes  S<1,3,3> o (32,48):(48,1)
// CHECK:        chosen {{ +}}48 wavefronts
// CHECK-NEXT:   ideal {{ +}}48 wavefronts

// Scheduled, the copy in and ldmatrix are counted as they run.
// EXACT-LABEL: %w 32x48xf16: S<1,3,3> o (32,48):(48,1), ideal: no layout needs fewer wavefronts
// EXACT-NEXT:   access  sched.copy cp.async.16, {{[0-9]+}} warp instructions
// EXACT-NEXT:   access  sched.mma ldmatrix.x4.trans, {{[0-9]+}} warp instructions
func.func @product(%x: tensor<16x32xf16>, %y: tensor<32x48xf16>) -> tensor<16x48xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x32xf16>, %dy: tensor<32x48xf16>):
    %v = tb.input %dx imap [-1, -1, -1] : tensor<16x32xf16> -> !tb.stensor<16x32xf16>
    %w = tb.input %dy imap [-1, -1, -1] : tensor<32x48xf16> -> !tb.stensor<32x48xf16>
    %m = tb.matmul %v, %w then [accum] : (!tb.stensor<16x32xf16>, !tb.stensor<32x48xf16>) -> !tb.stensor<16x48xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<16x48xf16> -> tensor<16x48xf16>
  } : (tensor<16x32xf16>, tensor<32x48xf16>) -> tensor<16x48xf16>
  func.return %o : tensor<16x48xf16>
}
