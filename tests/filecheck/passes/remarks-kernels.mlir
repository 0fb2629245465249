// What whole kernels lack: multiprocessors with a block, stages that shared memory has no room for, warp groups that
// multiply beside an epilogue.
// RUN: mg-opt --plan="tiles=written pdl=none" --transpile --remarks -o %t %s 2>&1 | filecheck %s

// CHECK: remark: kernel @stages_custom0: its loop keeps 0 bytes on their way to a multiprocessor, in 1 stage, and not 65536, since one more of 131072 bytes does not fit beside {{[0-9]+}} of the 232448 bytes that a block can have; load smaller tiles (plan <forloop = 8>) [stages]
func.func @stages(%x: tensor<1536x1024xf16>, %w: tensor<1024x1536xf16>) -> tensor<1536x1536xf16> {
  %o = kn.customized %x, %w grid [12, 12, 1] block [256, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<1536x1024xf16>, %dw: tensor<1024x1536xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<1536x1024xf16> -> !tb.stensor<128x256xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1024x1536xf16> -> !tb.stensor<256x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<128x256xf16>, !tb.stensor<256x128xf16>) -> !tb.stensor<128x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<128x128xf16> -> tensor<1536x1536xf16>
  } : (tensor<1536x1024xf16>, tensor<1024x1536xf16>) -> tensor<1536x1536xf16>
  func.return %o : tensor<1536x1536xf16>
}

// CHECK: remark: kernel @few_custom0: it runs on 64 of 132 multiprocessors, since its grid [8, 8, 1] has no more blocks; cut its results in more tiles (plan <grid = [...]>) or divide its loop over blocks (plan <split_k = ...>) [few-blocks]
func.func @few(%x: tensor<512x512xf16>, %w: tensor<512x1024xf16>) -> tensor<512x1024xf16> {
  %o = kn.customized %x, %w grid [8, 8, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<512x512xf16>, %dw: tensor<512x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<512x512xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<512x1024xf16>
  } : (tensor<512x512xf16>, tensor<512x1024xf16>) -> tensor<512x1024xf16>
  func.return %o : tensor<512x1024xf16>
}

// CHECK: remark: kernel @gate_custom0: its warp groups multiply nothing for about {{[0-9]+}} cycles behind each {{[0-9]+}} of products, since the same role writes the result; let two consumers take work tiles in turn (plan <block = [128], ping_pong = 2>) [serial-epilogue]
func.func @gate(%x: tensor<4096x512xf16>, %w1: tensor<512x4096xf16> {mugraph.constant}, %w2: tensor<512x4096xf16> {mugraph.constant}) -> tensor<4096x4096xf16> {
  %o = kn.customized %x, %w1, %w2 grid [64, 32, 1] block [256, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<4096x512xf16>, %dw1: tensor<512x4096xf16>, %dw2: tensor<512x4096xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<4096x512xf16> -> !tb.stensor<128x64xf16>
    %sw1 = tb.input %dw1 imap [1, -1, -1] fordim 0 : tensor<512x4096xf16> -> !tb.stensor<64x64xf16>
    %sw2 = tb.input %dw2 imap [1, -1, -1] fordim 0 : tensor<512x4096xf16> -> !tb.stensor<64x64xf16>
    %m1 = tb.matmul %sx, %sw1 : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %m2 = tb.matmul %sx, %sw2 : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %gate = tb.forloop_accum none %m1 : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %up = tb.forloop_accum none %m2 : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %open = tb.silu %gate : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %hidden = tb.mul %open, %up : (!tb.stensor<128x64xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<128x64xf16>
    tb.output %hidden omap [1, 0, -1] : !tb.stensor<128x64xf16> -> tensor<4096x4096xf16>
  } : (tensor<4096x512xf16>, tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<4096x4096xf16>
  func.return %o : tensor<4096x4096xf16>
}

// CHECK-NOT: remark
