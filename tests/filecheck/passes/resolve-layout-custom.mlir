// Layouts of an operator that a user wrote: its accesses decide. Rows of the result are columns of the operand.
// RUN: mg-opt --resolve-layout %s | filecheck %s
// CHECK: %y = tb.custom @turn(%b) : (!tb.stensor<64x32xf32, (64,32):(32,1)>) -> !tb.stensor<32x64xf32, (32,64):(1,32)>

func.func private @turn(%x: !te.buffer<64x32xf32>, %y: !te.buffer<32x64xf32> {te.result}) {
  te.par %i = 32 {
    te.par %j = 64 {
      %v = te.view %x[%j, %i] : !te.buffer<64x32xf32>
      te.bind %v, %y[%i, %j] : !te.buffer<32x64xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x32xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<64x32xf32> -> !tb.stensor<64x32xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<64x32xf32> -> !tb.stensor<64x32xf32>
    %y = tb.custom @turn(%b) : (!tb.stensor<64x32xf32>) -> !tb.stensor<32x64xf32>
    %z = tb.exp %y : !tb.stensor<32x64xf32> -> !tb.stensor<32x64xf32>
    tb.output %z omap [-1, -1, -1] : !tb.stensor<32x64xf32> -> tensor<32x64xf32>
  } : (tensor<64x32xf32>) -> tensor<32x64xf32>
  func.return %o : tensor<32x64xf32>
}
