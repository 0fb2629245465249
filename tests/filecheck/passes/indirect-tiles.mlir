// Tiles of rows that numbers name: who copies them reads the numbers. Of pages of a cache a tile has one, which is a
// coordinate of a box of TMA, or which all threads read; of embeddings each vector reads its own.
// RUN: mg-opt --plan="tiles=written" --transpile="arch=sm_90a" %s | filecheck %s
// RUN: mg-opt --plan="tiles=written" --transpile="arch=sm_90a" -t "cuda{function=paged}" %s | filecheck %s --check-prefix PAGED
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile="arch=sm_90a" -t "cuda{function=paged}" %s | filecheck %s --check-prefix THREADS
// RUN: mg-opt --plan="tiles=written" --transpile="arch=sm_90a" -t "cuda{function=embed}" %s | filecheck %s --check-prefix EMBED
// RUN: mg-opt --plan="tiles=written" --transpile="arch=sm_90a" --remarks -o %t %s 2>&1 | filecheck %s --check-prefix REMARK

// CHECK:      sched.kernel @paged_custom0 inputs 3 constant [1] grid
// CHECK:      %dv_tile = sched.local_tile %dv through %dt map [0, -1, -1] fordim 1 : !sched.global<50x16x64xf16, (50,16,64):(1024,64,1)>, !sched.global<4x8xi32, (4,8):(8,1)> -> !sched.global<1x1x16x64xf16, (1,1,16,64):(0,0,64,1)>
// The table may change: what is loaded through it waits for the kernels before, though the cache is constant.
// CHECK:      sched.grid_wait
// CHECK:      sched.bulk_copy %dv_tile to %sv on %ring

// PAGED:      int const row = tb::row_of<50>(*(dt + blockIdx.x * 8 + (it + 3) * 1));
// PAGED-NEXT: mugraph::bulk_load(sv + (stage + 3).index() * 1024, &dv_map, ring.full(stage + 3), 0, 0, row);
// PAGED:      TensorMap<3> v_map("v", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, {64, 16, 50}, {128, 2048}, {64, 16, 1},

// THREADS: tb::CopyAsync<128, 8, Target, Source>::run(sv, dv_tile + tb::row_of<50>(*(dt + blockIdx.x * 8)) * 1024, thread);
// THREADS: dv_tile + tb::row_of<50>(*(dt + blockIdx.x * 8 + (it + 2) * 1)) * 1024, thread);

// EMBED:      using Rows = tb::NamedRows<128, 8, Layout<Shape<Int<128>, Int<64>>, Stride<Int<0>, Int<1>>>, 100, 128>;
// EMBED-NEXT: using Copy = tb::CopyThrough<128, 8, Target, Source, Rows>;
// EMBED-NEXT: Copy::run_async(s, dw_tile, dt + blockIdx.x * 64, thread);

// REMARK: kernel @embed_custom0: %w is loaded by cp.async and not by TMA, since its tiles have several rows that %dt names, and a box has rows that lie in order; let tiles have one number each
func.func @paged(%q: tensor<4x1x16x16xf16>, %v: tensor<50x16x64xf16> {mugraph.constant}, %t: tensor<4x8xi32>) -> tensor<4x1x16x64xf16> {
  %o = kn.customized %q, %v, %t grid [4, 1, 1] block [128, 1, 1] forloop 8 plan <stages = [3]> {
  ^bb0(%dq: tensor<4x1x16x16xf16>, %dv: tensor<50x16x64xf16>, %dt: tensor<4x8xi32>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<4x1x16x16xf16> -> !tb.stensor<1x1x16x16xf16>
    %sv = tb.input %dv through %dt imap [0, -1, -1] fordim 1 : tensor<50x16x64xf16>, tensor<4x8xi32> -> !tb.stensor<1x1x16x64xf16>
    %n = tb.matmul %sq, %sv : (!tb.stensor<1x1x16x16xf16>, !tb.stensor<1x1x16x64xf16>) -> !tb.stensor<1x1x16x64xf16>
    %an = tb.forloop_accum none %n : !tb.stensor<1x1x16x64xf16> -> !tb.stensor<1x1x16x64xf16>
    tb.output %an omap [0, -1, -1] : !tb.stensor<1x1x16x64xf16> -> tensor<4x1x16x64xf16>
  } : (tensor<4x1x16x16xf16>, tensor<50x16x64xf16>, tensor<4x8xi32>) -> tensor<4x1x16x64xf16>
  func.return %o : tensor<4x1x16x64xf16>
}

func.func @embed(%w: tensor<100x128xf16>, %t: tensor<256xi32>) -> tensor<256x128xf16> {
  %o = kn.customized %w, %t grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dw: tensor<100x128xf16>, %dt: tensor<256xi32>):
    %s = tb.input %dw through %dt imap [0, -1, -1] : tensor<100x128xf16>, tensor<256xi32> -> !tb.stensor<64x128xf16>
    %n = tb.rms_norm %s : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<64x128xf16> -> tensor<256x128xf16>
  } : (tensor<100x128xf16>, tensor<256xi32>) -> tensor<256x128xf16>
  func.return %o : tensor<256x128xf16>
}
