#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0, d1) -> ()>
module {
  func.func @mlp(%arg0: tensor<8x16xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<32xf32>, %arg3: tensor<16x32xf32>, %arg4: tensor<16xf32>) -> tensor<8x16xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant dense<1.41421354> : tensor<f32>
    %cst_1 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_2 = arith.constant dense<5.000000e-01> : tensor<f32>
    %0 = tensor.empty() : tensor<16x32xf32>
    %transposed = linalg.transpose ins(%arg1 : tensor<32x16xf32>) outs(%0 : tensor<16x32xf32>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<8x32xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<8x32xf32>) -> tensor<8x32xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<8x16xf32>, tensor<16x32xf32>) outs(%2 : tensor<8x32xf32>) -> tensor<8x32xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %arg2 : tensor<8x32xf32>, tensor<32xf32>) outs(%1 : tensor<8x32xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.addf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x32xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%4, %cst_0 : tensor<8x32xf32>, tensor<f32>) outs(%1 : tensor<8x32xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.divf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x32xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<8x32xf32>) outs(%1 : tensor<8x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = math.erf %in : f32
      linalg.yield %17 : f32
    } -> tensor<8x32xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %cst_1 : tensor<8x32xf32>, tensor<f32>) outs(%1 : tensor<8x32xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.addf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x32xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%4, %7 : tensor<8x32xf32>, tensor<8x32xf32>) outs(%1 : tensor<8x32xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.mulf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x32xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%8, %cst_2 : tensor<8x32xf32>, tensor<f32>) outs(%1 : tensor<8x32xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.mulf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x32xf32>
    %10 = tensor.empty() : tensor<32x16xf32>
    %transposed_3 = linalg.transpose ins(%arg3 : tensor<16x32xf32>) outs(%10 : tensor<32x16xf32>) permutation = [1, 0] 
    %11 = tensor.empty() : tensor<8x16xf32>
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %13 = linalg.matmul ins(%9, %transposed_3 : tensor<8x32xf32>, tensor<32x16xf32>) outs(%12 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %arg4 : tensor<8x16xf32>, tensor<16xf32>) outs(%11 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.addf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %arg0 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%11 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %17 = arith.addf %in, %in_4 : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<8x16xf32>) outs(%11 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.cmpf ugt, %in, %cst : f32
      %18 = arith.select %17, %in, %cst : f32
      linalg.yield %18 : f32
    } -> tensor<8x16xf32>
    return %16 : tensor<8x16xf32>
  }
}

