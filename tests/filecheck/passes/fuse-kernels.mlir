// RUN: mg-opt --fuse-kernels --split-input-file %s | filecheck %s

// The norm leaves the sum: the loop walks along what both sum over.
func.func @norm_and_product(%x: tensor<16x256xf16>, %w: tensor<256x512xf16>) -> tensor<16x512xf16> {
  %n = kn.rms_norm %x over [256] epsilon 1.0e-05 : (tensor<16x256xf16>) -> tensor<16x256xf16>
  %y = kn.matmul %n, %w : (tensor<16x256xf16>, tensor<256x512xf16>) -> tensor<16x512xf16>
  func.return %y : tensor<16x512xf16>
}
// CHECK:      func.func @norm_and_product
// CHECK-NEXT:   %y = kn.customized %x, %w grid [8, 1, 1] block [128, 1, 1] forloop 4 {
// CHECK:          %x_2 = tb.input %x_1 imap [-1, -1, -1] fordim 1
// CHECK-NEXT:     %n = tb.square %x_2
// CHECK-NEXT:     %n_1 = tb.forloop_accum sum %n
// CHECK-NEXT:     %n_2 = tb.mul_scalar %n_1
// CHECK-NEXT:     %n_3 = tb.add_scalar %n_2
// CHECK-NEXT:     %n_4 = tb.sqrt %n_3
// CHECK-NEXT:     %w_2 = tb.input %w_1 imap [1, -1, -1] fordim 0
// CHECK-NEXT:     %0 = tb.matmul %x_2, %w_2
// CHECK-NEXT:     %1 = tb.forloop_accum none %0
// CHECK-NEXT:     %y_1 = tb.div %1, %n_4
// CHECK-NEXT:     tb.output %y_1 omap [1, -1, -1]
// CHECK:        func.return %y

// -----

// Powers of e to the power of the maximum cancel; a running maximum takes their place.
func.func @attention(%q: tensor<2x64x64xf16>, %k: tensor<2x1024x64xf16>, %v: tensor<2x1024x64xf16>) -> tensor<2x64x64xf16> {
  %t = kn.transpose %k dims [0, 2, 1] : tensor<2x1024x64xf16> -> tensor<2x64x1024xf16>
  %s = kn.matmul %q, %t : (tensor<2x64x64xf16>, tensor<2x64x1024xf16>) -> tensor<2x64x1024xf16>
  %p = kn.softmax %s dim 2 : tensor<2x64x1024xf16> -> tensor<2x64x1024xf16>
  %y = kn.matmul %p, %v : (tensor<2x64x1024xf16>, tensor<2x1024x64xf16>) -> tensor<2x64x64xf16>
  func.return %y : tensor<2x64x64xf16>
}
// CHECK:      func.func @attention
// CHECK-NEXT:   %t = kn.transpose %k
// CHECK-NEXT:   %y = kn.customized %q, %t, %v grid [2, 1, 1] block [128, 1, 1] forloop 16 {
// CHECK:          %s = tb.matmul %q_2, %t_2
// CHECK-NEXT:     %max, %fall = tb.reduction_max %s dim 2
// CHECK-NEXT:     %0 = tb.sub %s, %max
// CHECK-NEXT:     %rescale = tb.exp %fall
// CHECK-NEXT:     %p = tb.exp %0 {{.*}} -> !tb.stensor<1x64x64xf16>
// CHECK-NEXT:     %p_1 = tb.forloop_accum_rescale sum %p by %rescale
// CHECK-NEXT:     %v_2 = tb.input %v_1
// CHECK-NEXT:     %1 = tb.matmul %p, %v_2
// CHECK-NEXT:     %2 = tb.forloop_accum_rescale none %1 by %rescale
// CHECK-NEXT:     %y_1 = tb.div %2, %p_1

// -----

// A sum of terms: the mean's part of a product is a product of its own, summed once.
func.func @sum_of_terms(%x: tensor<16x4096xf16>, %b: tensor<1x4096xf16>, %w: tensor<4096x512xf16>) -> tensor<16x512xf16> {
  %n = kn.rms_norm %x over [4096] : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %s = kn.add %n, %b : (tensor<16x4096xf16>, tensor<1x4096xf16>) -> tensor<16x4096xf16>
  %y = kn.matmul %s, %w : (tensor<16x4096xf16>, tensor<4096x512xf16>) -> tensor<16x512xf16>
  func.return %y : tensor<16x512xf16>
}
// CHECK:      func.func @sum_of_terms
// CHECK-NEXT:   %y = kn.customized
// CHECK:          [[A:%.*]] = tb.matmul %x_2, %w_2
// CHECK-NEXT:     [[SUM:%.*]] = tb.forloop_accum none [[A]]
// CHECK-NEXT:     [[D:%.*]] = tb.div [[SUM]], %n_3
// CHECK-NEXT:     [[B:%.*]] = tb.matmul %b_2, %w_2
// CHECK-NEXT:     [[BIAS:%.*]] = tb.forloop_accum none [[B]]
// CHECK-NEXT:     %y_1 = tb.add [[D]], [[BIAS]]

// -----

// The transpose of what nothing else uses is computed of transposed operands.
func.func @transposes(%a: tensor<64x32xf16>, %b: tensor<32x16xf16>) -> tensor<16x64xf16> {
  %p = kn.matmul %a, %b : (tensor<64x32xf16>, tensor<32x16xf16>) -> tensor<64x16xf16>
  %e = kn.exp %p : tensor<64x16xf16> -> tensor<64x16xf16>
  %t = kn.transpose %e dims [1, 0] : tensor<64x16xf16> -> tensor<16x64xf16>
  func.return %t : tensor<16x64xf16>
}
// CHECK:      func.func @transposes
// CHECK-NEXT:   [[A:%.*]] = kn.transpose %a dims [1, 0]
// CHECK-NEXT:   [[B:%.*]] = kn.transpose %b dims [1, 0]
// CHECK-NEXT:   %e = kn.customized [[B]], [[A]]
// CHECK:          tb.matmul
// CHECK-NEXT:     tb.exp

// -----

// The sums of groups are no sum along a dimension: the reduction stays a kernel.
func.func @groups(%x: tensor<16x256xf16>) -> tensor<16x4xf16> {
  %s = kn.square %x : tensor<16x256xf16> -> tensor<16x256xf16>
  %y = kn.reduction %s dim 1 : tensor<16x256xf16> -> tensor<16x4xf16>
  func.return %y : tensor<16x4xf16>
}
// CHECK:      func.func @groups
// CHECK-NEXT:   %s = kn.square %x
// CHECK-NEXT:   %y = kn.reduction %s dim 1
// CHECK-NEXT:   func.return %y

// -----

// A view splits columns into heads: a block has one, whose halves a rotary embedding mixes.
func.func @rotary(%x: tensor<16x256xf16>, %w: tensor<256x512xf16>, %c: tensor<16x1x64xf16>, %s: tensor<16x1x64xf16>) -> tensor<16x8x64xf16> {
  %p = kn.matmul %x, %w : (tensor<16x256xf16>, tensor<256x512xf16>) -> tensor<16x512xf16>
  %h = kn.reshape %p : tensor<16x512xf16> -> tensor<16x8x64xf16>
  %y = kn.rotary %h, %c, %s : (tensor<16x8x64xf16>, tensor<16x1x64xf16>, tensor<16x1x64xf16>) -> tensor<16x8x64xf16>
  func.return %y : tensor<16x8x64xf16>
}
// CHECK:      func.func @rotary
// CHECK-NEXT:   %x_1 = kn.reshape %x : tensor<16x256xf16> -> tensor<1x16x256xf16>
// CHECK-NEXT:   %w_1 = kn.reshape %w : tensor<256x512xf16> -> tensor<256x8x64xf16>
// CHECK-NEXT:   %w_2 = kn.transpose %w_1 dims [1, 0, 2]
// CHECK:        kn.customized %x_1, %w_2, {{.*}} grid [8, 1, 1] block [128, 1, 1] forloop 4 {
// CHECK:          tb.matmul {{.*}} -> !tb.stensor<1x16x64xf16>
// CHECK:          [[A:%.*]], [[B:%.*]] = tb.split {{.*}} dim 2 : (!tb.stensor<1x16x64xf16>) -> (!tb.stensor<1x16x32xf16>, !tb.stensor<1x16x32xf16>)
// CHECK:          [[N:%.*]] = tb.mul_scalar [[B]] by -1.000000e+00
// CHECK:          tb.concat [[N]], [[A]] dim 2
// CHECK:          tb.output {{.*}} omap [0, -1, -1] : !tb.stensor<1x16x64xf16> -> tensor<8x16x64xf16, #cute.layout<(8,16,64):(64,512,1)>>
// CHECK:        kn.transpose {{.*}} dims [1, 0, 2] : {{.*}} -> tensor<16x8x64xf16>

// -----

// A mask of places is one of the kernel's tiles, before scores are scaled. Rows may be masked wholly so far.
func.func @causal_attention(%q: tensor<2x128x64xf16>, %k: tensor<2x64x1024xf16>, %v: tensor<2x1024x64xf16>) -> tensor<2x128x64xf16> {
  %s = kn.matmul %q, %k : (tensor<2x128x64xf16>, tensor<2x64x1024xf16>) -> tensor<2x128x1024xf16>
  %c = kn.mul_scalar %s by 0.125 : tensor<2x128x1024xf16> -> tensor<2x128x1024xf16>
  %m = kn.mask %c where affine_set<(h, i, j) : (i - j + 896 >= 0)> else -inf : tensor<2x128x1024xf16> -> tensor<2x128x1024xf16>
  %p = kn.softmax %m dim 2 : tensor<2x128x1024xf16> -> tensor<2x128x1024xf16>
  %y = kn.matmul %p, %v : (tensor<2x128x1024xf16>, tensor<2x1024x64xf16>) -> tensor<2x128x64xf16>
  func.return %y : tensor<2x128x64xf16>
}
// CHECK:      func.func @causal_attention
// CHECK-NEXT:   %y = kn.customized %q, %k, %v grid [2, 2, 1] block [128, 1, 1] forloop 16 {
// CHECK:          %s = tb.matmul %q_2, %k_2
// CHECK-NEXT:     %0 = tb.mask %s with -inf where affine_set<(d0, d1, d2) : (((d1 + (d2 * -1)) + 896) >= 0)> of [2, 128, 1024] imap [0, 1, -1] fordim 2
// CHECK-NEXT:     %c = tb.mul_scalar %0 by 1.250000e-01
// CHECK-NEXT:     %max, %fall = tb.reduction_max %c dim 2 from -1.2676506e+30
// CHECK-NEXT:     %1 = tb.sub %c, %max

// -----

// A product of f8 is a kernel that reads f8, where scales are applied and the result is rounded.
func.func @scaled(%x: tensor<64x256xf8E4M3FN>, %w: tensor<256x96xf8E4M3FN>, %s: tensor<64x1xf32>) -> tensor<64x96xf8E4M3FN> {
  %p = kn.matmul %x, %w : (tensor<64x256xf8E4M3FN>, tensor<256x96xf8E4M3FN>) -> tensor<64x96xf32>
  %y = kn.mul %p, %s : (tensor<64x96xf32>, tensor<64x1xf32>) -> tensor<64x96xf8E4M3FN>
  func.return %y : tensor<64x96xf8E4M3FN>
}
// CHECK:      func.func @scaled
// CHECK-NEXT:   kn.customized %x, %w, %s
// CHECK:          tb.matmul {{.*}} : (!tb.stensor<64x{{.*}}xf8E4M3FN>, !tb.stensor<{{.*}}xf8E4M3FN>) -> !tb.stensor<64x48xf32>
// CHECK:          tb.mul {{.*}} -> !tb.stensor<64x48xf8E4M3FN>
// CHECK-NOT:    kn.matmul
// CHECK:        func.return

// -----

// Alone it is a kernel too: cuBLAS would multiply copies in f16.
func.func @narrow(%x: tensor<64x256xf8E5M2>, %w: tensor<256x96xf8E5M2>) -> tensor<64x96xf8E5M2> {
  %y = kn.matmul %x, %w : (tensor<64x256xf8E5M2>, tensor<256x96xf8E5M2>) -> tensor<64x96xf8E5M2>
  func.return %y : tensor<64x96xf8E5M2>
}
// CHECK:      func.func @narrow
// CHECK-NEXT:   kn.customized
// CHECK:          [[SUMS:%.*]] = tb.matmul {{.*}} -> !tb.stensor<64x48xf32>
// CHECK:          tb.cast [[SUMS]] : !tb.stensor<64x48xf32> -> !tb.stensor<64x48xf8E5M2>

// -----

// Views that cancel split no rows of the product whose result is computed on between them.
func.func @seen_as_images(%x: tensor<64x256xf16>, %w: tensor<256x128xf16>) -> tensor<64x128xf16> {
  %p = kn.matmul %x, %w : (tensor<64x256xf16>, tensor<256x128xf16>) -> tensor<64x128xf16>
  %i = kn.reshape %p : tensor<64x128xf16> -> tensor<8x8x128xf16>
  %g = kn.gelu %i : tensor<8x8x128xf16> -> tensor<8x8x128xf16>
  %y = kn.reshape %g : tensor<8x8x128xf16> -> tensor<64x128xf16>
  func.return %y : tensor<64x128xf16>
}
// CHECK:      func.func @seen_as_images
// CHECK-NOT:    kn.reshape
// CHECK:        %g = kn.customized %x, %w
// CHECK:          tb.gelu {{.*}} -> !tb.stensor<64x{{.*}}xf16>
// CHECK-NOT:    kn.reshape
// CHECK:        func.return %g : tensor<64x128xf16>

// -----

// A value that is used in both shapes is not computed twice.
func.func @used_as_both(%x: tensor<64x256xf16>) -> (tensor<8x8x256xf16>, tensor<64x256xf16>) {
  %i = kn.reshape %x : tensor<64x256xf16> -> tensor<8x8x256xf16>
  %g = kn.gelu %i : tensor<8x8x256xf16> -> tensor<8x8x256xf16>
  %y = kn.reshape %g : tensor<8x8x256xf16> -> tensor<64x256xf16>
  func.return %g, %y : tensor<8x8x256xf16>, tensor<64x256xf16>
}
// CHECK:      func.func @used_as_both
// CHECK:          tb.gelu
// CHECK-NOT:      tb.gelu
// CHECK:        %y = kn.reshape
// CHECK-NEXT:   func.return %g, %y

// -----

// A number for each head takes part in the maximum and the sum: it joins both after the loop.
func.func @sink(%q: tensor<2x64x64xf16>, %k: tensor<2x64x1024xf16>, %v: tensor<2x1024x64xf16>, %sink: tensor<2x1x1xf16>) -> tensor<2x64x64xf16> {
  %s = kn.matmul %q, %k : (tensor<2x64x64xf16>, tensor<2x64x1024xf16>) -> tensor<2x64x1024xf16>
  %largest = kn.reduction %s combine max dim 2 : tensor<2x64x1024xf16> -> tensor<2x64x1xf32>
  %m = kn.max %largest, %sink : (tensor<2x64x1xf32>, tensor<2x1x1xf16>) -> tensor<2x64x1xf32>
  %d = kn.sub %s, %m : (tensor<2x64x1024xf16>, tensor<2x64x1xf32>) -> tensor<2x64x1024xf32>
  %e = kn.exp %d : tensor<2x64x1024xf32> -> tensor<2x64x1024xf16>
  %sum = kn.reduction %e dim 2 : tensor<2x64x1024xf16> -> tensor<2x64x1xf32>
  %ds = kn.sub %sink, %m : (tensor<2x1x1xf16>, tensor<2x64x1xf32>) -> tensor<2x64x1xf32>
  %es = kn.exp %ds : tensor<2x64x1xf32> -> tensor<2x64x1xf32>
  %t = kn.add %sum, %es : (tensor<2x64x1xf32>, tensor<2x64x1xf32>) -> tensor<2x64x1xf32>
  %p = kn.matmul %e, %v : (tensor<2x64x1024xf16>, tensor<2x1024x64xf16>) -> tensor<2x64x64xf16>
  %y = kn.div %p, %t : (tensor<2x64x64xf16>, tensor<2x64x1xf32>) -> tensor<2x64x64xf16>
  func.return %y : tensor<2x64x64xf16>
}
// CHECK:      func.func @sink
// CHECK-NEXT:   %y = kn.customized
// CHECK:          %max, %fall = tb.reduction_max %s dim 2 from
// CHECK-NEXT:     %largest = tb.forloop_accum max %max
// CHECK-NEXT:     [[M:%.*]] = tb.max %largest, %sink_2
// CHECK-NEXT:     [[FALL:%.*]] = tb.sub %largest, [[M]]
// CHECK-NEXT:     %weight = tb.exp [[FALL]]
// CHECK:          tb.mul {{.*}}, %weight
// CHECK:          tb.sub %sink_2, [[M]]
// CHECK:          tb.mul {{.*}}, %weight
// CHECK-NOT:    kn.customized
// CHECK:        func.return %y
