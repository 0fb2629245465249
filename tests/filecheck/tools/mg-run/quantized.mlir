// A right µGraph that quantizes passes: float64 is rounded to integers and f8 as well.  What that
// makes of the rounding errors before is derived, and much less than a unit of the type.
// RUN: mg-run %s --check | filecheck %s
// CHECK:      check: output 0, 16x16 float16: relative error {{.*}} against float64, within 0.007{{[0-9]+}}
// CHECK-NEXT: check: output 1, 16x64 int8: relative error 0.00e+00 against float64, within 0{{$}}

// In the generated schedule nothing is rounded between exp and the cast.
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile %s | mg-run --check | filecheck %s --check-prefix SCHEDULE
// SCHEDULE:      check: output 0, 16x16 float16: relative error {{.*}} against float64, within 0.002
// SCHEDULE-NEXT: check: output 1, 16x64 int8: relative error 0.00e+00 against float64, within 0{{$}}

func.func @quantized(%x: tensor<16x64xf16>, %w: tensor<64x16xf8E4M3FN>) -> (tensor<16x16xf16>, tensor<16x64xi8>) {
  %o:2 = kn.customized %x, %w grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>, %dw: tensor<64x16xf8E4M3FN>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<64x16xf8E4M3FN> -> !tb.stensor<64x16xf8E4M3FN>
    %i = tb.cast %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xi8>
    %e = tb.exp %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %q = tb.cast %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf8E4M3FN>
    %m = tb.matmul %q, %sw : (!tb.stensor<16x64xf8E4M3FN>, !tb.stensor<64x16xf8E4M3FN>) -> !tb.stensor<16x16xf16>
    tb.output %m omap [-1, -1, -1] fordim 0 : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
    tb.output %i omap [-1, -1, -1] fordim 0 : !tb.stensor<16x64xi8> -> tensor<16x64xi8>
  } : (tensor<16x64xf16>, tensor<64x16xf8E4M3FN>) -> (tensor<16x16xf16>, tensor<16x64xi8>)
  func.return %o#0, %o#1 : tensor<16x16xf16>, tensor<16x64xi8>
}
