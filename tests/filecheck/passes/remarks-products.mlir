// Why single warps multiply: the depth, the elements, the threads, few rows whose operands cannot change places, or what
// is done to them before. A kernel at its best has no remark.
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile --remarks -o %t %s 2>&1 | filecheck %s
// RUN: mg-opt --plan="tiles=written swap-ab=false online-softmax=false" --transpile --remarks -o %t %s 2>&1 | filecheck %s --check-prefix ASKED

// ASKED: kernel @swapped_custom0: the product %product, 16x64 of depth 128, is computed by mma.sync and not by WGMMA, since its plan says swap_ab = false; leave it out [wgmma]

// CHECK: remark: kernel @depth_custom0: the product %product, 64x128 of depth 24, is computed by mma.sync and not by WGMMA, since a depth of 24 is no multiple of 16; cut tiles of a multiple of 16 along k [wgmma]
func.func @depth(%x: tensor<2112x192xf16>, %w: tensor<192x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x192xf16>, %dw: tensor<192x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x192xf16> -> !tb.stensor<64x24xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<192x1024xf16> -> !tb.stensor<24x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x24xf16>, !tb.stensor<24x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x192xf16>, tensor<192x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}

// CHECK: remark: kernel @type_custom0: the product %product, 64x128 of depth 32, is computed by mma.sync and not by WGMMA, since warp groups do not multiply f32; multiply f16, bf16, f8 or i8 where that is exact enough [wgmma]
func.func @type(%x: tensor<2112x512xf32>, %w: tensor<512x1024xf32>) -> tensor<2112x1024xf32> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 16 {
  ^bb0(%dx: tensor<2112x512xf32>, %dw: tensor<512x1024xf32>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf32> -> !tb.stensor<64x32xf32>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf32> -> !tb.stensor<32x128xf32>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x32xf32>, !tb.stensor<32x128xf32>) -> !tb.stensor<64x128xf32>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf32>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf32> -> tensor<2112x1024xf32>
  } : (tensor<2112x512xf32>, tensor<512x1024xf32>) -> tensor<2112x1024xf32>
  func.return %o : tensor<2112x1024xf32>
}

// CHECK: remark: kernel @threads_custom0: the product %product, 64x128 of depth 64, is computed by mma.sync and not by WGMMA, since 96 threads are no warp group of 128; give the block a warp group (plan <block = [128]>) [wgmma]
func.func @threads(%x: tensor<2112x512xf16>, %w: tensor<512x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [96, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x512xf16>, %dw: tensor<512x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x512xf16>, tensor<512x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}

// CHECK: remark: kernel @columns_custom0: the product %product, 16x32 of depth 64, is computed by mma.sync and not by WGMMA, since its 16 rows are no multiple of 64, and its operands cannot be swapped: 32 columns are no multiple of 64; cut tiles of a multiple of 64 columns [wgmma]
func.func @columns(%x: tensor<16x512xf16>, %w: tensor<512x4224xf16>) -> tensor<16x4224xf16> {
  %o = kn.customized %x, %w grid [132, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x4224xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x4224xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<16x32xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %product omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x4224xf16>
  } : (tensor<16x512xf16>, tensor<512x4224xf16>) -> tensor<16x4224xf16>
  func.return %o : tensor<16x4224xf16>
}

// CHECK: kernel @used_custom0: the product %product, 16x64 of depth 64, is computed by mma.sync and not by WGMMA, since its 16 rows are no multiple of 64, and operands can be swapped only if the loop just adds up the product of each iteration; cut tiles of a multiple of 64 rows [wgmma]
func.func @used(%x: tensor<16x512xf16>, %w: tensor<512x8448xf16>) -> tensor<16x8448xf16> {
  %o = kn.customized %x, %w grid [132, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x8448xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x8448xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<16x64xf16>
    %e = tb.exp %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %product = tb.forloop_accum none %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %product omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x8448xf16>
  } : (tensor<16x512xf16>, tensor<512x8448xf16>) -> tensor<16x8448xf16>
  func.return %o : tensor<16x8448xf16>
}

// CHECK: kernel @computed_custom0: the product %product, 64x64 of depth 64, is computed by mma.sync and not by WGMMA, since 'sched.map' writes %e, which TMA must load [wgmma]
// CHECK-NEXT: kernel @computed_custom0: %e passes through shared memory in each of 8 iterations, since warp {{[0-9]}} reads in 'sched.mma' what warp {{[0-9]}} wrote in 'sched.map' [registers]
func.func @computed(%x: tensor<64x512xf16>, %w: tensor<512x8448xf16>) -> tensor<64x8448xf16> {
  %o = kn.customized %x, %w grid [132, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<64x512xf16>, %dw: tensor<512x8448xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x512xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x8448xf16> -> !tb.stensor<64x64xf16>
    %e = tb.exp %sx : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %e, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %product omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x8448xf16>
  } : (tensor<64x512xf16>, tensor<512x8448xf16>) -> tensor<64x8448xf16>
  func.return %o : tensor<64x8448xf16>
}

// CHECK-NOT: @swapped
func.func @swapped(%x: tensor<16x1024xf16>, %w: tensor<1024x8448xf16>) -> tensor<16x8448xf16> {
  %o = kn.customized %x, %w grid [132, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x1024xf16>, %dw: tensor<1024x8448xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x1024xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1024x8448xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<16x64xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %product omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x8448xf16>
  } : (tensor<16x1024xf16>, tensor<1024x8448xf16>) -> tensor<16x8448xf16>
  func.return %o : tensor<16x8448xf16>
}

// CHECK-NOT: @best
func.func @best(%x: tensor<2112x512xf16>, %w: tensor<512x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x512xf16>, %dw: tensor<512x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x512xf16>, tensor<512x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}
