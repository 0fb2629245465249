// RUN: mg-opt --split-input-file --decompose-program %s | filecheck %s
// RUN: mg-opt --split-input-file --decompose-program=kernels=true %s | filecheck %s --check-prefix=ALL
// RUN: mg-opt --split-input-file --decompose-program --insert-copies %s | filecheck %s --check-prefix=COPIES

// The largest element is taken away before powers are summed.
// CHECK-LABEL: @softmax
// CHECK-NEXT: [[M:%.*]] = kn.reduction %x combine max dim 1 : tensor<4x64xf16> -> tensor<4x1xf32>
// CHECK-NEXT: [[D:%.*]] = kn.sub %x, [[M]] : (tensor<4x64xf16>, tensor<4x1xf32>) -> tensor<4x64xf32>
// CHECK-NEXT: [[E:%.*]] = kn.exp [[D]] : tensor<4x64xf32> -> tensor<4x64xf32>
// CHECK-NEXT: [[S:%.*]] = kn.reduction [[E]] dim 1 : tensor<4x64xf32> -> tensor<4x1xf32>
// CHECK-NEXT: kn.div [[E]], [[S]] : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf16>
func.func @softmax(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
  %y = kn.softmax %x dim 1 : tensor<4x64xf16> -> tensor<4x64xf16>
  func.return %y : tensor<4x64xf16>
}

// -----

// Of a row of minus infinity the maximum is a number, the sum 0, and so is each quotient.
// CHECK-LABEL: @softmax_or_zero
// CHECK-NEXT: [[M:%.*]] = kn.reduction %x combine max dim 1
// CHECK-NEXT: [[L:%.*]] = kn.fill [[M]] with -1.2676506e+30
// CHECK-NEXT: [[N:%.*]] = kn.max [[M]], [[L]]
// CHECK-NEXT: [[D:%.*]] = kn.sub %x, [[N]]
// CHECK-NEXT: [[E:%.*]] = kn.exp [[D]]
// CHECK-NEXT: [[S:%.*]] = kn.reduction [[E]] dim 1
// CHECK-NEXT: [[R:%.*]] = kn.reciprocal_or_zero [[S]]
// CHECK-NEXT: kn.mul [[E]], [[R]]
func.func @softmax_or_zero(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
  %y = kn.softmax %x dim 1 or_zero : tensor<4x64xf16> -> tensor<4x64xf16>
  func.return %y : tensor<4x64xf16>
}

// -----

// A layer norm is a root mean square norm without the mean; that one has a kernel.
// CHECK-LABEL: @layer_norm
// CHECK-NEXT: [[S:%.*]] = kn.reduction %x dim 1 : tensor<4x64xf16> -> tensor<4x1xf32>
// CHECK-NEXT: [[M:%.*]] = kn.mul_scalar [[S]] by 1.562500e-02 : tensor<4x1xf32> -> tensor<4x1xf32>
// CHECK-NEXT: [[D:%.*]] = kn.sub %x, [[M]] : (tensor<4x64xf16>, tensor<4x1xf32>) -> tensor<4x64xf32>
// CHECK-NEXT: [[N:%.*]] = kn.rms_norm [[D]] weight %w over [64] epsilon 1.000000e-05 : (tensor<4x64xf32>, tensor<64xf16>) -> tensor<4x64xf32>
// CHECK-NEXT: [[B:%.*]] = kn.view %b : tensor<64xf16, #cute.layout<(64):(1)>> -> tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>
// CHECK-NEXT: kn.add [[N]], [[B]] :
// ALL-LABEL: @layer_norm
// ALL-NOT:   rms_norm
// ALL:       kn.square
// ALL:       kn.add_scalar {{%.*}} by 1.000000e-05
// ALL:       kn.sqrt
// ALL:       kn.div
// ALL:       kn.mul
func.func @layer_norm(%x: tensor<4x64xf16>, %w: tensor<64xf16>, %b: tensor<64xf16>) -> tensor<4x64xf16> {
  %y = kn.layer_norm %x affine %w, %b over [64] epsilon 1.0e-5 : (tensor<4x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<4x64xf16>
  func.return %y : tensor<4x64xf16>
}

// -----

// Views of a custom kernel's result: it stores it so.
// CHECK-LABEL: @views
// CHECK:       tb.output {{.*}} -> tensor<8x16xf16, #cute.layout<(8,16):(16,1)>>
// CHECK:       kn.view %o : tensor<8x16xf16, #cute.layout<(8,16):(16,1)>> -> tensor<16x8xf16, #cute.layout<(16,8):(1,16)>>
// CHECK-NEXT:  kn.view %o : tensor<8x16xf16, #cute.layout<(8,16):(16,1)>> -> tensor<4x2x16xf16, #cute.layout<(4,2,16):(32,16,1)>>
// CHECK-NEXT:  kn.exp
func.func @views(%x: tensor<8x16xf16>) -> (tensor<16x8xf16>, tensor<4x2x16xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<8x16xf16>):
    %t = tb.input %dx imap [-1, -1, -1] : tensor<8x16xf16> -> !tb.stensor<8x16xf16>
    tb.output %t omap [-1, -1, -1] : !tb.stensor<8x16xf16> -> tensor<8x16xf16>
  } : (tensor<8x16xf16>) -> tensor<8x16xf16>
  %t = kn.transpose %o dims [1, 0] : tensor<8x16xf16> -> tensor<16x8xf16>
  %r = kn.reshape %o : tensor<8x16xf16> -> tensor<4x2x16xf16>
  %e = kn.exp %r : tensor<4x2x16xf16> -> tensor<4x2x16xf16>
  func.return %t, %e : tensor<16x8xf16>, tensor<4x2x16xf16>
}

// -----

// No strides say the rows of a column-major matrix in a row, and a written layout is a copy's.
// CHECK-LABEL: @copies
// CHECK-NEXT:  [[C:%.*]] = kn.copy %x : {{.*}} -> tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>
// CHECK-NEXT:  kn.view [[C]] : {{.*}} -> tensor<24xf16, #cute.layout<(24):(1)>>
// CHECK-NEXT:  [[V:%.*]] = kn.view %x : {{.*}} -> tensor<6x4xf16, #cute.layout<(6,4):(4,1)>>
// CHECK-NEXT:  kn.copy [[V]] : {{.*}} -> tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>
func.func @copies(%x: tensor<4x6xf16, #cute.layout<(4,6):(1,4)>>) -> (tensor<24xf16>, tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>) {
  %r = kn.reshape %x : tensor<4x6xf16, #cute.layout<(4,6):(1,4)>> -> tensor<24xf16>
  %t = kn.transpose %x dims [1, 0] : tensor<4x6xf16, #cute.layout<(4,6):(1,4)>> -> tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>
  func.return %r, %t : tensor<24xf16>, tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>
}

// -----

// A broadcast is a view whose strides are 0 there; who returns it returns a copy.
// CHECK-LABEL: @broadcast
// CHECK-SAME:  -> (tensor<4x6xf16, #cute.layout<(4,6):(1,0)>>, tensor<4x6xf16>)
// CHECK:       kn.view %x : tensor<4x1xf16, #cute.layout<(4,1):(1,1)>> -> tensor<4x6xf16, #cute.layout<(4,6):(1,0)>>
// CHECK:       kn.customized
// CHECK:       ^bb0(%dy: tensor<4x6xf16, #cute.layout<(4,6):(1,0)>>):
// COPIES-LABEL: @broadcast
// COPIES-SAME:  -> (tensor<4x6xf16>, tensor<4x6xf16>)
// COPIES:       kn.copy %y : tensor<4x6xf16, #cute.layout<(4,6):(1,0)>> -> tensor<4x6xf16>
func.func @broadcast(%x: tensor<4x1xf16>) -> (tensor<4x6xf16>, tensor<4x6xf16>) {
  %y = kn.broadcast %x : tensor<4x1xf16> -> tensor<4x6xf16>
  %o = kn.customized %y grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dy: tensor<4x6xf16>):
    %t = tb.input %dy imap [-1, -1, -1] : tensor<4x6xf16> -> !tb.stensor<4x6xf16>
    tb.output %t omap [-1, -1, -1] : !tb.stensor<4x6xf16> -> tensor<4x6xf16>
  } : (tensor<4x6xf16>) -> tensor<4x6xf16>
  func.return %y, %o : tensor<4x6xf16>, tensor<4x6xf16>
}

// -----

// The turned halves keep their type: nothing is rounded on the way to the products.
// CHECK-LABEL: @rotary
// CHECK-NEXT:  [[A:%.*]] = kn.slice %x from [0, 0] : tensor<4x6xf16> -> tensor<4x3xf16>
// CHECK-NEXT:  [[B:%.*]] = kn.slice %x from [0, 3] : tensor<4x6xf16> -> tensor<4x3xf16>
// CHECK-NEXT:  [[N:%.*]] = kn.mul_scalar [[B]] by -1.000000e+00 : tensor<4x3xf16> -> tensor<4x3xf16>
// CHECK-NEXT:  [[T:%.*]] = kn.concat [[N]], [[A]] dim 1 : (tensor<4x3xf16>, tensor<4x3xf16>) -> tensor<4x6xf16>
// CHECK-NEXT:  [[P:%.*]] = kn.mul %x, %c : (tensor<4x6xf16>, tensor<4x1xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:  [[Q:%.*]] = kn.mul [[T]], %s : (tensor<4x6xf16>, tensor<1x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:  kn.add [[P]], [[Q]] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf16>
func.func @rotary(%x: tensor<4x6xf16>, %c: tensor<4x1xf32>, %s: tensor<1x6xf32>) -> tensor<4x6xf16> {
  %y = kn.rotary %x, %c, %s : (tensor<4x6xf16>, tensor<4x1xf32>, tensor<1x6xf32>) -> tensor<4x6xf16>
  func.return %y : tensor<4x6xf16>
}
