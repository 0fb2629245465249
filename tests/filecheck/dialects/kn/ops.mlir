// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC

// CHECK-LABEL: func.func @matmul
// CHECK: %c = kn.matmul %a, %b : (tensor<2x3x4xf16>, tensor<2x4x5xf16>) -> tensor<2x3x5xf16>
// CHECK: %d = kn.matmul %a, %b compute f16 workspace [256] : (tensor<2x3x4xf16>
// GENERIC: "kn.matmul"(%a, %b) <{compute = #kn<compute f16>, workspace = array<i64: 256>}>
func.func @matmul(%a: tensor<2x3x4xf16>, %b: tensor<2x4x5xf16>) -> tensor<2x3x5xf16> {
  %c = kn.matmul %a, %b : (tensor<2x3x4xf16>, tensor<2x4x5xf16>) -> tensor<2x3x5xf16>
  %d = kn.matmul %a, %b compute f16 workspace [256] : (tensor<2x3x4xf16>, tensor<2x4x5xf16>) -> tensor<2x3x5xf16>
  func.return %c : tensor<2x3x5xf16>
}

// CHECK-LABEL: func.func @unary
// CHECK-SAME: tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>
// CHECK: kn.exp %x : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> -> tensor<4x8xf32>
// CHECK: kn.silu %e : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: kn.square %s workspace [-1] : tensor<4x8xbf16>
// CHECK: kn.sqrt %q
// CHECK: kn.mul_scalar %r by 5.000000e-01 {note = "kept"} : tensor<4x8xf16>
func.func @unary(%x: tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>) -> tensor<4x8xf16> {
  %e = kn.exp %x : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> -> tensor<4x8xf32>
  %s = kn.silu %e : tensor<4x8xf32> -> tensor<4x8xbf16>
  %q = kn.square %s workspace [-1] : tensor<4x8xbf16> -> tensor<4x8xf16>
  %r = kn.sqrt %q : tensor<4x8xf16> -> tensor<4x8xf16>
  %m = kn.mul_scalar %r by 0.5 {note = "kept"} : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %m : tensor<4x8xf16>
}

// CHECK-LABEL: func.func @activations
// CHECK: kn.gelu %x : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK: kn.sigmoid %a
// CHECK: kn.tanh %b
// CHECK: kn.relu %t
// CHECK: kn.log %c
// CHECK: kn.clamp %d from -1.000000e+00 to 6.500000e+00 workspace [128] : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK: kn.sub %e, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
// CHECK: kn.pow %f, %x
// GENERIC: "kn.clamp"(%d) <{low = -1.000000e+00 : f32, high = 6.500000e+00 : f32, workspace = array<i64: 128>}>
func.func @activations(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %a = kn.gelu %x : tensor<4x8xf16> -> tensor<4x8xf16>
  %b = kn.sigmoid %a : tensor<4x8xf16> -> tensor<4x8xf16>
  %t = kn.tanh %b : tensor<4x8xf16> -> tensor<4x8xf16>
  %c = kn.relu %t : tensor<4x8xf16> -> tensor<4x8xf16>
  %d = kn.log %c : tensor<4x8xf16> -> tensor<4x8xf16>
  %e = kn.clamp %d from -1.0 to 6.5 workspace [128] : tensor<4x8xf16> -> tensor<4x8xf16>
  %f = kn.sub %e, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %g = kn.pow %f, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %g : tensor<4x8xf16>
}

// CHECK-LABEL: func.func @binary
// CHECK: kn.add %x, %y : (tensor<4x8xf16>, tensor<4x1xf16>) -> tensor<4x8xf16>
// CHECK: kn.mul %a, %y workspace [128] : (tensor<4x8xf16>, tensor<4x1xf16>) -> tensor<4x8xf16>
// CHECK: kn.div %y, %m : (tensor<4x1xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
func.func @binary(%x: tensor<4x8xf16>, %y: tensor<4x1xf16>) -> tensor<4x8xf16> {
  %a = kn.add %x, %y : (tensor<4x8xf16>, tensor<4x1xf16>) -> tensor<4x8xf16>
  %m = kn.mul %a, %y workspace [128] : (tensor<4x8xf16>, tensor<4x1xf16>) -> tensor<4x8xf16>
  %d = kn.div %y, %m : (tensor<4x1xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %d : tensor<4x8xf16>
}

// CHECK-LABEL: func.func @customized
// CHECK: %o, %p = kn.customized %x, %y grid [2, 1, 1] block [64, 1, 1] forloop 2 workspace [-1, 0] {
// CHECK-NEXT: ^bb0(%dx: tensor<4x8xf16>, %dy: tensor<4x1xf16>):
// CHECK: } : (tensor<4x8xf16>, tensor<4x1xf16>) -> (tensor<4x8xf16>, tensor<4x1xf16>)
// GENERIC: "kn.customized"(%x, %y) <{grid = array<i64: 2, 1, 1>, block = array<i64: 64, 1, 1>, forloop = 2 : i64, workspace = array<i64: -1, 0>}>
func.func @customized(%x: tensor<4x8xf16>, %y: tensor<4x1xf16>) -> tensor<4x8xf16> {
  %o, %p = kn.customized %x, %y grid [2, 1, 1] block [64, 1, 1] forloop 2 workspace [-1, 0] {
  ^bb0(%dx: tensor<4x8xf16>, %dy: tensor<4x1xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<4x8xf16> -> !tb.stensor<2x8xf16>
    %sy = tb.input %dy imap [0, -1, -1] : tensor<4x1xf16> -> !tb.stensor<2x1xf16>
    tb.output %sx omap [0, -1, -1] : !tb.stensor<2x8xf16> -> tensor<4x8xf16>
    tb.output %sy omap [0, -1, -1] : !tb.stensor<2x1xf16> -> tensor<4x1xf16>
  } : (tensor<4x8xf16>, tensor<4x1xf16>) -> (tensor<4x8xf16>, tensor<4x1xf16>)
  func.return %o : tensor<4x8xf16>
}
