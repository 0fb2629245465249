// RUN: not mg-opt --resolve-layout %s 2>&1 | filecheck %s

// CHECK: mg-opt: {{.*}}contradiction.mlir:6:3: error: --resolve-layout: no layouts of @f meet all requirements, because 'kn.matmul' %o calls cuBLAS, which needs stride 1 along one of the last two dimensions of %x, whose strides are (1,32,4); change a layout in the signature
// CHECK-NOT: Traceback
func.func @f(%x: tensor<4x8x8xf16, #cute.layout<(4,8,8):(1,32,4)>>, %y: tensor<4x8x8xf16>) -> tensor<4x8x8xf16> {
  %o = kn.matmul %x, %y : (tensor<4x8x8xf16, #cute.layout<(4,8,8):(1,32,4)>>, tensor<4x8x8xf16>) -> tensor<4x8x8xf16>
  func.return %o : tensor<4x8x8xf16>
}
