// RUN: mg-opt %s --te-vectorize | filecheck %s

// A loop of more iterations than a vector has elements is cut in strips of so many: 4 of f32, 8 of f16.

// CHECK:      te.seq %k_first = 4 {
// CHECK-NEXT:   %x_vector = te.new : !te.buffer<4xf32, register>
// CHECK-NEXT:   te.load %x_vector : !te.buffer<4xf32, register>, %x[%t * 16 + %k_first * 4] : !te.buffer<512xf32>
// CHECK-NEXT:   te.seq %k_next = 4 {
// CHECK-NEXT:     %k = te.apply %k_first * 4 + %k_next
// CHECK-NEXT:     %0 = te.view %x_vector[%k_next] : !te.buffer<4xf32, register>
// CHECK-NEXT:     %1 = te.view %sum[%k mod 2] : !te.buffer<2xf32, register>
// CHECK:        } {te.unroll}
// CHECK-NEXT: } {te.unroll}
// CHECK:      te.seq %j_first = 2 {
// CHECK-NEXT:   %h_vector = te.new : !te.buffer<8xf16, register>
// CHECK-NEXT:   te.seq %j_next = 8 {
// CHECK:        te.store %h_vector : !te.buffer<8xf16, register>, %h[%t * 16 + %j_first * 8] : !te.buffer<512xf16>

// Neighbours that do not begin at a multiple of their number are read one by one.
// CHECK:      te.seq %n = 12 {
// CHECK-NEXT:   %{{.*}} = te.view %x[%t * 13 + %n] : !te.buffer<512xf32>
func.func @f(%x: !te.buffer<512xf32>, %h: !te.buffer<512xf16>) {
  te.kernel "f" %block = 1 {
    te.threads %t = 32 {
      %sum = te.new : !te.buffer<2xf32, register>
      te.step "par 32 t" {
        te.seq %k = 16 {
          %0 = te.view %x[%t * 16 + %k] : !te.buffer<512xf32>
          %1 = te.view %sum[%k mod 2] : !te.buffer<2xf32, register>
          %2 = arith.addf %0, %1 : f32
          te.bind %2, %sum[%k mod 2] : !te.buffer<2xf32, register>
        }
        te.seq %j = 16 {
          %3 = te.view %sum[0] : !te.buffer<2xf32, register>
          %4 = arith.truncf %3 : f32 to f16
          te.bind %4, %h[%t * 16 + %j] : !te.buffer<512xf16>
        }
        te.seq %n = 12 {
          %5 = te.view %x[%t * 13 + %n] : !te.buffer<512xf32>
          te.bind %5, %sum[0] : !te.buffer<2xf32, register>
        }
      }
    }
  }
  func.return
}
