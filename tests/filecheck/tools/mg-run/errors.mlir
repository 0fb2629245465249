// Every error is one message on stderr and exit code 1, and no file is written.
// (What is wrong with arguments and arrays: tests/unit/test_tools_mg_run.py.)

// RUN: rm -rf %t && mkdir %t

// RUN: echo 'func.func @f() { oops }' | not mg-run 2>&1 | filecheck %s --check-prefix PARSE
// PARSE: mg-run: stdin:1:{{[0-9]+}}: error: {{.*}}oops

// RUN: env CUDA_VISIBLE_DEVICES=-1 not mg-run %s --backend=cuda --outputs %t/y.npy 2>&1 | filecheck %s --check-prefix GPU
// GPU: mg-run: error: --backend=cuda needs an NVIDIA GPU and its driver, and there is none here; --backend=interpreter runs on the CPU.

// RUN: not mg-run %s --outputs %t/no/y.npy 2>&1 | filecheck %s --check-prefix FOLDER
// FOLDER: mg-run: error: cannot write to {{.*}}y.npy: No such file or directory.

// RUN: ls -A %t | wc -l | filecheck %s --check-prefix FILES
// FILES: {{^}}0{{$}}

func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
