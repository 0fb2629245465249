// Kernel level: element-wise operators with broadcast, intermediates in the workspace.
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s

// CHECK: // buf: 512 bytes of device memory for intermediates.
// CHECK: _execute_mugraph(
// CHECK:      // OP type: kn.mul_scalar
// CHECK-NEXT: half_t *x = (half_t*)input_tensors.at(0);
// CHECK-NEXT: half_t *scaled = (half_t*)((char*)buf + 0);
// CHECK-NEXT: using Target = Layout<Shape<Int<9>, Int<6>>, Stride<Int<1>, Int<16>>>;
// CHECK-NEXT: using Source0 = Layout<Shape<Int<9>, Int<6>>, Stride<Int<1>, Int<9>>>;
// CHECK-NEXT: kn::Elementwise<ops::MulScalar<0x3f000000u>, Target, Source0>::run(mugraph::overlapping(stream), scaled, x);
// A source of extent 1 has stride 0: row, then column.
// CHECK:      // OP type: kn.add
// CHECK-NEXT: half_t *scaled = (half_t*)((char*)buf + 0);
// CHECK-NEXT: float *row = (float*)input_tensors.at(1);
// CHECK-NEXT: half_t *sum = (half_t*)((char*)buf + 256);
// CHECK:      using Source1 = Layout<Shape<Int<9>, Int<6>>, Stride<Int<1>, Int<0>>>;
// CHECK-NEXT: kn::Elementwise<ops::Add, Target, Source0, Source1>::run(mugraph::overlapping(stream), sum, scaled, row);
// CHECK:      // OP type: kn.div
// CHECK:      float *column = (float*)input_tensors.at(2);
// CHECK:      float *quotient = (float*)output_tensors.at(1);
// CHECK:      using Source1 = Layout<Shape<Int<9>, Int<6>>, Stride<Int<0>, Int<1>>>;
// CHECK:      // OP type: kn.sqrt
// CHECK:      half_t *root = (half_t*)output_tensors.at(0);
// CHECK-NOT:  (void)buf;
func.func @host(%x: tensor<6x9xf16>, %row: tensor<1x9xf32>, %column: tensor<6x1xf32>) -> (tensor<6x9xf16>, tensor<6x9xf32>) {
  %scaled = kn.mul_scalar %x by 0.5 : tensor<6x9xf16> -> tensor<6x9xf16>
  %sum = kn.add %scaled, %row : (tensor<6x9xf16>, tensor<1x9xf32>) -> tensor<6x9xf16>
  %quotient = kn.div %sum, %column : (tensor<6x9xf16>, tensor<6x1xf32>) -> tensor<6x9xf32>
  %root = kn.sqrt %sum : tensor<6x9xf16> -> tensor<6x9xf16>
  func.return %root, %quotient : tensor<6x9xf16>, tensor<6x9xf32>
}
