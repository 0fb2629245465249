// RUN: not mg-opt --transpile -t cuda %s 2>&1 | filecheck %s
// CHECK: mg-opt: error: 'kn.exp' %y: %y spans 4294967296 elements; kn::Elementwise counts in 32 bits, at most 2147483647: split the tensor, or use a custom kernel
func.func @large(%x: tensor<65536x65536xf16>) -> tensor<65536x65536xf16> {
  %y = kn.exp %x : tensor<65536x65536xf16> -> tensor<65536x65536xf16>
  func.return %y : tensor<65536x65536xf16>
}
