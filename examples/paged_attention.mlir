// Decode attention over a paged cache: each of 4 sequences has 8 pages of 64 keys, wherever they lie
// among the 50 of the cache. A tile is loaded through the table of pages: block x has row x of it, and
// iteration i the page that its entry i names. Keys lie as values do, page by page and key by key;
// the strides of %k show them transposed. Nothing is gathered in memory:
//
//   mg-opt --transpile -t cuda examples/paged_attention.mlir
//   mg-run examples/paged_attention.mlir --check

func.func @paged_attention(%q: tensor<4x1x16x64xf16>, %k: tensor<50x64x64xf16, #cute.layout<(50,64,64):(4096,1,64)>>, %v: tensor<50x64x64xf16>, %table: tensor<4x8xi32>) -> tensor<4x1x16x64xf16> {
  %o = kn.customized %q, %k, %v, %table grid [4, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dq: tensor<4x1x16x64xf16>, %dk: tensor<50x64x64xf16, #cute.layout<(50,64,64):(4096,1,64)>>, %dv: tensor<50x64x64xf16>, %dtable: tensor<4x8xi32>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<4x1x16x64xf16> -> !tb.stensor<1x1x16x64xf16>
    %sk = tb.input %dk through %dtable imap [0, -1, -1] fordim 1 : tensor<50x64x64xf16, #cute.layout<(50,64,64):(4096,1,64)>>, tensor<4x8xi32> -> !tb.stensor<1x1x64x64xf16>
    %sv = tb.input %dv through %dtable imap [0, -1, -1] fordim 1 : tensor<50x64x64xf16>, tensor<4x8xi32> -> !tb.stensor<1x1x64x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<1x1x16x64xf16>, !tb.stensor<1x1x64x64xf16>) -> !tb.stensor<1x1x16x64xf16>
    %e = tb.exp %s : !tb.stensor<1x1x16x64xf16> -> !tb.stensor<1x1x16x64xf16>
    %n = tb.matmul %e, %sv : (!tb.stensor<1x1x16x64xf16>, !tb.stensor<1x1x64x64xf16>) -> !tb.stensor<1x1x16x64xf16>
    %an = tb.forloop_accum none %n : !tb.stensor<1x1x16x64xf16> -> !tb.stensor<1x1x16x64xf16>
    %ad = tb.forloop_accum sum %e : !tb.stensor<1x1x16x64xf16> -> !tb.stensor<1x1x16x1xf16>
    %r = tb.div %an, %ad : (!tb.stensor<1x1x16x64xf16>, !tb.stensor<1x1x16x1xf16>) -> !tb.stensor<1x1x16x64xf16>
    tb.output %r omap [0, -1, -1] : !tb.stensor<1x1x16x64xf16> -> tensor<4x1x16x64xf16>
  } : (tensor<4x1x16x64xf16>, tensor<50x64x64xf16, #cute.layout<(50,64,64):(4096,1,64)>>, tensor<50x64x64xf16>, tensor<4x8xi32>) -> tensor<4x1x16x64xf16>
  func.return %o : tensor<4x1x16x64xf16>
}
