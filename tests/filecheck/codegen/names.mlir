// Nothing of the input reaches C++ as it is.
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix CLEAN
// CLEAN-NOT: comment

// The symbol becomes an identifier; keywords, words of the runtime, possible macros and the types
// that generated code defines are renamed; a variable never hides the kernel that it is given to.
// CHECK: __global__ void __launch_bounds__({{.*}}) a_b_custom0(half_t const* float_v, half_t const* it_v, half_t* a_b_custom0) {
// CHECK: half_t* const A_v = reinterpret_cast<half_t*>(smem + {{[0-9]+}});
// CHECK: half_t* const Target_v = reinterpret_cast
// CHECK: float NULL_v[
// CHECK: half_t* const NULL_v_1 =
// CHECK: tb::Matmul<1, 1, A, B, true, true, atoms::SM80_16x8x16_F32F16F16F32_TN>::mma(NULL_v, A_v, Target_v, thread);
// CHECK: half_t *stream_v = (half_t*)input_tensors.at(0);
// CHECK-NEXT: half_t *a_b = (half_t*)input_tensors.at(1);
// CHECK-NEXT: half_t *a_b_custom0_1 = (half_t*)output_tensors.at(0);
// CHECK-NEXT: mugraph::launch("a_b_custom0", a_b_custom0, dim3(1, 1, 1), dim3(32, 1, 1), {{[0-9]+}}, mugraph::overlapping(stream), stream_v, a_b, a_b_custom0_1);
func.func @"a b;}"(%stream: tensor<16x16xf16>, %a__b: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %a_b_custom0 = kn.customized %stream, %a__b grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%float: tensor<16x16xf16>, %it: tensor<16x16xf16>):
    %A = tb.input %float imap [-1, -1, -1] {note = "*/ comment"} : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %Target = tb.input %it imap [-1, -1, -1] : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %NULL = tb.matmul %A, %Target then [accum] : (!tb.stensor<16x16xf16>, !tb.stensor<16x16xf16>) -> !tb.stensor<16x16xf16>
    tb.output %NULL omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
  func.return %a_b_custom0 : tensor<16x16xf16>
}
