// RUN: mg-opt --split-input-file --resolve-layout --plan-dtensor-memory %s | filecheck %s
// RUN: mg-opt --split-input-file --resolve-layout --plan-dtensor-memory="reuse=false" %s | filecheck %s --check-prefix OWN
// RUN: not mg-opt --plan-dtensor-memory %s --split-input-file 2>&1 | filecheck %s --check-prefix NO-LAYOUT
// NO-LAYOUT: mg-opt: error: --plan-dtensor-memory: %a has no layout yet; run --resolve-layout before this step

// One behind the other at multiples of 128 bytes, padding included: %a spans 6 rows of 16, %b too.
// What the function returns lives in its outputs, also where another kernel reads it.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: attributes {{.*}}kn.workspace_bytes = 512 : i64, kn.workspace_certificate = {bound = 512 : i64, method = "first fit", optimal = true, peak = 512 : i64}}
// CHECK: %a = kn.exp %x workspace [0]
// CHECK: %b = kn.square %a workspace [256]
// CHECK: %c = kn.mul %a, %b workspace [-1]
// CHECK: %d = kn.sqrt %c workspace [-1]
func.func @chain(%x: tensor<6x9xf16>) -> (tensor<6x9xf16>, tensor<6x9xf16>) {
  %a = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
  %b = kn.square %a : tensor<6x9xf16> -> tensor<6x9xf16>
  %c = kn.mul %a, %b : (tensor<6x9xf16>, tensor<6x9xf16>) -> tensor<6x9xf16>
  %d = kn.sqrt %c : tensor<6x9xf16> -> tensor<6x9xf16>
  func.return %d, %c : tensor<6x9xf16>, tensor<6x9xf16>
}

// -----

// Results of a custom kernel, one offset each.
// CHECK: kn.workspace_bytes = 128 : i64
// CHECK: kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 workspace [0, -1] {
func.func @two_results(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %a, %b = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>)
  func.return %b : tensor<4x8xf16>
}

// -----

// Bytes are used again once no later kernel reads them: never by the kernel that reads them last.
// CHECK-LABEL: func.func @reuse
// CHECK-SAME: kn.workspace_bytes = 256 : i64
// CHECK: %a = kn.exp %x workspace [0]
// CHECK: %b = kn.square %a workspace [128]
// CHECK: %c = kn.sqrt %b workspace [0]
// OWN-LABEL: func.func @reuse
// OWN-SAME: kn.workspace_bytes = 384 : i64
func.func @reuse(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %a = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  %b = kn.square %a : tensor<4x8xf16> -> tensor<4x8xf16>
  %c = kn.sqrt %b : tensor<4x8xf16> -> tensor<4x8xf16>
  %d = kn.exp %c : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %d : tensor<4x8xf16>
}

// -----

// Nothing is left over.
// CHECK: kn.workspace_bytes = 0 : i64
func.func @none(%x: tensor<4xf16>) -> tensor<4xf16> {
  %a = kn.exp %x : tensor<4xf16> -> tensor<4xf16>
  func.return %a : tensor<4xf16>
}
