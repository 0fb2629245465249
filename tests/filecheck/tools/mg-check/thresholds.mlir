// Inputs cross the thresholds of both functions.
// RUN: rm -rf %t && mkdir %t
// RUN: sed 's/kn.relu %x/kn.clamp %x from 0.0 to 6.0/' %s > %t/clamp.mlir
// RUN: not mg-check %s %t/clamp.mlir | filecheck %s --check-prefix CROSSED
// CROSSED: different: no proof, since the normal forms of result 0 differ; float64, seed 2 (all sizes): the first difference is in element [

// Where no input of the type does, that is no evidence, and the exit code is 2.
// RUN: sed 's/kn.relu %x/kn.clamp %x from 0.0 to 1000000.0/' %s > %t/far.mlir
// RUN: %status mg-check %s %t/far.mlir | filecheck %s --check-prefix FAR
// FAR: undecided: no proof, since the normal forms of result 0 differ; evaluations in float64 do not decide: no inputs led to above 1e+06 at 'kn.clamp' %r; finite fields do not decide
// FAR: exit 2

// A cast that quantizes is a function of its own.
// RUN: not mg-check %s %S/Inputs/quantized_relu.mlir | filecheck %s --check-prefix CAST
// CAST: different: no proof, since the normal forms of result 0 differ; float64, seed 0 (scale 1): the first difference

// The budget of each kind of evidence is in seconds; what it does not suffice for is undecided.
// RUN: %status mg-check --budget 0.000001 %s %s | filecheck %s --check-prefix BUDGET
// BUDGET: undecided: no proof, since the budget of 1e-06 s is spent; --budget gives it another one; float64 does not decide: the budget of 1e-06 s is spent
// BUDGET: exit 2
// RUN: not mg-check --budget never %s %s 2>&1 | filecheck %s --check-prefix SECONDS
// SECONDS: mg-check: error: argument --budget: 'never' is no number of seconds, such as 60

func.func @relu(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %r = kn.relu %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %r : tensor<4x8xf16>
}
