// RUN: mg-opt --resolve-layout --split-input-file %s | filecheck %s
// RUN: mg-opt --resolve-layout --resolve-layout --split-input-file %s | filecheck %s

// Inputs are row-major and contiguous; what is free is padded to 16 bytes.
// CHECK-LABEL: func.func @free(%a: tensor<6x12xf16, #cute.layout<(6,12):(12,1)>>, %b: tensor<12x9xf16, #cute.layout<(12,9):(9,1)>>) -> tensor<6x9xf16, #cute.layout<(6,9):(16,1)>>
func.func @free(%a: tensor<6x12xf16>, %b: tensor<12x9xf16>) -> tensor<6x9xf16> {
  // CHECK: %m = kn.matmul {{.*}} -> tensor<6x9xf16, #cute.layout<(6,9):(16,1)>>
  %m = kn.matmul %a, %b : (tensor<6x12xf16>, tensor<12x9xf16>) -> tensor<6x9xf16>
  %e = kn.exp %m : tensor<6x9xf16> -> tensor<6x9xf16>
  func.return %e : tensor<6x9xf16>
}

// -----

// Layouts of the signature stay.
// CHECK-LABEL: func.func @fixed
func.func @fixed(%x: tensor<3x6x9xf16, #cute.layout<(3,6,9):(128,16,1)>>, %w: tensor<3x9x4xf16, #cute.layout<(3,9,4):(128,8,1)>>) -> tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>> {
  // CHECK: kn.matmul %x, %w compute f16 : (tensor<3x6x9xf16, #cute.layout<(3,6,9):(128,16,1)>>, tensor<3x9x4xf16, #cute.layout<(3,9,4):(128,8,1)>>) -> tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>>
  %o = kn.matmul %x, %w compute f16 : (tensor<3x6x9xf16, #cute.layout<(3,6,9):(128,16,1)>>, tensor<3x9x4xf16, #cute.layout<(3,9,4):(128,8,1)>>) -> tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>>
  func.return %o : tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>>
}

// -----

// The tile of a column-major weight is column-major, so that it is copied 16 bytes at a time.
// CHECK-LABEL: func.func @column_major
func.func @column_major(%x: tensor<16x256xf16>, %w: tensor<256x128xf16, #cute.layout<(256,128):(1,256)>>) -> tensor<16x128xf16> {
  // CHECK: ^bb0(%dx: tensor<16x256xf16, #cute.layout<(16,256):(256,1)>>, %dw: tensor<256x128xf16, #cute.layout<(256,128):(1,256)>>):
  // CHECK: %sx = tb.input {{.*}} -> !tb.stensor<16x64xf16, (16,64):(64,1)>
  // CHECK: %sw = tb.input {{.*}} -> !tb.stensor<64x64xf16, (64,64):(1,64)>
  // CHECK: tb.output {{.*}} : !tb.stensor<16x64xf16, (16,64):(64,1)> -> tensor<16x128xf16, #cute.layout<(16,128):(128,1)>>
  %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x256xf16>, %dw: tensor<256x128xf16, #cute.layout<(256,128):(1,256)>>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x128xf16, #cute.layout<(256,128):(1,256)>> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x128xf16>
  } : (tensor<16x256xf16>, tensor<256x128xf16, #cute.layout<(256,128):(1,256)>>) -> tensor<16x128xf16>
  func.return %o : tensor<16x128xf16>
}

// -----

// A µGraph that is fused already is resolved as well; see resolve-layout-scheduled.mlir for one
// that is scheduled.
// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<8x16xf16>, %w: tensor<16x8xf16>) -> tensor<8x8xf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<8x16xf16>, %dw: tensor<16x8xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x16xf16> -> !tb.stensor<8x16xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<16x8xf16> -> !tb.stensor<16x8xf16>
    // CHECK: tb.matmul %sx, %sw then [exp, accum] : (!tb.stensor<8x16xf16, (8,16):(16,1)>, !tb.stensor<16x8xf16, (16,8):(8,1)>) -> !tb.stensor<8x8xf16, (8,8):(8,1)>
    %m = tb.matmul %sx, %sw then [exp, accum] : (!tb.stensor<8x16xf16>, !tb.stensor<16x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x16xf16>, tensor<16x8xf16>) -> tensor<8x8xf16>
  func.return %o : tensor<8x8xf16>
}

// -----

// Functions without µGraph operators are none of our business.
// CHECK-LABEL: func.func @other(%x: tensor<4x4xf16>) -> tensor<4x4xf16>
func.func @other(%x: tensor<4x4xf16>) -> tensor<4x4xf16> {
  func.return %x : tensor<4x4xf16>
}
