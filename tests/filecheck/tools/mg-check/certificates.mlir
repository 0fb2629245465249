// RUN: mg-opt --fuse-kernels=certificates=true %s > %t.fused
// RUN: mg-check --certificates %t.fused | filecheck %s
// RUN: sed 's/tb.sqrt/tb.square/' %t.fused > %t.wrong
// RUN: not mg-check --certificates %t.wrong | filecheck %s --check-prefix WRONG
// RUN: sed 's/func.func @certificate/func.func certificate/' %t.fused > %t.unreadable
// RUN: not mg-check --certificates %t.unreadable | filecheck %s --check-prefix UNREADABLE
// RUN: mg-opt --fuse-kernels %s | filecheck %s --check-prefix NONE
// RUN: not mg-check --certificates %s 2>&1 | filecheck %s --check-prefix MISSING

// CHECK: 'kn.customized' %y: proved equal: the normal forms of all results coincide
// WRONG: 'kn.customized' %y: different: {{.*}}the first difference is in element [0, 0] of result 0
// UNREADABLE: 'kn.customized' %y: undecided: its certificate cannot be read:
// NONE-NOT: certificate
// MISSING: has no kernel with a certificate; make them with mg-opt --fuse-kernels=certificates=true.
func.func @norm_and_product(%x: tensor<16x4096xf16>, %w: tensor<4096x1024xf16>) -> tensor<16x1024xf16> {
  %n = kn.rms_norm %x over [4096] epsilon 1.0e-05 : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %y = kn.matmul %n, %w : (tensor<16x4096xf16>, tensor<4096x1024xf16>) -> tensor<16x1024xf16>
  func.return %y : tensor<16x1024xf16>
}
