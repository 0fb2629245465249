// Rows that a gather takes from a kernel, each at most once, are stored where it would put them. So it is of places that
// rows of groups have in tiles; other numbers may name a row twice.
// RUN: mg-opt --decompose-program --store-named-rows %s | filecheck %s
// RUN: mg-opt --decompose-program --store-named-rows --plan="tiles=written" --transpile="arch=sm_90a" -t "cuda{function=tiles}" %s | filecheck %s --check-prefix CUDA
// RUN: mg-opt --decompose-program --store-named-rows="everywhere=false" %s | filecheck %s --check-prefix LARGE

// CHECK-LABEL: func.func @tiles
// CHECK:       %g, %s, %p, %u = kn.group_tiles %e size 64
// CHECK:       %0 = kn.invert_places %p : tensor<300xi32> -> tensor<12x64xi32>
// CHECK-NEXT:  %y = kn.customized %x, %w, %u, %0 grid [12, 1, 1]
// CHECK-NEXT:  ^bb0(%dx: tensor<12x64x64xf16>, %dw: tensor<1x64x64xf16>, %du: tensor<1xi32>, [[ROWS:%.*]]: tensor<12x64xi32>):
// CHECK:         tb.output %a through [[ROWS]] omap [0, -1, -1] ending [0, 0] : !tb.stensor<1x64x64xf16>, tensor<12x64xi32> -> tensor<300x64xf16>
// CHECK:       func.return %y : tensor<300x64xf16>

// CUDA:      using Rows = tb::NamedRows<128, 8, Layout<Shape<Int<64>, Int<64>, Int<1>>, Stride<Int<0>, Int<1>, Int<0>>>, 300, 64>;
// CUDA-NEXT: tb::CopyThrough<128, 8, Target, Source, Rows>::store(y_tile, a_1, {{.*}} + blockIdx.x * 64, thread);
// CUDA: kn::InvertPlaces<300, 1, 12, 64, 64, 1>::run(
func.func @tiles(%x: tensor<12x64x64xf16>, %w: tensor<1x64x64xf16>, %e: tensor<8xi32>) -> tensor<300x64xf16> {
  %g, %s, %p, %u = kn.group_tiles %e size 64 : (tensor<8xi32>) -> (tensor<12xi32>, tensor<12xi32>, tensor<300xi32>, tensor<1xi32>)
  %o = kn.customized %x, %w, %u grid [12, 1, 1] block [128, 1, 1] forloop 1 lengths [2, 12] {
  ^bb0(%dx: tensor<12x64x64xf16>, %dw: tensor<1x64x64xf16>, %du: tensor<1xi32>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<12x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    tb.output %a omap [0, -1, -1] ending [0, 0] : !tb.stensor<1x64x64xf16> -> tensor<12x64x64xf16>
  } : (tensor<12x64x64xf16>, tensor<1x64x64xf16>, tensor<1xi32>) -> tensor<12x64x64xf16>
  %r = kn.reshape %o : tensor<12x64x64xf16> -> tensor<768x64xf16>
  %y = kn.gather %r rows %p : (tensor<768x64xf16>, tensor<300xi32>) -> tensor<300x64xf16>
  func.return %y : tensor<300x64xf16>
}

// Places of places: of two gathers one behind the other.
// CHECK-LABEL: func.func @places_of_places
// CHECK:       %order, %place, %end = kn.sort_groups %c
// CHECK:       [[OF:%.*]] = kn.gather %p rows %place : (tensor<300xi32>, tensor<300xi32>) -> tensor<300xi32>
// CHECK-NEXT:  [[ROWS:%.*]] = kn.invert_places [[OF]] : tensor<300xi32> -> tensor<768xi32>
// CHECK-NEXT:  kn.customized %x, [[ROWS]] grid [12, 1, 1]
// CHECK-NOT:   kn.gather
func.func @places_of_places(%x: tensor<768x64xf16>, %c: tensor<300xi32>) -> tensor<300x64xf16> {
  %order, %place, %end = kn.sort_groups %c : (tensor<300xi32>) -> (tensor<300xi32>, tensor<300xi32>, tensor<8xi32>)
  %g, %s, %p, %u = kn.group_tiles %end size 64 : (tensor<8xi32>) -> (tensor<12xi32>, tensor<12xi32>, tensor<300xi32>, tensor<1xi32>)
  %o = kn.customized %x grid [12, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<768x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<768x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.exp %sx : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<64x64xf16> -> tensor<768x64xf16>
  } : (tensor<768x64xf16>) -> tensor<768x64xf16>
  %y = kn.gather %o rows %p : (tensor<768x64xf16>, tensor<300xi32>) -> tensor<300x64xf16>
  %z = kn.gather %y rows %place : (tensor<300x64xf16>, tensor<300xi32>) -> tensor<300x64xf16>
  func.return %z : tensor<300x64xf16>
}

// Numbers that anyone may write, and rows that something else reads.
// CHECK-LABEL: func.func @any_numbers
// CHECK:       kn.gather %o rows %p
func.func @any_numbers(%x: tensor<128x64xf16>, %p: tensor<100xi32>) -> tensor<100x64xf16> {
  %o = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<128x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<128x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.exp %sx : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<64x64xf16> -> tensor<128x64xf16>
  } : (tensor<128x64xf16>) -> tensor<128x64xf16>
  %y = kn.gather %o rows %p : (tensor<128x64xf16>, tensor<100xi32>) -> tensor<100x64xf16>
  func.return %y : tensor<100x64xf16>
}

// CHECK-LABEL: func.func @read_twice
// CHECK:       kn.gather %o rows %place
func.func @read_twice(%x: tensor<128x64xf16>, %c: tensor<128xi32>) -> (tensor<128x64xf16>, tensor<128x64xf16>) {
  %order, %place, %end = kn.sort_groups %c : (tensor<128xi32>) -> (tensor<128xi32>, tensor<128xi32>, tensor<8xi32>)
  %o = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<128x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<128x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.exp %sx : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<64x64xf16> -> tensor<128x64xf16>
  } : (tensor<128x64xf16>) -> tensor<128x64xf16>
  %y = kn.gather %o rows %place : (tensor<128x64xf16>, tensor<128xi32>) -> tensor<128x64xf16>
  func.return %o, %y : tensor<128x64xf16>, tensor<128x64xf16>
}

// Places that the rows of a kernel may not have: a gather takes the nearest row for these, so that several take one.
// CHECK-LABEL: func.func @fewer_rows
// CHECK:       kn.gather %o rows %place
func.func @fewer_rows(%x: tensor<64x64xf16>, %c: tensor<128xi32>) -> tensor<128x64xf16> {
  %order, %place, %end = kn.sort_groups %c : (tensor<128xi32>) -> (tensor<128xi32>, tensor<128xi32>, tensor<8xi32>)
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.exp %sx : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>) -> tensor<64x64xf16>
  %y = kn.gather %o rows %place : (tensor<64x64xf16>, tensor<128xi32>) -> tensor<128x64xf16>
  func.return %y : tensor<128x64xf16>
}

// CHECK-LABEL: func.func @fewer_tiles
// CHECK:       kn.gather %o rows %p
func.func @fewer_tiles(%x: tensor<704x64xf16>, %e: tensor<8xi32>) -> tensor<300x64xf16> {
  %g, %s, %p, %u = kn.group_tiles %e size 64 : (tensor<8xi32>) -> (tensor<12xi32>, tensor<12xi32>, tensor<300xi32>, tensor<1xi32>)
  %o = kn.customized %x grid [11, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<704x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<704x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.exp %sx : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<64x64xf16> -> tensor<704x64xf16>
  } : (tensor<704x64xf16>) -> tensor<704x64xf16>
  %y = kn.gather %o rows %p : (tensor<704x64xf16>, tensor<300xi32>) -> tensor<300x64xf16>
  func.return %y : tensor<300x64xf16>
}

// Small tiles stay, and few rows; large ones gain.
// LARGE-LABEL: func.func @tiles
// LARGE:       kn.gather
// LARGE-LABEL: func.func @large
// LARGE:       kn.invert_places %place : tensor<8192xi32> -> tensor<64x128xi32>
// LARGE-NOT:   kn.gather
func.func @large(%x: tensor<64x128x1024xf16>, %c: tensor<8192xi32>) -> tensor<8192x1024xf16> {
  %order, %place, %end = kn.sort_groups %c : (tensor<8192xi32>) -> (tensor<8192xi32>, tensor<8192xi32>, tensor<8xi32>)
  %o = kn.customized %x grid [64, 16, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x128x1024xf16>):
    %sx = tb.input %dx imap [0, 2, -1] : tensor<64x128x1024xf16> -> !tb.stensor<1x128x64xf16>
    %m = tb.exp %sx : !tb.stensor<1x128x64xf16> -> !tb.stensor<1x128x64xf16>
    tb.output %m omap [0, 2, -1] : !tb.stensor<1x128x64xf16> -> tensor<64x128x1024xf16>
  } : (tensor<64x128x1024xf16>) -> tensor<64x128x1024xf16>
  %r = kn.reshape %o : tensor<64x128x1024xf16> -> tensor<8192x1024xf16>
  %y = kn.gather %r rows %place : (tensor<8192x1024xf16>, tensor<8192xi32>) -> tensor<8192x1024xf16>
  func.return %y : tensor<8192x1024xf16>
}
