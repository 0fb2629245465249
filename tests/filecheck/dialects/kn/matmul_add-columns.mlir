// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s
// RUN: mg-run %s --check

// A weight that was transposed is read where it lies, column-major, and so are columns of one element; no kernel lays it out.
// CHECK-NOT: __global__
// CHECK: kn::gemm_add(stream, z,x,t,r, {16,24,40, 24,40,40,24, true});
// CHECK: kn::gemm_add(stream, y,c,v,z, {16,24,1, 24,1,4,24, true});
func.func @columns(%x: tensor<16x40xbf16>, %w: tensor<24x40xbf16>, %r: tensor<16x24xbf16>, %c: tensor<16x1xbf16>, %v: tensor<1x24xbf16, #cute.layout<(1,24):(1,4)>>) -> tensor<16x24xbf16> {
  %t = kn.transpose %w dims [1, 0] : tensor<24x40xbf16> -> tensor<40x24xbf16>
  %z = kn.matmul_add %x, %t, %r : (tensor<16x40xbf16>, tensor<40x24xbf16>, tensor<16x24xbf16>) -> tensor<16x24xbf16>
  %y = kn.matmul_add %c, %v, %z : (tensor<16x1xbf16>, tensor<1x24xbf16, #cute.layout<(1,24):(1,4)>>, tensor<16x24xbf16>) -> tensor<16x24xbf16>
  func.return %y : tensor<16x24xbf16>
}
