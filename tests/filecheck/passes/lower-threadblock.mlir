// RUN: mg-opt --split-input-file --plan="tiles=written loads=cp_async" --resolve-layout --lower-threadblock --pipeline-loads %s | filecheck %s

// One warp spends 64/16 * 96/8 * 4 = 192 registers a thread on the first accumulator and 44 on the
// rest, so that there are none for the second; that stays in shared memory, in fp32, cleared before the loop.
// CHECK-LABEL: sched.kernel @registers_custom0
// CHECK:      %full = sched.empty : !sched.tile<64x96xf32, #cute.tiled_mma<
// CHECK:      %full_1 = sched.alloc : !sched.shared<64x96xf16,
// CHECK:      %more = sched.alloc : !sched.shared<64x96xf32,
// CHECK:      sched.prologue {
// CHECK:        sched.fill %full with 0.000000e+00
// CHECK:        sched.fill %more with 0.000000e+00
// CHECK:      sched.forloop 2 carrying
// CHECK:        sched.mma %a, %b to %full
// CHECK-NEXT:   sched.map square %c to %more then [accum]
// CHECK-NEXT: sched.yield
// CHECK-NEXT: }
// CHECK:      sched.epilogue {
// CHECK-NEXT:   sched.store %full{{[_0-9]*}} to %full{{[_0-9]*}}
// CHECK-NEXT:   sched.barrier
// CHECK-NEXT:   sched.map add %full_1, %more
func.func @registers(%x: tensor<64x32xf16>, %y: tensor<32x96xf16>, %z: tensor<64x192xf16>) -> tensor<64x96xf16> {
  %o = kn.customized %x, %y, %z grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<64x32xf16>, %dy: tensor<32x96xf16>, %dz: tensor<64x192xf16>):
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x32xf16> -> !tb.stensor<64x16xf16>
    %b = tb.input %dy imap [-1, -1, -1] fordim 0 : tensor<32x96xf16> -> !tb.stensor<16x96xf16>
    %c = tb.input %dz imap [-1, -1, -1] fordim 1 : tensor<64x192xf16> -> !tb.stensor<64x96xf16>
    %full = tb.matmul %a, %b then [accum] : (!tb.stensor<64x16xf16>, !tb.stensor<16x96xf16>) -> !tb.stensor<64x96xf16>
    %more = tb.square %c then [accum] : !tb.stensor<64x96xf16> -> !tb.stensor<64x96xf16>
    %r = tb.add %full, %more : (!tb.stensor<64x96xf16>, !tb.stensor<64x96xf16>) -> !tb.stensor<64x96xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<64x96xf16> -> tensor<64x96xf16>
  } : (tensor<64x32xf16>, tensor<32x96xf16>, tensor<64x192xf16>) -> tensor<64x96xf16>
  func.return %o : tensor<64x96xf16>
}

// -----

// Two columns of instructions more, and registers do not hold the product: it is computed in two
// pieces of 64/16 * 56/8 * 4 = 112 registers a thread, each added up in shared memory.
// CHECK-LABEL: sched.kernel @too_wide_custom0
// CHECK:      %sum = sched.alloc : !sched.shared<64x112xf32,
// CHECK:        sched.fill %sum with 0.000000e+00
// CHECK:        %[[LEFT:[a-z0-9_]+]] = sched.empty : !sched.tile<64x56xf32,
// CHECK-NEXT:   %[[ZEROS:[a-z0-9_]+]] = sched.fill %[[LEFT]] with 0.000000e+00
// CHECK-NEXT:   %[[PRODUCT:[a-z0-9_]+]] = sched.mma %a, %b at [0, 0] to %[[ZEROS]]
// CHECK-NEXT:   sched.store %[[PRODUCT]] to %sum at [0, 0] then [accum]
// CHECK-NEXT:   %[[RIGHT:[a-z0-9_]+]] = sched.empty : !sched.tile<64x56xf32,
// CHECK-NEXT:   %[[ZEROS_TOO:[a-z0-9_]+]] = sched.fill %[[RIGHT]] with 0.000000e+00
// CHECK-NEXT:   %[[OTHER:[a-z0-9_]+]] = sched.mma %a, %b at [0, 56] to %[[ZEROS_TOO]]
// CHECK-NEXT:   sched.store %[[OTHER]] to %sum at [0, 56] then [accum]
func.func @too_wide(%x: tensor<64x32xf16>, %y: tensor<32x112xf16>) -> tensor<64x112xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<64x32xf16>, %dy: tensor<32x112xf16>):
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x32xf16> -> !tb.stensor<64x16xf16>
    %b = tb.input %dy imap [-1, -1, -1] fordim 0 : tensor<32x112xf16> -> !tb.stensor<16x112xf16>
    %sum = tb.matmul %a, %b then [accum] : (!tb.stensor<64x16xf16>, !tb.stensor<16x112xf16>) -> !tb.stensor<64x112xf16>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<64x112xf16> -> tensor<64x112xf16>
  } : (tensor<64x32xf16>, tensor<32x112xf16>) -> tensor<64x112xf16>
  func.return %o : tensor<64x112xf16>
}

// -----

// Two stages of 128 KiB do not fit a block's 227 KiB: one stage, loaded and waited for in each
// iteration, and a barrier before it is overwritten, which stands at the end of the body so that
// what follows the loop needs none.
// CHECK-LABEL: sched.kernel @tight_custom0
// CHECK:      %a = sched.alloc : !sched.shared<64x1024xf16
// CHECK:      sched.forloop 4 {
// CHECK-NEXT:   sched.copy async %dx_tile to %a by <128, vector 8, order [1, 0]> :
// CHECK-NEXT:   sched.commit
// CHECK-NEXT:   sched.wait pending 0
// CHECK-NEXT:   sched.barrier
// CHECK-NEXT:   sched.reduce %a to %sum then [accum]
// CHECK-NEXT:   sched.barrier
// CHECK-NEXT: }
// CHECK-NEXT: sched.epilogue {
// CHECK-NEXT:   sched.copy %sum to %o_tile
func.func @tight(%x: tensor<64x4096xf16>) -> tensor<64x1xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x4096xf16>):
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x4096xf16> -> !tb.stensor<64x1024xf16>
    %sum = tb.reduction %a dim 1 then [accum] : !tb.stensor<64x1024xf16> -> !tb.stensor<64x1xf16>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<64x1xf16> -> tensor<64x1xf16>
  } : (tensor<64x4096xf16>) -> tensor<64x1xf16>
  func.return %o : tensor<64x1xf16>
}

// -----

// Without a loop everything is loaded in the prologue.  What is not a multiple of 4 bytes apart
// cannot go by cp.async: %a comes in vectors of 8, %b of 2, %c element by element.
// CHECK-LABEL: sched.kernel @once_custom0
// CHECK-NOT:  stages
// CHECK:      sched.prologue {
// CHECK-NEXT:   sched.copy async %dx_tile to %a by <32, vector 8, order [1, 0]> iteration 0 :
// CHECK-NEXT:   sched.copy async %dy_tile to %b by <32, vector 2, order [1, 0]> iteration 0 :
// CHECK-NEXT:   sched.copy %dz_tile to %c by <32, vector 1, order [1, 0]> iteration 0 :
// CHECK-NEXT:   sched.commit
// CHECK:      sched.forloop 1 {
// CHECK-NEXT:   sched.wait pending 0
// CHECK-NEXT:   sched.barrier
// CHECK-NOT:    sched.copy
// CHECK:      sched.epilogue {
func.func @once(%x: tensor<16x16xf16>, %y: tensor<16x10xf16>, %z: tensor<16x9xf16>) -> tensor<16x1xf16> {
  %o = kn.customized %x, %y, %z grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x16xf16>, %dy: tensor<16x10xf16>, %dz: tensor<16x9xf16>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %b = tb.input %dy imap [-1, -1, -1] : tensor<16x10xf16> -> !tb.stensor<16x10xf16>
    %c = tb.input %dz imap [-1, -1, -1] : tensor<16x9xf16> -> !tb.stensor<16x9xf16>
    %ra = tb.reduction %a dim 1 then [accum] : !tb.stensor<16x16xf16> -> !tb.stensor<16x1xf16>
    %rb = tb.reduction %b dim 1 then [accum] : !tb.stensor<16x10xf16> -> !tb.stensor<16x1xf16>
    %rc = tb.reduction %c dim 1 then [accum] : !tb.stensor<16x9xf16> -> !tb.stensor<16x1xf16>
    %ab = tb.add %ra, %rb : (!tb.stensor<16x1xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x1xf16>
    %abc = tb.add %ab, %rc : (!tb.stensor<16x1xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x1xf16>
    tb.output %abc omap [-1, -1, -1] : !tb.stensor<16x1xf16> -> tensor<16x1xf16>
  } : (tensor<16x16xf16>, tensor<16x10xf16>, tensor<16x9xf16>) -> tensor<16x1xf16>
  func.return %o : tensor<16x1xf16>
}

// -----

// One barrier where threads read what others wrote; none before %s, which adds up what its own
// thread has computed, and none between operators that do not depend on each other.  A value
// with two readers is computed once, into a buffer; a product that is only added up needs none.
// An input that nothing reads is not loaded.
// CHECK-LABEL: sched.kernel @levels_custom0
// CHECK-NOT:  %unused
// CHECK:      sched.forloop 4 carrying
// CHECK:        sched.map exp %a to %e
// CHECK-NEXT:   sched.map square %b to %q
// CHECK-NEXT:   sched.barrier
// CHECK-NEXT:   sched.mma %e, %q to %m
// CHECK-NEXT:   sched.map identity %e{{[_0-9]*}} to %s{{[_0-9]*}} then [accum]
// CHECK-NEXT: sched.yield
// CHECK-NEXT: }
func.func @levels(%x: tensor<16x64xf16>, %y: tensor<64x16xf16>) -> tensor<16x16xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x64xf16>, %dy: tensor<64x16xf16>):
    %unused = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x16xf16>
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x16xf16>
    %b = tb.input %dy imap [-1, -1, -1] fordim 0 : tensor<64x16xf16> -> !tb.stensor<16x16xf16>
    %e = tb.exp %a : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %q = tb.square %b : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %m = tb.matmul %e, %q then [accum] : (!tb.stensor<16x16xf16>, !tb.stensor<16x16xf16>) -> !tb.stensor<16x16xf16>
    %s = tb.forloop_accum none %e : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %r = tb.div %m, %s : (!tb.stensor<16x16xf16>, !tb.stensor<16x16xf16>) -> !tb.stensor<16x16xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x64xf16>, tensor<64x16xf16>) -> tensor<16x16xf16>
  func.return %o : tensor<16x16xf16>
}

// -----

// A part that nothing uses has no buffer, and is not moved.
// CHECK-LABEL: sched.kernel @one_part_custom0
// CHECK:      %b = sched.alloc
// CHECK-NOT:  %c = sched.alloc
// CHECK:      sched.move %a to %b at [0, 32]
// CHECK-NOT:  sched.move
func.func @one_part(%x: tensor<64x96xf16>) -> tensor<64x32xf16> {
  %o = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x96xf16>):
    %a = tb.input %dx imap [0, -1, -1] : tensor<64x96xf16> -> !tb.stensor<16x96xf16>
    %0, %b, %c = tb.split %a dim 1 : (!tb.stensor<16x96xf16>) -> (!tb.stensor<16x32xf16>, !tb.stensor<16x32xf16>, !tb.stensor<16x32xf16>)
    %e = tb.exp %b : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<16x32xf16> -> tensor<64x32xf16>
  } : (tensor<64x96xf16>) -> tensor<64x32xf16>
  func.return %o : tensor<64x32xf16>
}
