// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.all_gather' %y is of several devices, but the function around it has no mesh; for four devices add attributes {mugraph.mesh = [4], mugraph.per_device}
func.func @no_mesh(%x: tensor<4x8xf32>) attributes {mugraph.per_device} {
  %y = kn.all_gather %x axes [0] dim 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  func.return
}

// -----

// CHECK: 'kn.all_reduce' %y stands in a program of whole tensors; write mugraph.per_device beside mugraph.mesh for the program of each device, or leave the operator to --partition
func.func @whole(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2]} {
  %y = kn.all_reduce %x axes [0] : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.all_reduce' %y names axis 2, but the mesh 2x4 has axes 0 to 1
func.func @axis(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2, 4], mugraph.per_device} {
  %y = kn.all_reduce %x axes [2] : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.reduce_scatter' %y names axis 0 twice; an axis cuts one dimension, once
func.func @twice(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2, 4], mugraph.per_device} {
  %y = kn.reduce_scatter %x axes [0, 0] dim 0 : tensor<4x8xf32> -> tensor<1x8xf32>
  func.return
}

// -----

// CHECK: 'kn.all_gather' %y names no axis of the mesh
func.func @none(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_gather %x axes [] dim 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.all_gather' %y: dimension 2 does not exist in 4x8: expected 0 to 1
func.func @dim(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_gather %x axes [0] dim 2 : tensor<4x8xf32> -> tensor<4x16xf32>
  func.return
}

// -----

// CHECK: 'kn.all_to_all' %y: dimension 1 has 7 elements, which 2 devices cannot share equally; pad the tensor, or leave the dimension whole
func.func @odd(%x: tensor<4x7xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_to_all %x axes [0] split 1 concat 0 : tensor<4x7xf32> -> tensor<8x3xf32>
  func.return
}

// -----

// CHECK: 'kn.all_gather' %y: the result has 4x8, expected 8x8
func.func @extents(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_gather %x axes [0] dim 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'func.func' @mesh: mugraph.mesh is [0 : i64]; expected the number of devices along each axis, such as [4] or [2, 4]
func.func @mesh(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [0], mugraph.per_device} {
  %y = kn.all_gather %x axes [0] dim 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.peer' %y reads of place 2, but a group along axes [0] has places 0 to 1
func.func @place(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2, 4], mugraph.per_device} {
  %y = kn.peer %x axes [0] place 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.peer' %y reads of one member: write its 'place', or by how many places it is further than the device itself, 'shift'
func.func @nobody(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.peer %x axes [0] : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.all_to_all' %y is delivered, so that its operand is a kn.concat of 2 equal parts along dimension 0 which it alone reads; leave 'delivered' out, or write the concat
func.func @delivered(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_to_all %x axes [0] split 0 concat 0 delivered : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'kn.all_to_all' %y is delivered along dimension 1 of 2x16, whose parts are no ranges of memory; expected dimension 0, or one behind dimensions of one element
func.func @ranges(%x: tensor<2x8xf32>, %z: tensor<2x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %c = kn.concat %x, %z dim 1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x16xf32>
  %y = kn.all_to_all %c axes [0] split 1 concat 1 delivered : tensor<2x16xf32> -> tensor<2x16xf32>
  func.return
}

// -----

// CHECK: 'kn.all_slice' %y is of the member -1 places further, expected 1 to 1 places in a group along axes [0]
func.func @behind(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.all_slice %x axes [0] dim 0 shift -1 : tensor<4x8xf32> -> tensor<2x8xf32>
  func.return
}

// -----

// CHECK: 'kn.peer' %y is of the member 2 places further, expected 1 to 1 places in a group along axes [0]
func.func @itself(%x: tensor<4x8xf32>) attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.peer %x axes [0] shift 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return
}
