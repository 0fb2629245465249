// RUN: mg-opt --resolve-layout="explain=true" %s 2>&1 >/dev/null | filecheck %s --check-prefix=WHY
// RUN: mg-opt --explain-layout %s 2>&1 >/dev/null | filecheck %s --check-prefix=WHY
// RUN: mg-opt --resolve-layout %s | filecheck %s

// The choice of every tensor, what it costs by term, and the best without it.
// WHY:         layouts of @f: [[COST:\d+]] ps, optimal
// WHY-NEXT:    %x (6x9): (6,9):(9,1), given
// WHY-NEXT:      {{\d+}} ps  device memory, 'kn.exp' %e

// CHECK:       func.func @f
// CHECK-SAME:    attributes {mugraph.layout_certificate = {bound = [[COST:\d+]] : i64, cost = [[COST]] : i64, status = "optimal"}}
func.func @f(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
  %e = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
  func.return %e : tensor<6x9xf16>
}
