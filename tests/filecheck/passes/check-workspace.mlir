// Tensors of the workspace share bytes only where no kernel needs both of them.

// RUN: mg-opt --check-hazards %s | mg-run --check -

// RUN: sed '/square/s/128/48/' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix READ
// RUN: mg-opt --print-hazards %t.mlir 2>&1 | filecheck %s --check-prefix PRINT
// RUN: not mg-run %t.mlir 2>&1 | filecheck %s --check-prefix EXECUTE
// READ: mg-opt: {{.*}}check-workspace.mlir.tmp.mlir:37:1: error: --check-hazards: 'func.func' @f has 2 hazards:
// READ-NEXT: overwritten value: 'kn.square' %b writes %b to bytes 48 to 63 of the workspace, over %a, before 'kn.mul' %d reads it
// READ-NEXT: overwritten value: 'kn.sqrt' %c writes %c to bytes 64 to 111 of the workspace, over %b, while it reads it
// PRINT: 'func.func' @f has 2 hazards:
// PRINT: builtin.module
// EXECUTE: mg-run: {{.*}}.mlir:40:3: error: 'kn.square' %b reads %a, of which 'kn.square' %b has overwritten bytes of the workspace

// Over a tensor that a later kernel reads through a view.
// RUN: sed 's/workspace \[64\]/workspace [0]/' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix LATER
// RUN: not mg-run %t.mlir 2>&1 | filecheck %s --check-prefix LATER-EXECUTE
// LATER: 'kn.sqrt' %c writes %c to bytes 0 to 63 of the workspace, over %a, before 'kn.mul' %d reads it
// LATER-EXECUTE: mg-run: {{.*}}: error: 'kn.mul' %d reads %v, of which 'kn.sqrt' %c has overwritten bytes of the workspace

// RUN: sed '/square/s/128/144/' %s > %t.mlir
// RUN: not mg-opt %t.mlir 2>&1 | filecheck %s --check-prefix PAST
// PAST: 'kn.square' %b: %b ends at byte 208 of the workspace, of which the function has 192

// RUN: sed '/square/s/128/8/' %s > %t.mlir
// RUN: not mg-opt %t.mlir 2>&1 | filecheck %s --check-prefix ODD
// ODD: 'kn.square' %b: workspace offset 8 of %b must be a multiple of 16 bytes, or -1 for an output

// RUN: sed 's/workspace \[-1\]/workspace [128]/' %s > %t.mlir
// RUN: not mg-opt %t.mlir 2>&1 | filecheck %s --check-prefix OUTPUT
// OUTPUT: 'kn.mul' %d: %d is returned and lives in an output of the function; its workspace offset must be -1, not 128

!matrix = tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>
!turned = tensor<8x4xf16, #cute.layout<(8,4):(1,8)>>
func.func @f(%x: !matrix, %y: !turned) -> !turned attributes {kn.workspace_bytes = 192 : i64} {
  %a = kn.exp %x workspace [0] : !matrix -> !matrix
  %v = kn.view %a : !matrix -> !turned
  %b = kn.square %a workspace [128] : !matrix -> !matrix
  %c = kn.sqrt %b workspace [64] : !matrix -> !matrix
  %e = kn.exp %c workspace [128] : !matrix -> !matrix
  %w = kn.view %e : !matrix -> !turned
  %d = kn.mul %w, %v workspace [-1] : (!turned, !turned) -> !turned
  func.return %d : !turned
}
