// RUN: mg-opt --use-peers %s | filecheck %s

// What exchanges take depends on how many devices there are: the parts of two come sooner by loads
// than by NCCL, those of four do not.

// CHECK-LABEL: func.func @two
// CHECK-NOT: kn.all_gather
// CHECK: kn.peer
func.func @two(%x: tensor<512x8192xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<1024x8192xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %e = kn.exp %x : tensor<512x8192xf16> -> tensor<512x8192xf16>
  %g = kn.all_gather %e axes [0] dim 0 : tensor<512x8192xf16> -> tensor<1024x8192xf16>
  func.return %g : tensor<1024x8192xf16>
}

// CHECK-LABEL: func.func @four
// CHECK: kn.all_gather
func.func @four(%x: tensor<256x8192xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<1024x8192xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [4], mugraph.per_device} {
  %e = kn.exp %x : tensor<256x8192xf16> -> tensor<256x8192xf16>
  %g = kn.all_gather %e axes [0] dim 0 : tensor<256x8192xf16> -> tensor<1024x8192xf16>
  func.return %g : tensor<1024x8192xf16>
}
