// A product whose tiles are stored into two tensors, as for two devices.
builtin.module {
  func.func @fuzzed(%x: tensor<64x64xbf16>, %w: tensor<64x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>) {
    %c, %d = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 2 {
    ^bb0(%0: tensor<64x64xbf16>, %1: tensor<64x128xbf16>):
      %2 = tb.input %0 imap [-1, -1, -1] fordim 1 : tensor<64x64xbf16> -> !tb.stensor<64x32xbf16>
      %3 = tb.input %1 imap [1, -1, -1] fordim 0 : tensor<64x128xbf16> -> !tb.stensor<32x64xbf16>
      %4 = tb.matmul %2, %3 : (!tb.stensor<64x32xbf16>, !tb.stensor<32x64xbf16>) -> !tb.stensor<64x64xbf16>
      %5 = tb.forloop_accum none %4 : !tb.stensor<64x64xbf16> -> !tb.stensor<64x64xbf16>
      tb.output %5 omap [1, -1, -1] : !tb.stensor<64x64xbf16> -> tensor<64x128xbf16>
      tb.output %5 omap [1, -1, -1] : !tb.stensor<64x64xbf16> -> tensor<64x128xbf16>
    } : (tensor<64x64xbf16>, tensor<64x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>)
    func.return %c, %d : tensor<64x128xbf16>, tensor<64x128xbf16>
  }
}
