// As torch-mlir writes nn.Linear of f16 on a batch of sequences: the weight is transposed and repeated for the batch, sums
// are f32, and the result is rounded before the bias is added.
#same = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#last = affine_map<(d0, d1, d2) -> (d2)>
#matrix = affine_map<(d0, d1, d2) -> (d1, d2)>
func.func @linear(%x: tensor<2x8x32xf16>, %w: tensor<16x32xf16>, %b: tensor<16xf16>) -> tensor<2x8x16xf16> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<32x16xf16>
  %t = linalg.transpose ins(%w : tensor<16x32xf16>) outs(%0 : tensor<32x16xf16>) permutation = [1, 0]
  %1 = tensor.empty() : tensor<2x32x16xf16>
  %r = linalg.generic {indexing_maps = [#matrix, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : tensor<32x16xf16>) outs(%1 : tensor<2x32x16xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<2x32x16xf16>
  %2 = tensor.empty() : tensor<2x8x16xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %m = linalg.batch_matmul ins(%x, %r : tensor<2x8x32xf16>, tensor<2x32x16xf16>) outs(%3 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %4 = tensor.empty() : tensor<2x8x16xf16>
  %h = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m : tensor<2x8x16xf32>) outs(%4 : tensor<2x8x16xf16>) {
  ^bb0(%in: f32, %out: f16):
    %c = arith.truncf %in : f32 to f16
    linalg.yield %c : f16
  } -> tensor<2x8x16xf16>
  %y = linalg.generic {indexing_maps = [#same, #last, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h, %b : tensor<2x8x16xf16>, tensor<16xf16>) outs(%4 : tensor<2x8x16xf16>) {
  ^bb0(%in: f16, %bias: f16, %out: f16):
    %s = arith.addf %in, %bias : f16
    linalg.yield %s : f16
  } -> tensor<2x8x16xf16>
  func.return %y : tensor<2x8x16xf16>
}
