// RUN: mg-opt --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: 'tb.custom' @g: its parameter %x has 8x16 elements of f32, but %b has 4x16 of f32
func.func private @g(%x: !te.buffer<8x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<8x16xf32>
      te.bind %v, %y[%i, %j] : !te.buffer<4x16xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: the function has 2 operands, got 1
func.func private @g(%x: !te.buffer<4x16xf32>, %z: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.bind %v, %y[%i, %j] : !te.buffer<4x16xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: the function has 0 results, got 1
func.func private @g(%x: !te.buffer<4x16xf32>) {
  te.par %i = 4 {
    %v = te.view %x[%i, 0] : !te.buffer<4x16xf32>
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: the function writes its parameter %x, but operands are values that do not change; give it a result, or write a buffer of its own
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    %v = arith.constant 1.0 : f32
    te.bind %v, %x[%i, 0] : !te.buffer<4x16xf32>
  }
  te.par %i = 4 {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.bind %v, %y[%i, %j] : !te.buffer<4x16xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: the function has a 'te.anchor', of which what a block's threads do to its tiles cannot be known
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.anchor %v : f32
      te.bind %v, %y[%i, %j] : !te.buffer<4x16xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: the function has a loop at level grid, but one block runs it on its tiles; leave the level out
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 grid {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.bind %v, %y[%i, %j] : !te.buffer<4x16xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: the function has a fully parallel loop; in an operator of a block which iteration runs on which thread is chosen
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    te.par %j = 16 fully {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.bind %v, %y[%i, %j] : !te.buffer<4x16xf32>
    }
  }
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}

// -----

// CHECK: 'tb.custom' @g: @g is no tensor expression; its parameters must be buffers, and it must have a body
func.func private @g(%x: f32) {
  func.return
}
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x16xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<4x16xf32> -> !tb.stensor<4x16xf32>
    %y = tb.custom @g(%b) : (!tb.stensor<4x16xf32>) -> !tb.stensor<4x16xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<4x16xf32> -> tensor<4x16xf32>
  } : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %o : tensor<4x16xf32>
}
