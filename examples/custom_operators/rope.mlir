func.func private @rope(%x: !te.buffer<16x64xf16>, %cos: !te.buffer<16x32xf32>, %sin: !te.buffer<16x32xf32>, %y: !te.buffer<16x64xf16> {te.result}) {
  te.par %i = 16 {
    te.par %j = 32 {
      %a = te.view %x[%i, %j] : !te.buffer<16x64xf16>
      %b = te.view %x[%i, %j + 32] : !te.buffer<16x64xf16>
      %c = te.view %cos[%i, %j] : !te.buffer<16x32xf32>
      %s = te.view %sin[%i, %j] : !te.buffer<16x32xf32>
      %af = arith.extf %a : f16 to f32
      %bf = arith.extf %b : f16 to f32
      %0 = arith.mulf %af, %c : f32
      %1 = arith.mulf %bf, %s : f32
      %2 = arith.subf %0, %1 : f32
      %3 = arith.mulf %bf, %c : f32
      %4 = arith.mulf %af, %s : f32
      %5 = arith.addf %3, %4 : f32
      %6 = arith.truncf %2 : f32 to f16
      %7 = arith.truncf %5 : f32 to f16
      te.bind %6, %y[%i, %j] : !te.buffer<16x64xf16>
      te.bind %7, %y[%i, %j + 32] : !te.buffer<16x64xf16>
    }
  }
  func.return
}
func.func @scaled_rope(%x: tensor<64x64xf16>, %cos: tensor<64x32xf32>, %sin: tensor<64x32xf32>) -> tensor<64x64xf16> {
  %o = kn.customized %x, %cos, %sin grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>, %dc: tensor<64x32xf32>, %ds: tensor<64x32xf32>):
    %sx = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<64x64xf16> -> !tb.stensor<16x64xf16>
    %sc = tb.input %dc imap [0, -1, -1] fordim -1 : tensor<64x32xf32> -> !tb.stensor<16x32xf32>
    %ss = tb.input %ds imap [0, -1, -1] fordim -1 : tensor<64x32xf32> -> !tb.stensor<16x32xf32>
    %q0 = tb.square %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %q = tb.forloop_accum none %q0 : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %y = tb.custom @rope(%q, %sc, %ss) : (!tb.stensor<16x64xf16>, !tb.stensor<16x32xf32>, !tb.stensor<16x32xf32>) -> !tb.stensor<16x64xf16>
    %e = tb.exp %y : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
