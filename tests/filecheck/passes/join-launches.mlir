// Small kernels of the runtime share a launch as soon as one of them is needed.

// RUN: mg-opt --split-input-file --join-launches %s | filecheck %s

// The sum that is only returned comes along, and so does the copy of rows; each custom kernel waits for one launch.
// CHECK-LABEL: func.func @step
// CHECK:      %at = kn.add %here, %one
// CHECK-NEXT: %next = kn.add %there, %one {kn.joined}
// CHECK-NEXT: %k = kn.customized
// CHECK:      %v = kn.customized
// CHECK:      %keys = kn.scatter %k
// CHECK-NEXT: %values = kn.scatter %v into %old_values rows %at dim 0 {kn.joined}
// CHECK-NEXT: %y = kn.matmul %keys, %values
// CHECK-NEXT: func.return %y, %next
func.func @step(%x: tensor<1x64xf16>, %here: tensor<1xi64>, %there: tensor<1xi64>, %one: tensor<1xi64>, %old_keys: tensor<64x64xf16>, %old_values: tensor<64x64xf16>) -> (tensor<64x64xf16>, tensor<1xi64>) {
  %at = kn.add %here, %one : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %k = kn.customized %x, %at grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<1x64xf16>, %n: tensor<1xi64>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<1x64xf16> -> tensor<1x64xf16>
  } : (tensor<1x64xf16>, tensor<1xi64>) -> tensor<1x64xf16>
  %keys = kn.scatter %k into %old_keys rows %at dim 0 : (tensor<1x64xf16>, tensor<64x64xf16>, tensor<1xi64>) -> tensor<64x64xf16>
  %v = kn.customized %k grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<1x64xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<1x64xf16> -> tensor<1x64xf16>
  } : (tensor<1x64xf16>) -> tensor<1x64xf16>
  %values = kn.scatter %v into %old_values rows %at dim 0 : (tensor<1x64xf16>, tensor<64x64xf16>, tensor<1xi64>) -> tensor<64x64xf16>
  %next = kn.add %there, %one : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %y = kn.matmul %keys, %values : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %y, %next : tensor<64x64xf16>, tensor<1xi64>
}

// -----

// What one computes another does not read, and a large tensor takes longer than its launch.
// CHECK-LABEL: func.func @apart
// CHECK-NOT:  kn.joined
func.func @apart(%x: tensor<8xf16>, %large: tensor<4096x4096xf16>) -> (tensor<8xf16>, tensor<4096x4096xf16>) {
  %a = kn.exp %x : tensor<8xf16> -> tensor<8xf16>
  %b = kn.exp %large : tensor<4096x4096xf16> -> tensor<4096x4096xf16>
  %c = kn.sqrt %a : tensor<8xf16> -> tensor<8xf16>
  func.return %c, %b : tensor<8xf16>, tensor<4096x4096xf16>
}

// -----

// A view stands behind what it is a view of, in front of what reads it.
// CHECK-LABEL: func.func @viewed
// CHECK:      %b = kn.sqrt %y
// CHECK-NEXT: %a = kn.exp %x {kn.joined}
// CHECK-NEXT: %v = kn.view %b
// CHECK-NEXT: %c = kn.mul %a, %v
func.func @viewed(%x: tensor<8xf16, #cute.layout<(8):(1)>>, %y: tensor<2x4xf16, #cute.layout<(2,4):(4,1)>>) -> tensor<8xf16, #cute.layout<(8):(1)>> {
  %b = kn.sqrt %y : tensor<2x4xf16, #cute.layout<(2,4):(4,1)>> -> tensor<2x4xf16, #cute.layout<(2,4):(4,1)>>
  %v = kn.view %b : tensor<2x4xf16, #cute.layout<(2,4):(4,1)>> -> tensor<8xf16, #cute.layout<(8):(1)>>
  %a = kn.exp %x : tensor<8xf16, #cute.layout<(8):(1)>> -> tensor<8xf16, #cute.layout<(8):(1)>>
  %c = kn.mul %a, %v : (tensor<8xf16, #cute.layout<(8):(1)>>, tensor<8xf16, #cute.layout<(8):(1)>>) -> tensor<8xf16, #cute.layout<(8):(1)>>
  func.return %c : tensor<8xf16, #cute.layout<(8):(1)>>
}
