// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s
// RUN: not mg-opt --use-peers=everywhere --plan=tiles=written --transpile -t cuda %s 2>&1 | filecheck %s --check-prefix=PEERS

// A communicator follows the tensors of a call; NCCL knows this device's place.
// CHECK: #include "kn/collectives.h"
// CHECK: // OP type: kn.all_reduce
// CHECK: const kn::Communicator group(input_tensors.at(1), 2);
// CHECK: kn::all_reduce(stream, group, ncclMax, y, x, 32);
// CHECK: // OP type: kn.all_slice
// CHECK: auto const* part = y + group.place * 4LL;
// PEERS: all-reduce.mlir:15:3: error: 'kn.peer' %y reads the memory of other devices, for which no CUDA text is printed; run it by mugraph.compile(program, mesh=DeviceMesh), or make a library of it by mg-compile
func.func @f(%x: tensor<4x8xf16>)
    -> (tensor<4x4xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_reduce %x combine max axes [0] : tensor<4x8xf16> -> tensor<4x8xf16>
  %l = kn.all_slice %y axes [0] dim 1 : tensor<4x8xf16> -> tensor<4x4xf16>
  func.return %l : tensor<4x4xf16>
}
