// Products keep the precision that they have: sums of f16 in f32, and f32 unrounded unless TF32 is asked for.
// RUN: mg-opt --convert-linalg-to-kn=strict=true %s | filecheck %s
// RUN: mg-opt --convert-linalg-to-kn="strict=true tf32=true" %s | filecheck %s --check-prefix TF32
// RUN: mg-opt --convert-linalg-to-kn=strict=true --plan=tiles=written --transpile -t 'cuda{function=exact}' %s | filecheck %s --check-prefix CUDA

#same = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: func.func @exact
// CHECK: kn.matmul %x, %w precision ieee : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
// TF32-LABEL: func.func @exact
// TF32: kn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
// CUDA: kn::gemm<CUBLAS_COMPUTE_32F>
func.func @exact(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %z = arith.constant dense<0.0> : tensor<4x2xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x2xf32>) outs(%z : tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %m : tensor<4x2xf32>
}

// Operands that were cast are multiplied as they were, and f16 is no less in TF32.
// CHECK-LABEL: func.func @casts
// CHECK-NEXT: kn.cast %w : tensor<8x2xf16> -> tensor<8x2xf32>
// CHECK-NEXT: kn.matmul %x, %w : (tensor<4x8xf16>, tensor<8x2xf16>) -> tensor<4x2xf32>
// CHECK-NEXT: kn.matmul %y, %{{.*}} precision ieee : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: kn.add
func.func @casts(%x: tensor<4x8xf16>, %y: tensor<4x8xf32>, %w: tensor<8x2xf16>) -> tensor<4x2xf32> {
  %z = arith.constant dense<0.0> : tensor<4x2xf32>
  %0 = tensor.empty() : tensor<4x8xf32>
  %x32 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf16>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %e = arith.extf %in : f16 to f32
    linalg.yield %e : f32
  } -> tensor<4x8xf32>
  %1 = tensor.empty() : tensor<8x2xf32>
  %w32 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<8x2xf16>) outs(%1 : tensor<8x2xf32>) {
  ^bb0(%in: f16, %out: f32):
    %e = arith.extf %in : f16 to f32
    linalg.yield %e : f32
  } -> tensor<8x2xf32>
  %m = linalg.matmul ins(%x32, %w32 : tensor<4x8xf32>, tensor<8x2xf32>) outs(%z : tensor<4x2xf32>) -> tensor<4x2xf32>
  %n = linalg.matmul ins(%y, %w32 : tensor<4x8xf32>, tensor<8x2xf32>) outs(%m : tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %n : tensor<4x2xf32>
}

// Vectors, a sum of several dimensions, and a transposed result.
// CHECK-LABEL: func.func @shapes
// CHECK: %[[COLUMN:.*]] = kn.view %v : tensor<8xf16, #cute.layout<(8):(1)>> -> tensor<8x1xf16
// CHECK: kn.matmul %x, %[[COLUMN]] : {{.*}} -> tensor<4x1xf32
// CHECK: kn.matmul %{{.*}}, %{{.*}} : (tensor<2x12xf16{{.*}}, tensor<12x5xf16{{.*}}) -> tensor<2x5xf16
// CHECK: kn.view {{.*}} -> tensor<5x2xf16
func.func @shapes(%x: tensor<4x8xf16>, %v: tensor<8xf16>, %a: tensor<2x3x4xf16>, %b: tensor<3x4x5xf16>) -> (tensor<4xf32>, tensor<5x2xf16>) {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %m = linalg.matvec ins(%x, %v : tensor<4x8xf16>, tensor<8xf16>) outs(%z : tensor<4xf32>) -> tensor<4xf32>
  %o = arith.constant dense<0.0> : tensor<5x2xf16>
  %t = linalg.generic {
    indexing_maps = [affine_map<(n, m, k, l) -> (m, k, l)>, affine_map<(n, m, k, l) -> (k, l, n)>, affine_map<(n, m, k, l) -> (n, m)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]
  } ins(%a, %b : tensor<2x3x4xf16>, tensor<3x4x5xf16>) outs(%o : tensor<5x2xf16>) {
  ^bb0(%p: f16, %q: f16, %c: f16):
    %s = arith.mulf %p, %q : f16
    %r = arith.addf %c, %s : f16
    linalg.yield %r : f16
  } -> tensor<5x2xf16>
  func.return %m, %t : tensor<4xf32>, tensor<5x2xf16>
}

// Two results of one generic, and a sum of an expression that keeps its dimension and starts at something.
// CHECK-LABEL: func.func @results
// CHECK-DAG: kn.exp %x
// CHECK-DAG: kn.tanh %x
// CHECK: %[[S:.*]] = kn.square %x : tensor<4x8xf16> -> tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = kn.reduction %[[S]] dim 1 : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT: kn.add_scalar %[[R]] by 1.000000e+00
func.func @results(%x: tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x1xf32>) {
  %one = arith.constant dense<1.0> : tensor<4x1xf32>
  %e = tensor.empty() : tensor<4x8xf16>
  %a, %b = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf16>) outs(%e, %e : tensor<4x8xf16>, tensor<4x8xf16>) {
  ^bb0(%in: f16, %o: f16, %p: f16):
    %c = math.exp %in : f16
    %d = math.tanh %in : f16
    linalg.yield %c, %d : f16, f16
  } -> (tensor<4x8xf16>, tensor<4x8xf16>)
  %s = linalg.generic {indexing_maps = [#same, affine_map<(d0, d1) -> (d0, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf16>) outs(%one : tensor<4x1xf32>) {
  ^bb0(%in: f16, %o: f32):
    %w = arith.extf %in : f16 to f32
    %q = arith.mulf %w, %w : f32
    %r = arith.addf %o, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x1xf32>
  func.return %a, %b, %s : tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x1xf32>
}
