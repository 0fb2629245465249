// As torch-mlir writes nn.LayerNorm of f16: sums that keep their dimension, captured constants, casts, and broadcasts of
// what was computed a row.
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
#rows = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
func.func @layer_norm(%x: tensor<16x64xf16>, %w: tensor<64xf16>, %b: tensor<64xf16>) -> tensor<16x64xf16> {
  %zero = arith.constant 0.0 : f32
  %eps = arith.constant 1.0e-05 : f64
  %n = arith.constant 64 : i64
  %0 = tensor.empty() : tensor<16x64xf32>
  %x32 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x64xf16>) outs(%0 : tensor<16x64xf32>) {
  ^bb0(%in: f16, %out: f32):
    %e = arith.extf %in : f16 to f32
    linalg.yield %e : f32
  } -> tensor<16x64xf32>
  %1 = tensor.empty() : tensor<16x1xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%1 : tensor<16x1xf32>) -> tensor<16x1xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x32 : tensor<16x64xf32>) outs(%2 : tensor<16x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<16x1xf32>
  %mean = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%sum : tensor<16x1xf32>) outs(%1 : tensor<16x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.sitofp %n : i64 to f32
    %d = arith.divf %in, %c : f32
    linalg.yield %d : f32
  } -> tensor<16x1xf32>
  %wide = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%mean : tensor<16x1xf32>) outs(%0 : tensor<16x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<16x64xf32>
  %centered = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x32, %wide : tensor<16x64xf32>, tensor<16x64xf32>) outs(%0 : tensor<16x64xf32>) {
  ^bb0(%in: f32, %m: f32, %out: f32):
    %d = arith.subf %in, %m : f32
    linalg.yield %d : f32
  } -> tensor<16x64xf32>
  %sq = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%centered, %centered : tensor<16x64xf32>, tensor<16x64xf32>) outs(%0 : tensor<16x64xf32>) {
  ^bb0(%in: f32, %m: f32, %out: f32):
    %d = arith.mulf %in, %m : f32
    linalg.yield %d : f32
  } -> tensor<16x64xf32>
  %var = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%sq : tensor<16x64xf32>) outs(%2 : tensor<16x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<16x1xf32>
  %r = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%var : tensor<16x1xf32>) outs(%1 : tensor<16x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.sitofp %n : i64 to f32
    %d = arith.divf %in, %c : f32
    %t = arith.truncf %eps : f64 to f32
    %a = arith.addf %d, %t : f32
    %q = math.rsqrt %a : f32
    linalg.yield %q : f32
  } -> tensor<16x1xf32>
  %rw = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<16x1xf32>) outs(%0 : tensor<16x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<16x64xf32>
  %h = tensor.empty() : tensor<16x64xf16>
  %y = linalg.generic {indexing_maps = [#id, #id, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%centered, %rw, %w, %b : tensor<16x64xf32>, tensor<16x64xf32>, tensor<64xf16>, tensor<64xf16>) outs(%h : tensor<16x64xf16>) {
  ^bb0(%in: f32, %s: f32, %ww: f16, %bb: f16, %out: f16):
    %m = arith.mulf %in, %s : f32
    %w32 = arith.extf %ww : f16 to f32
    %b32 = arith.extf %bb : f16 to f32
    %p = arith.mulf %m, %w32 : f32
    %a = arith.addf %p, %b32 : f32
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<16x64xf16>
  func.return %y : tensor<16x64xf16>
}
