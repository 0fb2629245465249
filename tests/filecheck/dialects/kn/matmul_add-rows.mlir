// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s
// RUN: mg-run %s --check

// Rows of what a kernel makes are padded, those of arguments lie as given; columns of one element are rows, too.
// CHECK: kn::gemm_add(stream, z,x,w,r, {7,3,5, [[ROW:[0-9]+]],5,4,3, false});
// CHECK: kn::gemm_add(stream, y,z,v,c, {7,1,3, 1,[[ROW]],1,1, false});
func.func @padded(%x: tensor<7x5xf16>, %w: tensor<5x3xf16, #cute.layout<(5,3):(4,1)>>, %r: tensor<7x3xf16>, %v: tensor<3x1xf16>, %c: tensor<7x1xf16>) -> tensor<7x1xf16> {
  %z = kn.matmul_add %x, %w, %r : (tensor<7x5xf16>, tensor<5x3xf16, #cute.layout<(5,3):(4,1)>>, tensor<7x3xf16>) -> tensor<7x3xf16>
  %y = kn.matmul_add %z, %v, %c : (tensor<7x3xf16>, tensor<3x1xf16>, tensor<7x1xf16>) -> tensor<7x1xf16>
  func.return %y : tensor<7x1xf16>
}
