// Weights that are stored as (n, k) lie along k, as warp groups read elements of 8 bits; those of (k, n) do not.
// RUN: mg-opt --fuse-kernels --plan="tile=128,128 loop_tile=128 block=128 loads=tma" --transpile=arch=sm_90a -o %t.mlir %s --remarks 2>&1 | filecheck %s --check-prefix REMARK
// RUN: filecheck %s < %t.mlir
// RUN: mg-opt -t cuda{function=stored} %t.mlir | filecheck %s --check-prefix CUDA

// REMARK: note: 'tb.matmul' %o is added up with 14 bits, as registers have no room for the sums of an iteration beside those of the loop

// CHECK: sched.kernel @stored_custom0{{.*}}promote = false
// CHECK: sched.warpgroup_mma async %{{.*}} : !sched.shared<128x128xf8E4M3FN, S<3,4,3> o (128,128):(128,1)>, !sched.shared<128x128xf8E4M3FN, S<3,4,3> o (128,128):(1,128)> to !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x32_F32E4M3E4M3_SS_TN, (1,1,1)>>
// CUDA: struct SM90_64x128x32_F32E4M3E4M3_SS_TN : atoms::OfWarpgroup<float_e4m3_t, float_e4m3_t, float, 128> {
// CUDA: wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3
// CUDA: , adds, 1, 1;\n}\n"
// CUDA: : "l"(a.descriptor()), "l"(b.descriptor()), "r"(adds));
func.func @stored(%x: tensor<1024x512xf8E4M3FN>, %w: tensor<1024x512xf8E4M3FN>) -> tensor<1024x1024xbf16> {
  %t = kn.transpose %w dims [1, 0] : tensor<1024x512xf8E4M3FN> -> tensor<512x1024xf8E4M3FN>
  %o = kn.matmul %x, %t : (tensor<1024x512xf8E4M3FN>, tensor<512x1024xf8E4M3FN>) -> tensor<1024x1024xbf16>
  func.return %o : tensor<1024x1024xbf16>
}

// REMARK: kernel @across_custom0: the product %o, 128x128 of depth 128, is computed by mma.sync and not by WGMMA, since %w may be S<3,4,3> o (128,128):(128,1): its elements are neighbours along m or n, and warp groups take those of 8 bits only as neighbours along k; store the tensor so that the summed dimension is contiguous [wgmma]
func.func @across(%x: tensor<1024x512xf8E4M3FN>, %w: tensor<512x1024xf8E4M3FN>) -> tensor<1024x1024xbf16> {
  %o = kn.matmul %x, %w : (tensor<1024x512xf8E4M3FN>, tensor<512x1024xf8E4M3FN>) -> tensor<1024x1024xbf16>
  func.return %o : tensor<1024x1024xbf16>
}
