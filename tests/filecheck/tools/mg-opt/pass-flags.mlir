// Pass flags and -p pipelines run in the order of the command line, whichever way they are written.

// RUN: mg-opt --print-between-passes --cse -p dce,canonicalize --constant-fold-interp %s | filecheck %s --check-prefix ORDER
// RUN: mg-opt --print-between-passes -pdce --passes=canonicalize --cse --dce %s | filecheck %s --check-prefix MIXED

// ORDER:      IR after cse:
// ORDER:      IR after dce:
// ORDER:      IR after canonicalize:

// MIXED:      IR after dce:
// MIXED:      IR after canonicalize:
// MIXED:      IR after cse:

// RUN: mg-opt --dce %s | filecheck %s
// RUN: mg-opt %s | filecheck %s --check-prefix KEPT

// CHECK-LABEL: @unused
// CHECK-NOT:   arith.constant
// CHECK:       func.return
// KEPT:        arith.constant
func.func @unused() {
  %one = arith.constant 1 : i32
  func.return
}
