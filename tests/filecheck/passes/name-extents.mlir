// Dimensions "?" get the names of arguments' dimensions, where operators take them.
// RUN: mg-opt --split-input-file --verify-diagnostics --name-extents %s | filecheck %s

// CHECK-LABEL: @rows
// CHECK-SAME: -> (tensor<?x4xf16> {mugraph.extent = ["m", ""]})
// CHECK: kn.rms_norm %x over [8] {mugraph.extent = {{\[\[}}"m", ""]]}
// CHECK: kn.matmul {{.*}} {mugraph.extent = {{\[\[}}"m", ""]]}
// CHECK: kn.reshape {{.*}} {mugraph.extent = {{\[\[}}"m", "", ""]]}
func.func @rows(%x: tensor<?x8xf16> {mugraph.extent = ["m", ""]}, %w: tensor<8x4xf16>) -> tensor<?x4xf16> attributes {mugraph.extents = {m = {largest = 64}}} {
  %n = kn.rms_norm %x over [8] : (tensor<?x8xf16>) -> tensor<?x8xf16>
  %p = kn.matmul %n, %w : (tensor<?x8xf16>, tensor<8x4xf16>) -> tensor<?x4xf16>
  %r = kn.reshape %p : tensor<?x4xf16> -> tensor<?x2x2xf16>
  %s = kn.reshape %r : tensor<?x2x2xf16> -> tensor<?x4xf16>
  func.return %s : tensor<?x4xf16>
}

// -----

// Which of two names a dimension has follows from the operands.
// CHECK-LABEL: @scores
// CHECK: kn.transpose {{.*}} {mugraph.extent = {{\[\[}}"", "n"]]}
// CHECK: kn.matmul {{.*}} {mugraph.extent = {{\[\[}}"m", "n"]]}
func.func @scores(%q: tensor<?x8xf16> {mugraph.extent = ["m", ""]}, %k: tensor<?x8xf16> {mugraph.extent = ["n", ""]}) -> tensor<?x8xf16> attributes {mugraph.extents = {m = {largest = 64}, n = {largest = 32}}} {
  %t = kn.transpose %k dims [1, 0] : tensor<?x8xf16> -> tensor<8x?xf16>
  %s = kn.matmul %q, %t : (tensor<?x8xf16>, tensor<8x?xf16>) -> tensor<?x?xf16>
  %e = kn.exp %q : tensor<?x8xf16> -> tensor<?x8xf16>
  func.return %e : tensor<?x8xf16>
}

// -----

// CHECK: dimension 0 of argument 0 (%x) of 'func.func' @unnamed is '?' and has no name; write its name in mugraph.extent
func.func @unnamed(%x: tensor<?x8xf16>) -> tensor<?x8xf16> attributes {mugraph.extents = {m = {largest = 64}}} {
  %e = kn.exp %x : tensor<?x8xf16> -> tensor<?x8xf16>
  func.return %e : tensor<?x8xf16>
}

// -----

// CHECK: is '?' and has the name 'k', which has no entry in mugraph.extents
func.func @unknown(%x: tensor<?x8xf16> {mugraph.extent = ["k", ""]}) -> tensor<?x8xf16> attributes {mugraph.extents = {m = {largest = 64}}} {
  %e = kn.exp %x : tensor<?x8xf16> -> tensor<?x8xf16>
  func.return %e : tensor<?x8xf16>
}

// -----

// CHECK: operands mx8 and 16x8 differ in dimension 0: extents must be equal or 1
func.func @disagree(%x: tensor<?x8xf16> {mugraph.extent = ["m", ""]}, %y: tensor<16x8xf16>) -> tensor<?x8xf16> attributes {mugraph.extents = {m = {largest = 64}}} {
  %e = kn.add %x, %y : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x8xf16>
  func.return %e : tensor<?x8xf16>
}

// -----

// CHECK: mugraph.extents of 'func.func' @bucket of 'm': bucket 65 cannot be: m is 65; it may be 0 to 64
func.func @bucket(%x: tensor<?x8xf16> {mugraph.extent = ["m", ""]}) -> tensor<?x8xf16> attributes {mugraph.extents = {m = {largest = 64, buckets = [65]}}} {
  %e = kn.exp %x : tensor<?x8xf16> -> tensor<?x8xf16>
  func.return %e : tensor<?x8xf16>
}

// -----

// CHECK: 'kn.reduction'{{.*}} combines elements along dimension 0 of %x, whose extent 'm' is known only at a call: not yet
func.func @mean(%x: tensor<?x8xf16> {mugraph.extent = ["m", ""]}) -> tensor<1x8xf16> attributes {mugraph.extents = {m = {largest = 64}}} {
  %s = kn.mean %x dim 0 : tensor<?x8xf16> -> tensor<1x8xf16>
  func.return %s : tensor<1x8xf16>
}

// -----

// CHECK: 'kn.reshape' %s: mx8 are {{.*}} elements, but the operand's mx4x8 are
func.func @merged(%x: tensor<?x4x8xf16> {mugraph.extent = ["m", "", ""]}) -> tensor<?x8xf16> attributes {mugraph.extents = {m = {largest = 64}}} {
  %s = kn.reshape %x : tensor<?x4x8xf16> -> tensor<?x8xf16>
  func.return %s : tensor<?x8xf16>
}
