// RUN: mg-opt --resolve-layout --lower-threadblock %s | filecheck %s --check-prefix LOWERED
// RUN: mg-opt --resolve-layout --lower-threadblock --promote-registers %s | filecheck %s --check-prefix HELD
// RUN: mg-opt --plan="tiles=written" --transpile="arch=sm_80" -t cuda %s | filecheck %s --check-prefix CUDA
// Places in a whole tensor become places in a tile, of a block, in an iteration.

// LOWERED: sched.mask %{{.*}} to %{{.*}} with -inf where affine_set<(d0, d1)[s0, s1, s2, s3] : ((((d0 + (d1 * -1)) + (s0 * 64)) + (s3 * -32)) >= 0)> by <128, vector {{.*}} : !sched.shared<64x32xf32, {{.*}}> to !sched.shared<64x32xf32,

// Each thread looks at what it holds of the product.
// HELD: %[[SUMS:.*]] = sched.warpgroup_mma
// HELD-NEXT: sched.mask %[[SUMS]] to %[[SUMS]] with -inf where affine_set<{{.*}}> : !sched.tile<64x32xf32, #cute.tiled_mma<

// CUDA: tb::Span const span = tb::span<4>(tb::bound<-1>(2 * static_cast<int>(blockIdx.x) + 1));
// CUDA: for (int it = 0; it < span.count; ++it, ++stage) {
// CUDA: tb::MaskFragment<0xff800000u, {{.*}}>::store({{.*}}, thread, 64, 32, tb::where<Layout<Shape<Int<64>, Int<32>>, Stride<Int<1>, Int<-1>>>>(64 * static_cast<int>(blockIdx.x) + -32 * (span.first + it)));
func.func @largest(%q: tensor<128x16xf16>, %k: tensor<16x128xf16>) -> tensor<128x1xf32> {
  %o = kn.customized %q, %k grid [2, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dq: tensor<128x16xf16>, %dk: tensor<16x128xf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<128x16xf16> -> !tb.stensor<64x16xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<16x128xf16> -> !tb.stensor<16x32xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<64x16xf16>, !tb.stensor<16x32xf16>) -> !tb.stensor<64x32xf32>
    %m = tb.mask %s with -inf where affine_set<(i, j) : (i - j >= 0)> of [128, 128] imap [0, -1, -1] fordim 1 : !tb.stensor<64x32xf32> -> !tb.stensor<64x32xf32>
    %max, %fall = tb.reduction_max %m dim 1 : !tb.stensor<64x32xf32> -> (!tb.stensor<64x1xf32>, !tb.stensor<64x1xf32>)
    %l = tb.forloop_accum max %max : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    tb.output %l omap [0, -1, -1] : !tb.stensor<64x1xf32> -> tensor<128x1xf32>
  } : (tensor<128x16xf16>, tensor<16x128xf16>) -> tensor<128x1xf32>
  func.return %o : tensor<128x1xf32>
}
