// RUN: mg-opt --resolve-layout="cost-model=mirage explain=true" %s 2>&1 >/dev/null | filecheck %s --check-prefix=MIRAGE
// RUN: mg-opt --resolve-layout="explain=true" %s 2>&1 >/dev/null | filecheck %s --check-prefix=EXACT
// RUN: mg-opt --explain-layout %s 2>&1 >/dev/null | filecheck %s --check-prefix=EXACT
// RUN: mg-opt --resolve-layout %s | filecheck %s

// The choice of every tensor, what it costs by term, and the best without it.
// MIRAGE:      layouts of @f, cost model mirage: 0, optimal
// MIRAGE-NEXT:   %x (6x9): (6,9):(9,1), given
// MIRAGE-NEXT:   %e (6x9): (6,9):(16,1)
// MIRAGE-NEXT:     otherwise (6,9):(1,8): +0 in all and 1 more preferences broken

// EXACT:       layouts of @f, cost model exact: [[COST:\d+]] ps, optimal
// EXACT-NEXT:    %x (6x9): (6,9):(9,1), given
// EXACT-NEXT:      {{\d+}} ps  device memory, 'kn.exp' %e

// CHECK:       func.func @f
// CHECK-SAME:    attributes {mugraph.layout_certificate = {bound = [[COST:\d+]] : i64, cost = [[COST]] : i64, model = "exact", status = "optimal"}}
func.func @f(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
  %e = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
  func.return %e : tensor<6x9xf16>
}
