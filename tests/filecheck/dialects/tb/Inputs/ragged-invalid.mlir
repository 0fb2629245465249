func.func @other_elements(%x: tensor<7x8xf16>, %y: tensor<8x8xf16>) {
  %o = kn.customized %x, %y grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<7x8xf16>, %e: tensor<8x8xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<7x8xf16> -> !tb.stensor<4x8xf16>
    %t = tb.input %e imap [0, -1, -1] : tensor<8x8xf16> -> !tb.stensor<4x8xf16>
    %a = tb.add %s, %t : (!tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
    %b = tb.forloop_accum none %a : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %b omap [0, -1, -1] : !tb.stensor<4x8xf16> -> tensor<7x8xf16>
  } : (tensor<7x8xf16>, tensor<8x8xf16>) -> tensor<7x8xf16>
  func.return
}

// -----

func.func @stores_what_does_not_exist(%x: tensor<7x8xf16>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<7x8xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<7x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<4x8xf16> -> tensor<8x8xf16>
  } : (tensor<7x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

func.func @broadcasts_nothing(%x: tensor<3x8xf16>, %y: tensor<4x8xf16>) {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<3x8xf16>, %e: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 0 : tensor<3x8xf16> -> !tb.stensor<1x8xf16>
    %t = tb.input %e imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %a = tb.add %s, %t : (!tb.stensor<1x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
    %b = tb.forloop_accum none %a : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<3x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

func.func @too_late(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x8xf16> -> !tb.stensor<4x4xf16>
    %a = tb.forloop_accum none %s : !tb.stensor<4x4xf16> -> !tb.stensor<4x4xf16>
    tb.output %a omap [-1, -1, -1] fordim 1 : !tb.stensor<4x4xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

func.func @other_slices(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] fordim 1 : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

func.func @other_grid(%x: tensor<7x8xf16>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<7x8xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<7x8xf16> -> !tb.stensor<4x8xf16>
    %m = tb.mask %s with 0.0 outside [#tb.ragged<dim 0, extent 7, step 4, blocks [3, 1, 1], tile 4>] then [accum] : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<4x8xf16> -> tensor<7x8xf16>
  } : (tensor<7x8xf16>) -> tensor<7x8xf16>
  func.return
}
