// Linear attention whose state decays by a number at each token, as Mamba-2's, in chunks of 64 tokens:
// S_t = a_t S_(t-1) + k_t v_t, o_t = q_t S_t, of 16 heads, 4096 tokens and width 64.  %k has a column for each token;
// %g are the logarithms of the decays.  A block computes a head; its loop walks the chunks and carries S.
//
// With G the sum of the logarithms up to a token, within its chunk, and E that of the whole chunk:
//   o = exp(G) (q S) + (q kT * exp(G_i - G_j) where j <= i) v
//   S = exp(E) S + (kT * exp(E - G)) v
func.func @linear_attention(%q: tensor<16x4096x64xbf16>, %k: tensor<16x64x4096xbf16>, %v: tensor<16x4096x64xbf16>, %g: tensor<16x4096x1xf32>) -> (tensor<16x4096x64xbf16>, tensor<16x64x64xf32>) {
  %g_across = kn.reshape %g : tensor<16x4096x1xf32> -> tensor<16x1x4096xf32>
  %o, %s = kn.customized %q, %k, %v, %g, %g_across grid [16, 1, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dq: tensor<16x4096x64xbf16>, %dk: tensor<16x64x4096xbf16>, %dv: tensor<16x4096x64xbf16>, %dg: tensor<16x4096x1xf32>, %da: tensor<16x1x4096xf32>):
    %sq = tb.input %dq imap [0, -1, -1] fordim 1 : tensor<16x4096x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<16x64x4096xbf16> -> !tb.stensor<1x64x64xbf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<16x4096x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %down = tb.input %dg imap [0, -1, -1] fordim 1 : tensor<16x4096x1xf32> -> !tb.stensor<1x64x1xf32>
    %across = tb.input %da imap [0, -1, -1] fordim 2 : tensor<16x1x4096xf32> -> !tb.stensor<1x1x64xf32>
    %state = tb.carried : !tb.stensor<1x64x64xf32>
    // The logarithms of the decays, summed up to each token: as a column, and as a row.
    %zeros = tb.fill %down with 0.0 : !tb.stensor<1x64x1xf32> -> !tb.stensor<1x64x1xf32>
    %square = tb.add %across, %zeros : (!tb.stensor<1x1x64xf32>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x64xf32>
    %before = tb.mask %square with 0.0 where affine_set<(h, i, j) : (i - j >= 0)> of [1, 64, 64] imap [-1, -1, -1] : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xf32>
    %rows = tb.reduction %before dim 2 : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x1xf32>
    %zeros_across = tb.fill %across with 0.0 : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x64xf32>
    %square_across = tb.add %down, %zeros_across : (!tb.stensor<1x64x1xf32>, !tb.stensor<1x1x64xf32>) -> !tb.stensor<1x64x64xf32>
    %before_across = tb.mask %square_across with 0.0 where affine_set<(h, i, j) : (j - i >= 0)> of [1, 64, 64] imap [-1, -1, -1] : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xf32>
    %columns = tb.reduction %before_across dim 1 : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x1x64xf32>
    %whole = tb.reduction %across dim 2 : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x1xf32>
    // What the chunk's own tokens add, of which each sees those before it and itself.
    %difference = tb.sub %rows, %columns : (!tb.stensor<1x64x1xf32>, !tb.stensor<1x1x64xf32>) -> !tb.stensor<1x64x64xf32>
    %causal = tb.mask %difference with -inf where affine_set<(h, i, j) : (i - j >= 0)> of [1, 64, 64] imap [-1, -1, -1] : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xf32>
    %ratios = tb.exp %causal : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xf32>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %weighted = tb.mul %scores, %ratios : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x64xf32>) -> !tb.stensor<1x64x64xf32>
    %weights = tb.cast %weighted : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xbf16>
    %own = tb.matmul %weights, %sv : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    // What tokens of earlier chunks add, through the state.
    %rounded = tb.cast %state : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xbf16>
    %read = tb.matmul %sq, %rounded : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %decays = tb.exp %rows : !tb.stensor<1x64x1xf32> -> !tb.stensor<1x64x1xf32>
    %earlier = tb.mul %read, %decays : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x64xf32>
    %sum = tb.add %own, %earlier : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x64xf32>) -> !tb.stensor<1x64x64xf32>
    %out = tb.cast %sum : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xbf16>
    tb.output %out omap [0, -1, -1] fordim 1 : !tb.stensor<1x64x64xbf16> -> tensor<16x4096x64xbf16>
    // The state of the next chunk.
    %left = tb.sub %whole, %columns : (!tb.stensor<1x1x1xf32>, !tb.stensor<1x1x64xf32>) -> !tb.stensor<1x1x64xf32>
    %remains = tb.exp %left : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x64xf32>
    %remains_rounded = tb.cast %remains : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x64xbf16>
    %keys = tb.mul %sk, %remains_rounded : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x64x64xbf16>
    %added = tb.matmul %keys, %sv : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %decay = tb.exp %whole : !tb.stensor<1x1x1xf32> -> !tb.stensor<1x1x1xf32>
    %kept = tb.mul %state, %decay : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x1x1xf32>) -> !tb.stensor<1x64x64xf32>
    %next = tb.add %kept, %added : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x64xf32>) -> !tb.stensor<1x64x64xf32>
    %last = tb.carry %next to %state : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x64xf32>) -> !tb.stensor<1x64x64xf32>
    tb.output %last omap [0, -1, -1] : !tb.stensor<1x64x64xf32> -> tensor<16x64x64xf32>
  } : (tensor<16x4096x64xbf16>, tensor<16x64x4096xbf16>, tensor<16x4096x64xbf16>, tensor<16x4096x1xf32>, tensor<16x1x4096xf32>) -> (tensor<16x4096x64xbf16>, tensor<16x64x64xf32>)
  func.return %o, %s : tensor<16x4096x64xbf16>, tensor<16x64x64xf32>
}
