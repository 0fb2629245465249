// What a kernel stores for a product by cuBLAS lies along the sums where columns of it have no whole
// 16 bytes: cuBLAS has slow kernels for those.
// RUN: mg-opt --resolve-layout=arch=h200 %s | filecheck %s

// CHECK: kn.matmul %g, %vt : (tensor<197x3072xbf16, #cute.layout<(197,3072):(3072,1)>>
func.func @p(%x: tensor<197x768xbf16>, %w: tensor<3072x768xbf16, #cute.layout<(3072,768):(768,1)>> {mugraph.constant}, %b: tensor<1x3072xbf16> {mugraph.constant}, %v: tensor<768x3072xbf16, #cute.layout<(768,3072):(3072,1)>> {mugraph.constant}) -> tensor<197x768xf32> {
  %wt = kn.view %w : tensor<3072x768xbf16, #cute.layout<(3072,768):(768,1)>> -> tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>
  %vt = kn.view %v : tensor<768x3072xbf16, #cute.layout<(768,3072):(3072,1)>> -> tensor<3072x768xbf16, #cute.layout<(3072,768):(1,3072)>>
  %g = kn.customized %x, %wt, %b grid [32, 4, 1] block [128, 1, 1] forloop 12 plan <tiles = written, pdl = end> {
  ^bb0(%x_1: tensor<197x768xbf16>, %wt_1: tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>, %b_1: tensor<1x3072xbf16>):
    %x_2 = tb.input %x_1 imap [-1, 0, -1] fordim 1 : tensor<197x768xbf16> -> !tb.stensor<64x64xbf16>
    %wt_2 = tb.input %wt_1 imap [1, -1, -1] fordim 0 : tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>> -> !tb.stensor<64x96xbf16>
    %s = tb.matmul %x_2, %wt_2 then [accum] : (!tb.stensor<64x64xbf16>, !tb.stensor<64x96xbf16>) -> !tb.stensor<64x96xf32>
    %b_2 = tb.input %b_1 imap [1, -1, -1] : tensor<1x3072xbf16> -> !tb.stensor<1x96xbf16>
    %g_1 = tb.add %s, %b_2 then [gelu] : (!tb.stensor<64x96xf32>, !tb.stensor<1x96xbf16>) -> !tb.stensor<64x96xbf16>
    tb.output %g_1 omap [1, 0, -1] : !tb.stensor<64x96xbf16> -> tensor<197x3072xbf16>
  } : (tensor<197x768xbf16>, tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>, tensor<1x3072xbf16>) -> tensor<197x3072xbf16>
  %o = kn.matmul %g, %vt : (tensor<197x3072xbf16>, tensor<3072x768xbf16, #cute.layout<(3072,768):(1,3072)>>) -> tensor<197x768xf32>
  func.return %o : tensor<197x768xf32>
}

// Up to 512 of them, as a call says, may be any number.
// CHECK: kn.matmul %g, %vt : (tensor<512x3072xbf16, #cute.layout<(512,3072):(3072,1)>>
func.func @q(%x: tensor<512x768xbf16> {mugraph.extent = ["m", ""]}, %w: tensor<3072x768xbf16, #cute.layout<(3072,768):(768,1)>> {mugraph.constant}, %b: tensor<1x3072xbf16> {mugraph.constant}, %v: tensor<768x3072xbf16, #cute.layout<(768,3072):(3072,1)>> {mugraph.constant}) -> (tensor<512x768xf32> {mugraph.extent = ["m", ""]}) attributes {mugraph.extents = {m = {largest = 512, least = 257}}} {
  %wt = kn.view %w : tensor<3072x768xbf16, #cute.layout<(3072,768):(768,1)>> -> tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>
  %vt = kn.view %v : tensor<768x3072xbf16, #cute.layout<(768,3072):(3072,1)>> -> tensor<3072x768xbf16, #cute.layout<(3072,768):(1,3072)>>
  %g = kn.customized %x, %wt, %b grid [32, 4, 1] block [128, 1, 1] forloop 12 plan <tiles = written, pdl = end> {
  ^bb0(%x_1: tensor<512x768xbf16>, %wt_1: tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>, %b_1: tensor<1x3072xbf16>):
    %x_2 = tb.input %x_1 imap [-1, 0, -1] fordim 1 : tensor<512x768xbf16> -> !tb.stensor<128x64xbf16>
    %wt_2 = tb.input %wt_1 imap [1, -1, -1] fordim 0 : tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>> -> !tb.stensor<64x96xbf16>
    %s = tb.matmul %x_2, %wt_2 then [accum] : (!tb.stensor<128x64xbf16>, !tb.stensor<64x96xbf16>) -> !tb.stensor<128x96xf32>
    %b_2 = tb.input %b_1 imap [1, -1, -1] : tensor<1x3072xbf16> -> !tb.stensor<1x96xbf16>
    %g_1 = tb.add %s, %b_2 then [gelu] : (!tb.stensor<128x96xf32>, !tb.stensor<1x96xbf16>) -> !tb.stensor<128x96xbf16>
    tb.output %g_1 omap [1, 0, -1] : !tb.stensor<128x96xbf16> -> tensor<512x3072xbf16>
  } : (tensor<512x768xbf16>, tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>, tensor<1x3072xbf16>) -> tensor<512x3072xbf16>
  %o = kn.matmul %g, %vt : (tensor<512x3072xbf16>, tensor<3072x768xbf16, #cute.layout<(3072,768):(1,3072)>>) -> tensor<512x768xf32>
  func.return %o : tensor<512x768xf32>
}

// Rows leave the registers of warp groups as they lie there; columns would go through shared memory.
// CHECK: kn.matmul %g, %vt : (tensor<512x3072xbf16, #cute.layout<(512,3072):(3072,1)>>
func.func @r(%x: tensor<512x768xbf16>, %w: tensor<3072x768xbf16, #cute.layout<(3072,768):(768,1)>> {mugraph.constant}, %b: tensor<1x3072xbf16> {mugraph.constant}, %v: tensor<768x3072xbf16, #cute.layout<(768,3072):(3072,1)>> {mugraph.constant}) -> tensor<512x768xf32> {
  %wt = kn.view %w : tensor<3072x768xbf16, #cute.layout<(3072,768):(768,1)>> -> tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>
  %vt = kn.view %v : tensor<768x3072xbf16, #cute.layout<(768,3072):(3072,1)>> -> tensor<3072x768xbf16, #cute.layout<(3072,768):(1,3072)>>
  %g = kn.customized %x, %wt, %b grid [32, 4, 1] block [128, 1, 1] forloop 12 plan <tiles = written, pdl = end> {
  ^bb0(%x_1: tensor<512x768xbf16>, %wt_1: tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>, %b_1: tensor<1x3072xbf16>):
    %x_2 = tb.input %x_1 imap [-1, 0, -1] fordim 1 : tensor<512x768xbf16> -> !tb.stensor<128x64xbf16>
    %wt_2 = tb.input %wt_1 imap [1, -1, -1] fordim 0 : tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>> -> !tb.stensor<64x96xbf16>
    %s = tb.matmul %x_2, %wt_2 then [accum] : (!tb.stensor<128x64xbf16>, !tb.stensor<64x96xbf16>) -> !tb.stensor<128x96xf32>
    %b_2 = tb.input %b_1 imap [1, -1, -1] : tensor<1x3072xbf16> -> !tb.stensor<1x96xbf16>
    %g_1 = tb.add %s, %b_2 then [gelu] : (!tb.stensor<128x96xf32>, !tb.stensor<1x96xbf16>) -> !tb.stensor<128x96xbf16>
    tb.output %g_1 omap [1, 0, -1] : !tb.stensor<128x96xbf16> -> tensor<512x3072xbf16>
  } : (tensor<512x768xbf16>, tensor<768x3072xbf16, #cute.layout<(768,3072):(1,768)>>, tensor<1x3072xbf16>) -> tensor<512x3072xbf16>
  %o = kn.matmul %g, %vt : (tensor<512x3072xbf16>, tensor<3072x768xbf16, #cute.layout<(3072,768):(1,3072)>>) -> tensor<512x768xf32>
  func.return %o : tensor<512x768xf32>
}
