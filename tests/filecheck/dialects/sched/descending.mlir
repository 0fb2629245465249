// Blocks start in groups of columns, from the last row, or plane, on.
// RUN: mg-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: sched.kernel @f inputs 1 grid [4, 3, 1] descending 2 block [32, 1, 1]
sched.kernel @f inputs 1 grid [4, 3, 1] descending 2 block [32, 1, 1] {
^bb0(%x: !sched.global<8xf16, (8):(1)>):
}

// -----

// CHECK: descending 3 must divide the 4 columns of the grid
sched.kernel @f inputs 1 grid [4, 3, 1] descending 3 block [32, 1, 1] {
^bb0(%x: !sched.global<8xf16, (8):(1)>):
}

// -----

// CHECK: descending 2 says in which order all columns start, expected no 'raster'
sched.kernel @f inputs 1 grid [4, 4, 1] raster 2 descending 2 block [32, 1, 1] {
^bb0(%x: !sched.global<8xf16, (8):(1)>):
}

// -----

// CHECK: sched.kernel @f inputs 1 grid [4, 3, 5] descending 6 planes block [32, 1, 1]
sched.kernel @f inputs 1 grid [4, 3, 5] descending 6 planes block [32, 1, 1] {
^bb0(%x: !sched.global<8xf16, (8):(1)>):
}

// -----

// CHECK: descending 5 must divide the 12 columns of the grid, its extents along x and y
sched.kernel @f inputs 1 grid [4, 3, 5] descending 5 planes block [32, 1, 1] {
^bb0(%x: !sched.global<8xf16, (8):(1)>):
}
