// RUN: mg-opt --te-inline %s | filecheck %s
// RUN: mg-opt --te-inline --te-check --verify-semantics %s | filecheck %s
// Calls become bodies; sections of sections become indices, but for those whose address is taken.

// CHECK: func.func @f(%A: !te.buffer<64x32xf32>) {
// CHECK-NEXT: te.par %i = 4 {
// CHECK-NEXT: te.par %j = 16 {
// CHECK-NEXT: %zero = arith.constant 0.0
// CHECK-NEXT: te.bind %zero, %A[%i * 16 + %j, (%j + 8) mod 8 + 8] : !te.buffer<64x32xf32>
// CHECK: te.section %A[%i * 16 + %j, 8] : !te.buffer<64x32xf32> -> !te.buffer<1x8xf32, (1,8):(32,1)>
// CHECK-NEXT: te.asm "prefetch.global.L1 [%0];"
// CHECK: func.return
// CHECK-NOT: func.func
func.func @f(%A: !te.buffer<64x32xf32>) {
  te.par %i = 4 {
    %s = te.section %A[%i * 16, 8] : !te.buffer<64x32xf32> -> !te.buffer<16x8xf32, (16,8):(32,1)>
    te.call @rows(%s) : !te.buffer<16x8xf32, (16,8):(32,1)>
  }
  func.return
}

func.func private @rows(%a: !te.buffer<16x8xf32>) {
  te.par %j = 16 {
    %zero = arith.constant 0.0 : f32
    te.bind %zero, %a[%j, (%j + 8) mod 8] : !te.buffer<16x8xf32>
    te.if %j - 16 >= 0 {
      %row = te.section %a[%j, 0] : !te.buffer<16x8xf32> -> !te.buffer<1x8xf32, (1,8):(8,1)>
      te.asm "prefetch.global.L1 [%0];" in %row : !te.buffer<1x8xf32, (1,8):(8,1)>
    }
  }
  func.return
}
