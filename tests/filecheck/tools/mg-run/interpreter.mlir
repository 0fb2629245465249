// RUN: rm -rf %t && mkdir %t

// The result is compared with float64.
// RUN: mg-run %s --check --time --seed 1 --outputs %t/one.npy | filecheck %s
// CHECK: time: {{[0-9.]+}} s in the interpreter
// CHECK: check: output 0, 4x8 float16: relative error {{[1-9].*}}e-04 against float64, within 0.002

// A µGraph at any stage: the layouts change where elements are, not what they are, and random
// inputs are the same for the same seed.
// RUN: mg-opt --fuse-threadblock --resolve-layout %s | mg-run --seed 1 --outputs %t/laid_out.npy
// RUN: cmp %t/one.npy %t/laid_out.npy

// Exit code 1 and the reason, where the check fails.
// RUN: not mg-run %s --check --scale 1000 | filecheck %s --check-prefix OVERFLOW
// OVERFLOW: check: output 0, 4x8 float16: FAILED: {{[0-9]+}} elements of the float64 reference are not finite; use smaller inputs (--scale)

func.func @exponential(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
