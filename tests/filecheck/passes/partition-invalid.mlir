// RUN: mg-opt --partition --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: 'func.func' @mesh has no mesh of devices; for four add attributes {mugraph.mesh = [4]}
func.func @mesh(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK: argument 0 (%x) of 'func.func' @axis: its sharding {{\[\[1\]\]}} names axis 1, but the mesh 4 has axes 0 to 0
func.func @axis(%x: tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[1]]>})
    -> tensor<4x8xf16> attributes {mugraph.mesh = [4]} {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK: argument 0 (%x) of 'func.func' @twice: its sharding {{\[\[0\], \[0\]\]}} names axis 0 twice; an axis cuts one dimension, once
func.func @twice(%x: tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[0], [0]]>})
    -> tensor<4x8xf16> attributes {mugraph.mesh = [4]} {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK: argument 0 (%x) of 'func.func' @odd: dimension 0 has 6 elements, which 4 devices cannot share equally; pad the tensor, or leave the dimension whole
func.func @odd(%x: tensor<6x8xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> tensor<6x8xf16> attributes {mugraph.mesh = [4]} {
  %y = kn.exp %x : tensor<6x8xf16> -> tensor<6x8xf16>
  func.return %y : tensor<6x8xf16>
}

// -----

// CHECK: argument 0 (%x) of 'func.func' @rank: its sharding {{\[\[\], \[\], \[0\]\]}} lists axes for 3 dimensions, but the tensor has 2; write one list a dimension
func.func @rank(%x: tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[], [], [0]]>})
    -> tensor<4x8xf16> attributes {mugraph.mesh = [4]} {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK: argument 0 (%x) of 'func.func' @parts: its sharding {{\[\[\], \[\]\]}} partial sum [0] is partial, which results may be
func.func @parts(%x: tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[], []] partial sum [0]>})
    -> tensor<4x8xf16> attributes {mugraph.mesh = [4]} {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK: result 0 of 'func.func' @result cannot lie as {{\[\[\], \[\]\]}} partial sum [0]: no operator leaves such parts of it; say which axes cut it instead
func.func @result(%x: tensor<4x8xf16>)
    -> (tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[]] partial sum [0]>})
    attributes {mugraph.mesh = [4]} {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
