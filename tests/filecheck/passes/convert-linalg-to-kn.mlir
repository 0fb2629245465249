// RUN: mg-opt --convert-linalg-to-kn %s | filecheck %s
// RUN: mg-opt --convert-linalg-to-kn=strict=true %examples/front_ends/onnx_mlp.mlir | filecheck %s --check-prefix ONNX
// RUN: not mg-opt --convert-linalg-to-kn=strict=true %s 2>&1 | filecheck %s --check-prefix STRICT

#same = affine_map<(d0, d1) -> (d0, d1)>
#columns = affine_map<(d0, d1) -> (d1)>
#rows = affine_map<(d0, d1) -> (d0)>

// A product that starts at zero; another that is added to what was there.
// CHECK-LABEL: func.func @products
// CHECK: %[[M:.*]] = kn.matmul %x, %w : (tensor<4x8xf16>, tensor<8x2xf16>) -> tensor<4x2xf16>
// CHECK: %[[N:.*]] = kn.matmul %x, %w
// CHECK: kn.add %[[M]], %[[N]]
// CHECK-NOT: linalg
func.func @products(%x: tensor<4x8xf16>, %w: tensor<8x2xf16>) -> tensor<4x2xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<4x2xf16>
  %zeros = linalg.fill ins(%zero : f16) outs(%empty : tensor<4x2xf16>) -> tensor<4x2xf16>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xf16>, tensor<8x2xf16>) outs(%zeros : tensor<4x2xf16>) -> tensor<4x2xf16>
  %n = linalg.matmul ins(%x, %w : tensor<4x8xf16>, tensor<8x2xf16>) outs(%m : tensor<4x2xf16>) -> tensor<4x2xf16>
  func.return %n : tensor<4x2xf16>
}

// A batched product of x and the transpose of y, as a generic.
// CHECK-LABEL: func.func @batched
// CHECK: %[[T:.*]] = kn.view %y : {{.*}} -> tensor<3x8x2xf16, #cute.layout<(3,8,2):(16,1,8)>>
// CHECK: kn.matmul %x, %[[T]]
func.func @batched(%x: tensor<3x4x8xf16>, %y: tensor<3x2x8xf16>) -> tensor<3x4x2xf16> {
  %zeros = arith.constant dense<0.0> : tensor<3x4x2xf16>
  %m = linalg.generic {
    indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%x, %y : tensor<3x4x8xf16>, tensor<3x2x8xf16>) outs(%zeros : tensor<3x4x2xf16>) {
  ^bb0(%a: f16, %b: f16, %c: f16):
    %p = arith.mulf %a, %b : f16
    %s = arith.addf %c, %p : f16
    linalg.yield %s : f16
  } -> tensor<3x4x2xf16>
  func.return %m : tensor<3x4x2xf16>
}

// A bias a column, then x * sigmoid(x), which is recognised over two operators.
// CHECK-LABEL: func.func @silu
// CHECK: %[[B:.*]] = kn.view %b : {{.*}} -> tensor<1x8xf16, #cute.layout<(1,8):(8,1)>>
// CHECK-NEXT: %[[S:.*]] = kn.add {{.*}}, %[[B]]
// CHECK-NEXT: %[[R:.*]] = kn.silu %[[S]]
// CHECK-NEXT: func.return %[[R]]
func.func @silu(%x: tensor<4x8xf16>, %b: tensor<8xf16>) -> tensor<4x8xf16> {
  %one = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<4x8xf16>
  %s = linalg.generic {indexing_maps = [#same, #columns, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<4x8xf16>, tensor<8xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.addf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<4x8xf16>
  %g = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    %n = arith.negf %i : f16
    %x1 = math.exp %n : f16
    %x2 = arith.addf %x1, %one : f16
    %x3 = arith.divf %one, %x2 : f16
    linalg.yield %x3 : f16
  } -> tensor<4x8xf16>
  %y = linalg.mul ins(%g, %s : tensor<4x8xf16>, tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// A sum along rows and what moves elements.
// CHECK-LABEL: func.func @moves
// CHECK: %[[S:.*]] = kn.reduction %x dim 1
// CHECK: kn.view %[[S]] : {{.*}} -> tensor<4xf16, #cute.layout<(4):(1)>>
// CHECK: kn.view %x : {{.*}} -> tensor<2x2x8xf16, #cute.layout<(2,2,8):(16,8,1)>>
// CHECK: kn.concat %x, %x dim 0
// CHECK: kn.slice %{{.*}} from [1, 0] : {{.*}} -> tensor<4x8xf16>
func.func @moves(%x: tensor<4x8xf16>) -> (tensor<4xf16>, tensor<2x2x8xf16>, tensor<4x8xf16>) {
  %zeros = arith.constant dense<0.0> : tensor<4xf16>
  %s = linalg.reduce ins(%x:tensor<4x8xf16>) outs(%zeros:tensor<4xf16>) dimensions = [1]
  (%in : f16, %init : f16) {
    %t = arith.addf %in, %init : f16
    linalg.yield %t : f16
  }
  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 8] : tensor<4x8xf16> into tensor<2x2x8xf16>
  %c = tensor.concat dim(0) %x, %x : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<8x8xf16>
  %p = tensor.extract_slice %c[1, 0] [4, 8] [1, 1] : tensor<8x8xf16> to tensor<4x8xf16>
  func.return %s, %r, %p : tensor<4xf16>, tensor<2x2x8xf16>, tensor<4x8xf16>
}

// The largest element of each row, and the larger of that and a number.
// CHECK-LABEL: func.func @maxima
// CHECK: %[[M:.*]] = kn.reduction %x combine max dim 1 : tensor<4x8xf16> -> tensor<4x1xf16
// CHECK-NEXT: kn.view %[[M]]
// CHECK-NEXT: kn.reduction %x combine max dim 0
// CHECK: kn.relu
func.func @maxima(%x: tensor<4x8xf16>) -> (tensor<4xf16>, tensor<8xf16>) {
  %low = arith.constant 0xFC00 : f16
  %e = tensor.empty() : tensor<4xf16>
  %lows = linalg.fill ins(%low : f16) outs(%e : tensor<4xf16>) -> tensor<4xf16>
  %m = linalg.reduce ins(%x:tensor<4x8xf16>) outs(%lows:tensor<4xf16>) dimensions = [1]
  (%in : f16, %init : f16) {
    %t = arith.maximumf %in, %init : f16
    linalg.yield %t : f16
  }
  %zeros = arith.constant dense<0.0> : tensor<8xf16>
  %n = linalg.reduce ins(%x:tensor<4x8xf16>) outs(%zeros:tensor<8xf16>) dimensions = [0]
  (%in : f16, %init : f16) {
    %t = arith.maximumf %in, %init : f16
    linalg.yield %t : f16
  }
  func.return %m, %n : tensor<4xf16>, tensor<8xf16>
}

// What has no counterpart stays, and what is not ours is not touched.
// CHECK-LABEL: func.func @stays
// CHECK: arith.addi
// CHECK: linalg.generic
// CHECK: math.sin
// STRICT: --convert-linalg-to-kn: 'linalg.generic' %t stays, because 'math.sin' in its body has no counterpart in kn
func.func @stays(%x: tensor<4x8xf16>, %i: i32) -> (tensor<4x8xf16>, i32) {
  %j = arith.addi %i, %i : i32
  %e = tensor.empty() : tensor<4x8xf16>
  %t = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = math.sin %a : f16
    linalg.yield %r : f16
  } -> tensor<4x8xf16>
  func.return %t, %j : tensor<4x8xf16>, i32
}

// What torch-mlir makes of an ONNX file: two linear layers, gelu spread over five generics, a residual and relu.
// ONNX: kn.view %arg1 : {{.*}} -> tensor<16x32xf32, #cute.layout<(16,32):(1,16)>>
// ONNX-NEXT: kn.matmul %arg0
// ONNX-NEXT: kn.view %arg2
// ONNX-NEXT: kn.add
// ONNX-NEXT: kn.gelu
// ONNX-NEXT: kn.view %arg3
// ONNX-NEXT: kn.matmul
// ONNX-NEXT: kn.view %arg4
// ONNX-NEXT: kn.add
// ONNX-NEXT: kn.add
// ONNX-NEXT: kn.relu
// ONNX-NEXT: func.return
