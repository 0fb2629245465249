// A cache in pages, of which each sequence has as many keys as memory says: the kernel's loop goes from page to page.
// RUN: mg-opt --fuse-kernels %s | filecheck %s
// RUN: mg-opt --fuse-kernels --transpile -t cuda %s | filecheck %s --check-prefix CUDA

// CHECK: func.func @paged(%q: {{.*}}, %k: {{.*}}, %v: {{.*}}, %table: {{.*}}, %lengths: tensor<4xi32>)
// CHECK-NOT: kn.gather
// CHECK: kn.customized {{.*}} grid [4, 2, 1] {{.*}} forloop 16 lengths [{{.}}, 1024] per [0] {
// CHECK: tb.input {{.*}} through %table{{.*}} imap [0, 2, -1] fordim 1 : {{.*}} -> !tb.stensor<1x1x1x64x64xf16>
// CHECK: tb.mask {{.*}} : (((((d1 * -64) + (d4 * -1)) + s0) + -1) >= 0)> at [0] of [4, 16, 2, 4, 64]
// CHECK: tb.input {{.*}} through %table{{.*}} imap [0, 2, -1] fordim 1

// CUDA: tb::length_in(lengths + blockIdx.x, 1024);

func.func @paged(%q: tensor<4x2x4x64xf16>, %k: tensor<40x2x64x64xf16>, %v: tensor<40x2x64x64xf16>, %table: tensor<4x16xi32>, %lengths: tensor<4xi32>) -> tensor<4x2x4x64xf16> {
  %k_rows = kn.gather %k rows %table : (tensor<40x2x64x64xf16>, tensor<4x16xi32>) -> tensor<4x16x2x64x64xf16>
  %k_heads = kn.transpose %k_rows dims [0, 2, 1, 3, 4] : tensor<4x16x2x64x64xf16> -> tensor<4x2x16x64x64xf16>
  %keys = kn.reshape %k_heads : tensor<4x2x16x64x64xf16> -> tensor<4x2x1024x64xf16>
  %v_rows = kn.gather %v rows %table : (tensor<40x2x64x64xf16>, tensor<4x16xi32>) -> tensor<4x16x2x64x64xf16>
  %v_heads = kn.transpose %v_rows dims [0, 2, 1, 3, 4] : tensor<4x16x2x64x64xf16> -> tensor<4x2x16x64x64xf16>
  %values = kn.reshape %v_heads : tensor<4x2x16x64x64xf16> -> tensor<4x2x1024x64xf16>
  %turned = kn.transpose %keys dims [0, 1, 3, 2] : tensor<4x2x1024x64xf16> -> tensor<4x2x64x1024xf16>
  %scores = kn.matmul %q, %turned : (tensor<4x2x4x64xf16>, tensor<4x2x64x1024xf16>) -> tensor<4x2x4x1024xf32>
  %seen = kn.mask %scores where affine_set<(b, h, i, j)[n] : (n - j - 1 >= 0)> at %lengths up_to [1024] per [0] else -inf : tensor<4x2x4x1024xf32>, tensor<4xi32> -> tensor<4x2x4x1024xf32>
  %p = kn.softmax %seen dim 3 : tensor<4x2x4x1024xf32> -> tensor<4x2x4x1024xf32>
  %half = kn.cast %p : tensor<4x2x4x1024xf32> -> tensor<4x2x4x1024xf16>
  %o = kn.matmul %half, %values : (tensor<4x2x4x1024xf16>, tensor<4x2x1024x64xf16>) -> tensor<4x2x4x64xf16>
  func.return %o : tensor<4x2x4x64xf16>
}
