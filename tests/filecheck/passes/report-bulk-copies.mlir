// A bulk copy counts its boxes, and moves each sector and each line of all banks once.
// RUN: mg-opt --report-memory-access %S/Inputs/channel-sum.mlir 2>&1 >/dev/null | filecheck %s
// CHECK:      sched.bulk_copy    %b_tile  cp.async.bulk.tensor  1      64 sectors     64     0       1
// CHECK-NEXT: sched.bulk_copy    %sb      cp.async.bulk.tensor  1      16 wavefronts  16     0       1
// CHECK:      sched.bulk_copy    %x_tile  cp.async.bulk.tensor  1      64 sectors     64     0       2
// CHECK-NEXT: sched.bulk_copy    %sx      cp.async.bulk.tensor  1      16 wavefronts  16     0       2
