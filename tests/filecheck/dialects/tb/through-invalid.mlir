// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s
// Numbers of rows are i32, come from outside of the kernel, and are cut evenly; rows are stored behind the loop.

// CHECK: 'tb.input' %s: the numbers of rows that it moves 'through' %dt are of i64; expected i32: insert a 'kn.cast' before the kernel
func.func @embed(%w: tensor<100x128xf16>, %t: tensor<256xi64>) -> tensor<256x128xf16> {
  %o = kn.customized %w, %t grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dw: tensor<100x128xf16>, %dt: tensor<256xi64>):
    %s = tb.input %dw through %dt imap [0, -1, -1] : tensor<100x128xf16>, tensor<256xi64> -> !tb.stensor<64x128xf16>
    %n = tb.rms_norm %s : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<64x128xf16> -> tensor<256x128xf16>
  } : (tensor<100x128xf16>, tensor<256xi64>) -> tensor<256x128xf16>
  func.return %o : tensor<256x128xf16>
}

// -----

// CHECK: 'tb.input' %s moves rows through %n, a tile; numbers of rows are read from device memory, so name an operand of the kernel
func.func @tile(%w: tensor<100x128xf16>, %t: tensor<256xi32>) -> tensor<256x128xf16> {
  %o = kn.customized %w, %t grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dw: tensor<100x128xf16>, %dt: tensor<256xi32>):
    %n = tb.input %dt imap [0, -1, -1] : tensor<256xi32> -> !tb.stensor<64xi32>
    %s = tb.input %dw through %n imap [-1, -1, -1] : tensor<100x128xf16>, !tb.stensor<64xi32> -> !tb.stensor<64x128xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<64x128xf16> -> tensor<256x128xf16>
  } : (tensor<100x128xf16>, tensor<256xi32>) -> tensor<256x128xf16>
  func.return %o : tensor<256x128xf16>
}

// -----

// CHECK: 'tb.input' %s: dimension 0 of the tile counts rows that %dt names, and some blocks or iterations have fewer; choose a grid and a forloop that divide its extents
func.func @embed(%w: tensor<100x128xf16>, %t: tensor<250xi32>) -> tensor<250x128xf16> {
  %o = kn.customized %w, %t grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dw: tensor<100x128xf16>, %dt: tensor<250xi32>):
    %s = tb.input %dw through %dt imap [0, -1, -1] : tensor<100x128xf16>, tensor<250xi32> -> !tb.stensor<63x128xf16>
    %n = tb.rms_norm %s : !tb.stensor<63x128xf16> -> !tb.stensor<63x128xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<63x128xf16> -> tensor<250x128xf16>
  } : (tensor<100x128xf16>, tensor<250xi32>) -> tensor<250x128xf16>
  func.return %o : tensor<250x128xf16>
}

// -----

// CHECK: 'tb.input' %s: imap maps grid axis x to dimension 2, but the tensor has rank 2: expected -1 (replicated) or 0 to 1
func.func @embed(%w: tensor<100x128xf16>, %t: tensor<256xi32>) -> tensor<256x128xf16> {
  %o = kn.customized %w, %t grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dw: tensor<100x128xf16>, %dt: tensor<256xi32>):
    %s = tb.input %dw through %dt imap [2, -1, -1] : tensor<100x128xf16>, tensor<256xi32> -> !tb.stensor<64x128xf16>
    %n = tb.rms_norm %s : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<64x128xf16> -> tensor<256x128xf16>
  } : (tensor<100x128xf16>, tensor<256xi32>) -> tensor<256x128xf16>
  func.return %o : tensor<256x128xf16>
}

// -----

// CHECK: 'tb.output' of %n stores rows 'through' %dt in every iteration; leave out 'fordim': rows are stored once, after the loop
func.func @each_iteration(%x: tensor<256x128xf16>, %t: tensor<256xi32>) -> tensor<200x128xf16> {
  %o = kn.customized %x, %t grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<256x128xf16>, %dt: tensor<256xi32>):
    %s = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<256x128xf16> -> !tb.stensor<64x128xf16>
    %n = tb.exp %s : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %n through %dt omap [-1, -1, -1] fordim 0 : !tb.stensor<64x128xf16>, tensor<256xi32> -> tensor<200x128xf16>
  } : (tensor<256x128xf16>, tensor<256xi32>) -> tensor<200x128xf16>
  func.return %o : tensor<200x128xf16>
}

// -----

// CHECK: 'tb.output' of %s: dimension 0 of the tile counts rows that %dt names, and some blocks or iterations have fewer; choose a grid and a forloop that divide its extents
func.func @uneven(%x: tensor<250x128xf16>, %t: tensor<250xi32>) -> tensor<200x128xf16> {
  %o = kn.customized %x, %t grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<250x128xf16>, %dt: tensor<250xi32>):
    %s = tb.input %dx imap [0, -1, -1] : tensor<250x128xf16> -> !tb.stensor<63x128xf16>
    tb.output %s through %dt omap [0, -1, -1] : !tb.stensor<63x128xf16>, tensor<250xi32> -> tensor<200x128xf16>
  } : (tensor<250x128xf16>, tensor<250xi32>) -> tensor<200x128xf16>
  func.return %o : tensor<200x128xf16>
}
