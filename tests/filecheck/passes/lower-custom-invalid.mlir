// RUN: mg-opt --split-input-file --verify-diagnostics --resolve-layout --lower-threadblock %s | filecheck %s

// CHECK: 'tb.custom' @g: there is no function @g; write it in the module, or bring it from a .te file with --load-operators
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

// CHECK: lower-custom-invalid.mlir:21:5: iterations i = 0 and i = 1 of the 'par' of line 19 both touch y[0, 0]
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    %v = te.view %x[%i, 0] : !te.buffer<4x16xf32>
    te.bind %v, %y[0, 0] : !te.buffer<4x16xf32>
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

// CHECK: lower-custom-invalid.mlir:{{[0-9:]+}}: y is accessed at index 16 where i = 0, j = 15
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.bind %v, %y[%i, %j + 1] : !te.buffer<4x16xf32>
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

// CHECK: 'tb.custom' @g: its function never writes element [0, 8] of its result %y; a result is written whole
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  te.par %i = 4 {
    te.par %j = 8 {
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

// CHECK: 'tb.custom' @g: the reduction into %s has indices that are not variables of the parallel loops around it; each must be one of them, or a constant
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  %s = te.new : !te.buffer<8xf32>
  te.par %i = 4 {
    te.par %j = 16 {
      %v = te.view %x[%i, %j] : !te.buffer<4x16xf32>
      te.red add %v, %s[%i + 1] : !te.buffer<8xf32>
    }
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

// CHECK: 'tb.custom' @g: 'te.view' stands outside parallel loops, and what it gives is used inside them; read the element where it is used
func.func private @g(%x: !te.buffer<4x16xf32>, %y: !te.buffer<4x16xf32> {te.result}) {
  %w = te.view %x[0, 0] : !te.buffer<4x16xf32>
  te.par %i = 4 {
    te.par %j = 16 {
      te.bind %w, %y[%i, %j] : !te.buffer<4x16xf32>
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
