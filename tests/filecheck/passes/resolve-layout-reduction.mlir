// With Mirage's constants a sum over the innermost dimension costs, so that another one is innermost where it may be.
// RUN: mg-opt --resolve-layout="cost-model=mirage explain=true" %s 2>&1 >/dev/null | filecheck %s

// CHECK:      layouts of @f, cost model mirage: 0, optimal
// CHECK:        %e (64x32): (64,32):(1,64)
// CHECK-NEXT:     otherwise (64,32):(32,1): +4000 in all
func.func @f(%x: tensor<64x32xf16>) -> tensor<64x1xf16> {
  %e = kn.exp %x : tensor<64x32xf16> -> tensor<64x32xf16>
  %s = kn.reduction %e dim 1 : tensor<64x32xf16> -> tensor<64x1xf16>
  func.return %s : tensor<64x1xf16>
}

// The operand is given: nothing else is left to choose.
// CHECK:      layouts of @given, cost model mirage: 4000, optimal
// CHECK-NEXT:   %x (64x32): (64,32):(32,1), given
// CHECK-NEXT:     4000  'kn.reduction' %s reduces the innermost dimension of its operand
func.func @given(%x: tensor<64x32xf16>) -> tensor<64x1xf16> {
  %s = kn.reduction %x dim 1 : tensor<64x32xf16> -> tensor<64x1xf16>
  func.return %s : tensor<64x1xf16>
}
