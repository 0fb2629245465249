// RUN: not mg-opt --plan=tiles=written --transpile -t 'cuda{function=no_mesh}' %s 2>&1 | filecheck %s --check-prefix=MESH
// RUN: not mg-opt --plan=tiles=written --transpile -t 'cuda{function=inner}' %s 2>&1 | filecheck %s --check-prefix=INNER
// RUN: mg-opt --contiguous-collectives --plan=tiles=written --transpile -t 'cuda{function=inner}' %s | filecheck %s --check-prefix=FRONT

// MESH: error: 'kn.all_reduce' %y is of several devices, but its function has no mesh; for four devices add attributes {mugraph.mesh = [4], mugraph.per_device}
func.func @no_mesh(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.all_reduce %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// INNER: error: 'kn.all_gather' %y is along dimension 1 of %y, which NCCL cannot cut or join; --contiguous-collectives moves it to the front
// FRONT: kn::all_gather(stream, group, {{.*}}, {{.*}}, 32);
func.func @inner(%x: tensor<4x8xf16>) -> (tensor<4x16xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_gather %x axes [0] dim 1 : tensor<4x8xf16> -> tensor<4x16xf16>
  func.return %y : tensor<4x16xf16>
}
