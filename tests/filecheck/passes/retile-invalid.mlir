// RUN: not mg-opt --plan="grid=2,2" --retile %s 2>&1 | filecheck %s --check-prefix=AXIS
// RUN: not mg-opt --plan="tile=8,32 kernel=0" --retile %s 2>&1 | filecheck %s --check-prefix=TILE
// RUN: not mg-opt --plan="grid=2,2 along=-1,1 kernel=1" --retile %s 2>&1 | filecheck %s --check-prefix=SUMMED
// RUN: not mg-opt --plan="grid=200" --retile %s 2>&1 | filecheck %s --check-prefix=FEW
// RUN: not mg-opt --plan="kernel=1 forloop=4" --retile %s 2>&1 | filecheck %s --check-prefix=NONLINEAR
// RUN: not mg-opt --plan="kernel=1 grid=4" --retile %s 2>&1 | filecheck %s --check-prefix=SIDE
// RUN: not mg-opt --plan="kernel=2 grid=2,2 along=-1,1" --retile %s 2>&1 | filecheck %s --check-prefix=WHOLE
// RUN: not mg-opt --plan="forloop=0" --retile %s 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: not mg-opt --plan="kernel=1 block=33" --retile %s 2>&1 | filecheck %s --check-prefix=WARPS
// RUN: not mg-opt --plan="kernel=3" --retile %s 2>&1 | filecheck %s --check-prefix=KERNEL
// RUN: not mg-opt --plan="function=g" --retile %s 2>&1 | filecheck %s --check-prefix=FUNCTION
// RUN: not mg-opt --resolve-layout --plan="kernel=0 grid=4" --retile %s 2>&1 | filecheck %s --check-prefix=LAYOUT
// RUN: not mg-opt --convert-linalg-to-kn --plan="merge=true" --retile %examples/front_ends/onnx_mlp.mlir 2>&1 | filecheck %s --check-prefix=KN
// RUN: not mg-opt --convert-linalg-to-kn --plan="outline=true" --retile %examples/front_ends/onnx_mlp.mlir 2>&1 | filecheck %s --check-prefix=KN
// RUN: mg-opt --convert-linalg-to-kn --plan --retile %examples/front_ends/onnx_mlp.mlir | filecheck %s --check-prefix=AUTO

// KN: mg-opt: error: --plan: there is no custom kernel ('kn.customized') to cut otherwise; other operators of 'kn' have no grid and no for-loop
// AUTO: kn.matmul
// AXIS: 'kn.customized' %p: grid axis y shall have 2 blocks, but cuts nothing so far; say with 'along' which dimension of the result it cuts
// TILE: 'kn.customized' %p: tile = [8, 32] cuts dimension 1 of the first result, but no axis of the grid does; say with 'along' which one shall, or write 0 for it
// SUMMED: 'kn.customized' %q: grid axis y shall cut dimension 1 of the first result, which has no such dimension of more than one element
// FEW: 'kn.customized' %p: dimension 0 of %dx has 16 elements, too few for 200 blocks of 1 tiles each
// NONLINEAR: 'kn.customized' %q: the result would depend on how many tiles the for-loop cuts dimension 1 of %dp into: 'tb.exp' %e is not linear in %s, of which each tile gives a part
// SIDE: 'kn.customized' %q: grid axis x must keep its 2 blocks as they are, because tiles that belong together are stored side by side along dimension 1 of result 0
// WHOLE: 'kn.customized' %r: dimension 1 of %dx3 must stay cut as it is, because 'tb.rms_norm' %n needs it whole
// COUNT: --plan: forloop = 0 must be at least 1
// WARPS: 'kn.customized' %q cannot have block = [33]: a block has whole warps of 32 threads, and at most 1024 threads; write a multiple of 32
// KERNEL: --plan: @f has 3 custom kernels; there is no kernel 3, counted from 0
// FUNCTION: --plan: the module has no µGraph @g
// LAYOUT: %sx has a layout, which is one for tiles of its extents; run --retile before --resolve-layout, and leave the layouts of tiles to that
func.func @f(%x: tensor<16x64xf16>) -> (tensor<16x2xf16>, tensor<16x64xf16>) {
  %p = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
    %e = tb.exp %sx : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<8x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  %q = kn.customized %p grid [2, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dp: tensor<16x64xf16>):
    %sp = tb.input %dp imap [1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x16xf16>
    %s = tb.reduction %sp dim 1 : !tb.stensor<16x16xf16> -> !tb.stensor<16x1xf16>
    %e = tb.exp %s : !tb.stensor<16x1xf16> -> !tb.stensor<16x1xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<16x1xf16> -> !tb.stensor<16x1xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<16x1xf16> -> tensor<16x2xf16>
  } : (tensor<16x64xf16>) -> tensor<16x2xf16>
  %r = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx3: tensor<16x64xf16>):
    %sx = tb.input %dx3 imap [0, -1, -1] : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
    %n = tb.rms_norm %sx : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %a = tb.forloop_accum none %n : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<8x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %q, %r : tensor<16x2xf16>, tensor<16x64xf16>
}
