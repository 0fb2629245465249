// A gated MLP whose weights lie on two GPUs, with the residual that its sum is added to.
//
//   mg-compile mlp.mlir --peers -o library
//   g++ -std=c++17 peers.cpp -Ilibrary/include -I$CUDA/include -Llibrary/lib -lmlp -L$CUDA/lib64 -lcudart -pthread
func.func @mlp(%x: tensor<16x512xf32>,
               %up: tensor<512x1024xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %gate: tensor<512x1024xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %down: tensor<1024x512xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x512xf32> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2]} {
  %u = kn.matmul %x, %up precision ieee : (tensor<16x512xf32>, tensor<512x1024xf32>) -> tensor<16x1024xf32>
  %g = kn.matmul %x, %gate precision ieee : (tensor<16x512xf32>, tensor<512x1024xf32>) -> tensor<16x1024xf32>
  %a = kn.silu %g : tensor<16x1024xf32> -> tensor<16x1024xf32>
  %m = kn.mul %u, %a : (tensor<16x1024xf32>, tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %d = kn.matmul %m, %down precision ieee : (tensor<16x1024xf32>, tensor<1024x512xf32>) -> tensor<16x512xf32>
  %y = kn.add %d, %x : (tensor<16x512xf32>, tensor<16x512xf32>) -> tensor<16x512xf32>
  func.return %y : tensor<16x512xf32>
}
