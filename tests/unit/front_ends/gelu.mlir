// As torch-mlir writes nn.GELU(approximate="tanh") of f16, in f32 and with captured constants.
#same = affine_map<(d0, d1) -> (d0, d1)>
func.func @gelu(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %half = arith.constant 5.0e-01 : f32
  %cubic = arith.constant 4.471500e-02 : f32
  %scale = arith.constant 0.79788456080286541 : f64
  %one = arith.constant 1 : i64
  %three = arith.constant 3 : i32
  %0 = tensor.empty() : tensor<8x32xf32>
  %x32 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf16>) outs(%0 : tensor<8x32xf32>) {
  ^bb0(%in: f16, %out: f32):
    %e = arith.extf %in : f16 to f32
    linalg.yield %e : f32
  } -> tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x32 : tensor<8x32xf32>) outs(%0 : tensor<8x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %p = math.fpowi %in, %three : f32, i32
    %c = arith.mulf %p, %cubic : f32
    %a = arith.addf %in, %c : f32
    %f = arith.truncf %scale : f64 to f32
    %m = arith.mulf %a, %f : f32
    %h = math.tanh %m : f32
    linalg.yield %h : f32
  } -> tensor<8x32xf32>
  %1 = tensor.empty() : tensor<8x32xf16>
  %y = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%x32, %t : tensor<8x32xf32>, tensor<8x32xf32>) outs(%1 : tensor<8x32xf16>) {
  ^bb0(%in: f32, %th: f32, %out: f16):
    %f = arith.sitofp %one : i64 to f32
    %a = arith.addf %th, %f : f32
    %p = arith.mulf %in, %half : f32
    %m = arith.mulf %p, %a : f32
    %c = arith.truncf %m : f32 to f16
    linalg.yield %c : f16
  } -> tensor<8x32xf16>
  func.return %y : tensor<8x32xf16>
}
