// RUN: mg-opt --plan=tiles=written --transpile %s | filecheck %s

// A matrix whose rows start anywhere is loaded element by element; the kernel's name is a free one.
func.func private @f_custom0()
func.func @f(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %o = kn.customized %a, %b grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%da: tensor<16x16xf16>, %db: tensor<16x16xf16>):
    %sa = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<16x16xf16> -> !tb.stensor<16x16xf16, (16,16):(17,1)>
    %sb = tb.input %db imap [-1, -1, -1] fordim 0 : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<16x16xf16, (16,16):(17,1)>, !tb.stensor<16x16xf16>) -> !tb.stensor<16x16xf16>
    %t = tb.forloop_accum none %m : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %t omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
  func.return %o : tensor<16x16xf16>
}
// CHECK: sched.kernel @f_custom0_1
// CHECK: sched.mma %sa, %sb to {{.*}} ldmatrix [false, true]
// CHECK: sched.launch @f_custom0_1
