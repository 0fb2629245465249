// A residual of 64 KB beside stages of 48 KB; the last row of blocks has half of its rows.
func.func @f(%a: tensor<320x384xf16>, %b: tensor<384x512xf16>, %r: tensor<320x512xf16>)
    -> tensor<320x512xf16> {
  %o = kn.customized %a, %b, %r grid [2, 3, 1] block [256, 1, 1] forloop 6 {
  ^bb0(%da: tensor<320x384xf16>, %db: tensor<384x512xf16>, %dr: tensor<320x512xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<320x384xf16> -> !tb.stensor<128x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<384x512xf16> -> !tb.stensor<64x256xf16>
    %sr = tb.input %dr imap [1, 0, -1] : tensor<320x512xf16> -> !tb.stensor<128x256xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<128x64xf16>, !tb.stensor<64x256xf16>) -> !tb.stensor<128x256xf16>
    %t = tb.forloop_accum none %m : !tb.stensor<128x256xf16> -> !tb.stensor<128x256xf16>
    %s = tb.add %t, %sr
      : (!tb.stensor<128x256xf16>, !tb.stensor<128x256xf16>) -> !tb.stensor<128x256xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x256xf16> -> tensor<320x512xf16>
  } : (tensor<320x384xf16>, tensor<384x512xf16>, tensor<320x512xf16>) -> tensor<320x512xf16>
  func.return %o : tensor<320x512xf16>
}
