// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'tb.carried' %s: the state %s has 0 'tb.carry' that say what it is in the next iteration; write one
func.func @no_update(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %n = tb.add %s, %t : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    %last = tb.forloop_accum none %n : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.carried' %s: the state %s has 2 'tb.carry' that say what it is in the next iteration; write one
func.func @two_updates(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %n = tb.add %s, %t : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    %last = tb.carry %n to %s : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    %other = tb.carry %t to %s : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.carry' %last updates %n, which is no state; its second operand must be the result of a 'tb.carried'
func.func @no_state(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %n = tb.add %s, %t : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    %other = tb.carry %n to %s : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    %last = tb.carry %t to %n : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.carry' %last: %h has type !tb.stensor<8x16xf16>, but the state %s that it updates has !tb.stensor<8x16xf32>; insert a 'tb.cast', or choose another state
func.func @another_type(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %h = tb.cast %t : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xf16>
    %last = tb.carry %h to %s : (!tb.stensor<8x16xf16>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.carry' %last works on whole tiles, but elements of %t are missing in some blocks or iterations; choose a grid and a forloop that divide its extents
func.func @ragged(%x: tensor<8x62xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x62xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x62xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %last = tb.carry %t to %s : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x62xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.output' of %s stores a value of the loop body, which differs from iteration to iteration
func.func @stored_once(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %n = tb.add %s, %t : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    %last = tb.carry %n to %s : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.carry' %last accumulates %a, which exists only after the loop; accumulate values of the loop body
func.func @after_the_loop(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xf32>
    %a = tb.forloop_accum none %t : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xf32>
    %last = tb.carry %a to %s : (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}

// -----

// CHECK: 'tb.carried' %s gives floating-point numbers, but its result has elements of i32
func.func @integers(%x: tensor<8x64xf32>) -> tensor<8x16xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x16xi32>
    %i = tb.cast %t : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xi32>
    %other = tb.carry %i to %s : (!tb.stensor<8x16xi32>, !tb.stensor<8x16xi32>) -> !tb.stensor<8x16xi32>
    %last = tb.forloop_accum none %t : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x16xf32> -> tensor<8x16xf32>
  } : (tensor<8x64xf32>) -> tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}
