// Tiles of which some warp accesses touch no element that exists: they are no patterns of a buffer.
builtin.module {
  func.func @fuzzed(%signed: tensor<4x1xf8E5M2>, %signed_1: tensor<2x4xf16> {mugraph.constant}) -> (tensor<6x4xf32, #cute.layout<(6,4):(11,1)>>, tensor<24x1xf8E5M2>, tensor<4x5xf8E5M2>) {
    %0, %1 = kn.customized %signed, %signed_1 grid [1, 3, 2] block [128, 1, 1] forloop 1 {
    ^bb0(%2: tensor<4x1xf8E5M2>, %3: tensor<2x4xf16>):
      %4 = tb.input %2 imap [-1, -1, -1] : tensor<4x1xf8E5M2> -> !tb.stensor<4x1xf8E5M2>
      %5 = tb.forloop_accum_sum_to_dimx_strided %4 : !tb.stensor<4x1xf8E5M2> -> !tb.stensor<4x1xf8E5M2>
      %6 = tb.input %3 imap [-1, -1, 0] fordim 1 : tensor<2x4xf16> -> !tb.stensor<1x4xf16>
      %7 = tb.forloop_accum none %6 : !tb.stensor<1x4xf16> -> !tb.stensor<1x4xf32>
      tb.output %7 omap [-1, 0, 0] : !tb.stensor<1x4xf32> -> tensor<6x4xf32, #cute.layout<(6,4):(11,1)>>
      tb.output %5 omap [1, 0, 0] : !tb.stensor<4x1xf8E5M2> -> tensor<24x1xf8E5M2>
    } : (tensor<4x1xf8E5M2>, tensor<2x4xf16>) -> (tensor<6x4xf32, #cute.layout<(6,4):(11,1)>>, tensor<24x1xf8E5M2>)
    %2 = kn.customized %signed grid [5, 1, 1] block [48, 1, 1] forloop 1 {
    ^bb0(%3: tensor<4x1xf8E5M2>):
      %4 = tb.input %3 imap [-1, -1, -1] fordim 1 : tensor<4x1xf8E5M2> -> !tb.stensor<4x1xf8E5M2>
      %5 = tb.reduction_to_dimx_contiguous %4 dim 1 : !tb.stensor<4x1xf8E5M2> -> !tb.stensor<4x1xf16>
      %6 = tb.forloop_accum none %5 : !tb.stensor<4x1xf16> -> !tb.stensor<4x1xf8E5M2>
      tb.output %6 omap [1, 1, 1] : !tb.stensor<4x1xf8E5M2> -> tensor<4x5xf8E5M2>
    } : (tensor<4x1xf8E5M2>) -> tensor<4x5xf8E5M2>
    func.return %0, %1, %2 : tensor<6x4xf32, #cute.layout<(6,4):(11,1)>>, tensor<24x1xf8E5M2>, tensor<4x5xf8E5M2>
  }
}
