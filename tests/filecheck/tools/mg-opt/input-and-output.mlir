// From stdin, with and without a dash; to a file, which appears whole.

// RUN: mg-opt < %s | filecheck %s
// RUN: mg-opt - < %s | filecheck %s
// RUN: rm -rf %t && mkdir %t
// RUN: mg-opt %s -o %t/out.mlir && filecheck %s --input-file %t/out.mlir
// RUN: mg-opt %s -o - | filecheck %s

// CHECK-LABEL: func.func @identity
func.func @identity(%x: tensor<4xf16>) -> tensor<4xf16> {
  func.return %x : tensor<4xf16>
}

// What is at the output path stays when there is an error, and no file is left beside it.
// RUN: not mg-opt --no-such-pass %s -o %t/out.mlir 2>&1 | filecheck %s --check-prefix ERROR
// RUN: filecheck %s --input-file %t/out.mlir
// RUN: not mg-opt %S/pass-flags.mlir -t no-such-target -o %t/never.mlir 2>&1 | filecheck %s --check-prefix TARGET
// RUN: not ls %t/never.mlir
// RUN: ls -A %t | filecheck %s --check-prefix FILES
// RUN: not mg-opt %s -o %t/no/such/folder.mlir 2>&1 | filecheck %s --check-prefix FOLDER
// RUN: not mg-opt %s -o %t 2>&1 | filecheck %s --check-prefix IS-FOLDER

// ERROR: mg-opt: error: unknown pass or option '--no-such-pass'
// TARGET: mg-opt: error: argument -t/--target: invalid choice: 'no-such-target'
// FILES: {{^}}out.mlir{{$}}
// FILES-NOT: {{.}}
// FOLDER: mg-opt: error: cannot write to {{.*}}folder.mlir: No such file or directory.
// IS-FOLDER: mg-opt: error: cannot write to {{.*}}: it is a folder.
