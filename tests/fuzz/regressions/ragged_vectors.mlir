// Rows of 61 in padded rows of 64: copies of 16 bytes, of whose last a part exists; the gap stays untouched.
func.func @fuzzed(%signed: tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>)
    -> (tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>, tensor<21x16xf32>) {
  %o:2 = kn.customized %signed grid [2, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : tensor<21x61xf16, #cute.layout<(21,61):(64,1)>> -> !tb.stensor<11x16xf16>
    %e = tb.exp %s : !tb.stensor<11x16xf16> -> !tb.stensor<11x16xf16>
    tb.output %e omap [0, -1, -1] fordim 1 : !tb.stensor<11x16xf16> -> tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>
    %a = tb.forloop_accum none %e : !tb.stensor<11x16xf16> -> !tb.stensor<11x16xf32>
    tb.output %a omap [0, -1, -1] : !tb.stensor<11x16xf32> -> tensor<21x16xf32>
  } : (tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>) -> (tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>, tensor<21x16xf32>)
  func.return %o#0, %o#1 : tensor<21x61xf16, #cute.layout<(21,61):(64,1)>>, tensor<21x16xf32>
}
