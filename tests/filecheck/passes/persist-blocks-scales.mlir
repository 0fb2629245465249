// Where numbers of device memory scale each product, the next one is issued before: two are in flight, and the rings of
// persistent blocks have a stage more than those of sums that stay where they are.
// RUN: mg-opt --plan="tiles=written loads=tma" --transpile=arch=sm_90a %s | filecheck %s

// CHECK: sched.kernel @scaled_custom0 inputs 3 grid [16, 16, 1] {{.*}}persistent 132
// CHECK: sched.alloc stages 5 offset 0 : !sched.shared<128x128xf8E4M3FN
func.func @scaled(%x: tensor<2048x4096xf8E4M3FN>, %w: tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>>, %sx: tensor<2048x32xf32>) -> tensor<2048x2048xbf16> {
  %o = kn.customized %x, %w, %sx grid [16, 16, 1] block [256, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<2048x4096xf8E4M3FN>, %dw: tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>>, %dsx: tensor<2048x32xf32>):
    %tx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<2048x4096xf8E4M3FN> -> !tb.stensor<128x128xf8E4M3FN>
    %tw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>> -> !tb.stensor<128x128xf8E4M3FN>
    %ts = tb.input %dsx imap [0, -1, -1] fordim 1 : tensor<2048x32xf32> -> !tb.stensor<128x1xf32>
    %m = tb.matmul %tx, %tw : (!tb.stensor<128x128xf8E4M3FN>, !tb.stensor<128x128xf8E4M3FN>) -> !tb.stensor<128x128xf32>
    %s = tb.mul %m, %ts : (!tb.stensor<128x128xf32>, !tb.stensor<128x1xf32>) -> !tb.stensor<128x128xf32>
    %a = tb.forloop_accum none %s : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %c = tb.cast %a : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xbf16>
    tb.output %c omap [0, 1, -1] : !tb.stensor<128x128xbf16> -> tensor<2048x2048xbf16>
  } : (tensor<2048x4096xf8E4M3FN>, tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>>, tensor<2048x32xf32>) -> tensor<2048x2048xbf16>
  func.return %o : tensor<2048x2048xbf16>
}

// CHECK: sched.kernel @added_custom0 inputs 2 grid [16, 16, 1] persistent 132
// CHECK: sched.alloc stages 4 offset 0 : !sched.shared<128x128xf8E4M3FN
func.func @added(%x: tensor<2048x4096xf8E4M3FN>, %w: tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>>) -> tensor<2048x2048xbf16> {
  %o = kn.customized %x, %w grid [16, 16, 1] block [256, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<2048x4096xf8E4M3FN>, %dw: tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>>):
    %tx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<2048x4096xf8E4M3FN> -> !tb.stensor<128x128xf8E4M3FN>
    %tw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>> -> !tb.stensor<128x128xf8E4M3FN>
    %m = tb.matmul %tx, %tw : (!tb.stensor<128x128xf8E4M3FN>, !tb.stensor<128x128xf8E4M3FN>) -> !tb.stensor<128x128xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %c = tb.cast %a : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xbf16>
    tb.output %c omap [0, 1, -1] : !tb.stensor<128x128xbf16> -> tensor<2048x2048xbf16>
  } : (tensor<2048x4096xf8E4M3FN>, tensor<4096x2048xf8E4M3FN, #cute.layout<(4096,2048):(1,4096)>>) -> tensor<2048x2048xbf16>
  func.return %o : tensor<2048x2048xbf16>
}
