// Recurrences of matrices: as such a loop that takes one step after another, of which blocks have some columns.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --decompose-program %s | filecheck %s --check-prefix LOOP
// RUN: mg-check --budget 1 %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.recurrence %x plus %m dim 1 : (tensor<2x6x16x128xf32>, tensor<2x6x16x16xf16>) -> tensor<2x6x16x128xf32>
// CHECK: kn.recurrence %x plus %m decay %a : tensor<2x1x1x1xf32> exclusive dim 1 : (tensor<2x6x16x128xf32>, tensor<2x6x16x16xf16>) -> tensor<2x6x16x128xf16>
// CHECK: kn.recurrence %y plus %w columns %c : tensor<2x6x16x8xf16> dim 1 : (tensor<2x6x8x128xf16>, tensor<2x6x8x16xf16>) -> tensor<2x6x16x128xf32>
// LOOP:      kn.customized %x, %m, %a grid [2, 2, 1] block [128, 1, 1] forloop 6
// LOOP:      tb.input %{{.*}} imap [0, 3, -1] fordim 1 : tensor<2x6x16x128xf32> -> !tb.stensor<1x1x16x64xf32>
// LOOP:      tb.input %{{.*}} imap [0, -1, -1] : tensor<2x1x1x1xf32> -> !tb.stensor<1x1x1x1xf32>
// LOOP-NEXT: %[[STATE:.*]] = tb.carried : !tb.stensor<1x1x16x64xf32>
// LOOP-NEXT: %[[ROUNDED:.*]] = tb.cast %[[STATE]] : !tb.stensor<1x1x16x64xf32> -> !tb.stensor<1x1x16x64xf16>
// LOOP-NEXT: tb.matmul %{{.*}}, %[[ROUNDED]]
// LOOP:      tb.carry %{{.*}} to %[[STATE]]
// SAME: equal
func.func @f(%x: tensor<2x6x16x128xf32>, %m: tensor<2x6x16x16xf16>, %a: tensor<2x1x1x1xf32>, %y: tensor<2x6x8x128xf16>, %w: tensor<2x6x8x16xf16>, %c: tensor<2x6x16x8xf16>) -> (tensor<2x6x16x128xf32>, tensor<2x6x16x128xf16>, tensor<2x6x16x128xf32>) {
  %h = kn.recurrence %x plus %m dim 1 : (tensor<2x6x16x128xf32>, tensor<2x6x16x16xf16>) -> tensor<2x6x16x128xf32>
  %e = kn.recurrence %x plus %m decay %a : tensor<2x1x1x1xf32> exclusive dim 1 : (tensor<2x6x16x128xf32>, tensor<2x6x16x16xf16>) -> tensor<2x6x16x128xf16>
  %f = kn.recurrence %y plus %w columns %c : tensor<2x6x16x8xf16> dim 1 : (tensor<2x6x8x128xf16>, tensor<2x6x8x16xf16>) -> tensor<2x6x16x128xf32>
  func.return %h, %e, %f : tensor<2x6x16x128xf32>, tensor<2x6x16x128xf16>, tensor<2x6x16x128xf32>
}
