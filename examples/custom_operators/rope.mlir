// Rotary position embedding between a product and its output: @rope stands in operators.te.
//   mg-opt rope.mlir --load-operators=file=operators.te --transpile -t cuda
func.func @rope_of_product(
    %x: tensor<64x128xf16>, %w: tensor<128x64xf16>, %cos: tensor<64x32xf32>, %sin: tensor<64x32xf32>
) -> tensor<64x64xf16> {
  %o = kn.customized %x, %w, %cos, %sin grid [4, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x128xf16>, %dw: tensor<128x64xf16>, %dcos: tensor<64x32xf32>, %dsin: tensor<64x32xf32>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<64x128xf16> -> !tb.stensor<16x32xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<128x64xf16> -> !tb.stensor<32x64xf16>
    %scos = tb.input %dcos imap [0, -1, -1] fordim -1 : tensor<64x32xf32> -> !tb.stensor<16x32xf32>
    %ssin = tb.input %dsin imap [0, -1, -1] fordim -1 : tensor<64x32xf32> -> !tb.stensor<16x32xf32>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<16x64xf16>
    %q = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %y = tb.custom @rope(%q, %scos, %ssin) : (!tb.stensor<16x64xf16>, !tb.stensor<16x32xf32>, !tb.stensor<16x32xf32>) -> !tb.stensor<16x64xf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x128xf16>, tensor<128x64xf16>, tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
