// A tensor of more than 2³¹ elements: offsets into it are computed in 64 bits, into others in 32.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile -t cuda %s | filecheck %s
// A tile of more than 2³² elements from its first to its last one would wrap.
// RUN: sed -e 's/512x8388608/4096x8388608/g' -e 's/128x64/1024x64/g' %s > %t.mlir
// RUN: not mg-opt --plan="tiles=written loads=cp_async" --transpile -t cuda %t.mlir 2>&1 | filecheck %s --check-prefix TILE
// TILE: mg-opt: {{.*}}:{{[0-9]+}}:5: error: 'sched.local_tile' %dx_tile spans {{.*}} elements of %dx; inside a tile offsets have 32 bits, at most 4294967296: choose smaller tiles

// CHECK: auto* const dx_tile = dx + static_cast<int64_t>(blockIdx.x) * 1073741824;
// CHECK: auto* const dy_tile = dy + blockIdx.x * 64;
// CHECK: dx_tile + {{.*}}static_cast<int64_t>(it{{.*}} * 64, thread);
func.func @large(%x: tensor<512x8388608xf16>, %y: tensor<64x256xf16>) -> tensor<4x1xf16> {
  %o = kn.customized %x, %y grid [4, 1, 1] block [128, 1, 1] forloop 131072 {
  ^bb0(%dx: tensor<512x8388608xf16>, %dy: tensor<64x256xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<512x8388608xf16> -> !tb.stensor<128x64xf16>
    %sy = tb.input %dy imap [1, -1, -1] : tensor<64x256xf16> -> !tb.stensor<64x64xf16>
    %p = tb.reduction %sx dim 0 : !tb.stensor<128x64xf16> -> !tb.stensor<1x64xf16>
    %q = tb.reduction %sy dim 0 : !tb.stensor<64x64xf16> -> !tb.stensor<1x64xf16>
    %s = tb.mul %p, %q : (!tb.stensor<1x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<1x64xf16>
    %r = tb.reduction %s dim 1 then [accum] : !tb.stensor<1x64xf16> -> !tb.stensor<1x1xf16>
    tb.output %r omap [0, -1, -1] : !tb.stensor<1x1xf16> -> tensor<4x1xf16>
  } : (tensor<512x8388608xf16>, tensor<64x256xf16>) -> tensor<4x1xf16>
  func.return %o : tensor<4x1xf16>
}
