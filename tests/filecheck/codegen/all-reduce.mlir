// RUN: not mg-opt --plan=tiles=written --transpile -t cuda %s 2>&1 | filecheck %s
// CHECK: mg-opt: {{.*}}all-reduce.mlir:4:3: error: 'kn.all_reduce' %y is of several devices, for which no CUDA text is printed; mugraph.compile(program, mesh=DeviceMesh) runs it between kernels of one device
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.all_reduce %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
