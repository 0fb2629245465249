// Where the µGraph itself overflows, a check says so and takes the largest inputs that it has finite
// results for.
// RUN: mg-run %s --check | filecheck %s
// CHECK:      check: the µGraph itself overflows, or is undefined, with these inputs, but not with --scale 0.{{[0-9]+}} (it does from about 0.{{[0-9]+}} on), which is checked
// CHECK-NEXT: check: output 0, 64x1 float16: relative error {{.*}}e-04 against float64, within 0.002

// Inputs that were asked for are kept.
// RUN: not mg-run %s --check --scale 1 | filecheck %s --check-prefix ASKED
// ASKED:      check: the µGraph itself overflows, or is undefined, with these inputs, but not with --scale 0.{{[0-9]+}} (it does from about 0.{{[0-9]+}} on)
// ASKED-NEXT: FAILED: {{[0-9]+}} elements are not finite

func.func @fourth_powers(%x: tensor<64x64xf16>) -> tensor<64x1xf16> {
  %e = kn.exp %x : tensor<64x64xf16> -> tensor<64x64xf16>
  %s = kn.square %e : tensor<64x64xf16> -> tensor<64x64xf16>
  %t = kn.square %s : tensor<64x64xf16> -> tensor<64x64xf16>
  %r = kn.reduction %t dim 1 : tensor<64x64xf16> -> tensor<64x1xf16>
  func.return %r : tensor<64x1xf16>
}
