// Roles and channels: what is said of right ones, and of some that are not.

// RUN: mg-opt --check-hazards --print-hazards %S/Inputs/channel-sum.mlir 2>&1 >/dev/null | filecheck %s --check-prefix RIGHT
// RIGHT:      'sched.kernel' @channel_sum has no hazards
// RIGHT-NEXT:   %ring, 2 stages, is published 4 times, consumed 4 times and released 3 times, and every wait ends
// RIGHT-NEXT:   %once, 1 stage, is published 1 times, consumed 1 times and released 0 times, and every wait ends
// RIGHT-NEXT:   remark: 'sched.barrier' (operator 2 of the epilogue of role "consumers") is not needed

// RUN: sed '/sched.release/d' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix STUCK
// STUCK: deadlock: role "consumers" waits in 'sched.consume' of %ring (operator 1 of the loop of role "consumers", iteration 2) for stage 0 of %ring to be full with iteration 2; role "producer" waits in 'sched.acquire' of %ring (operator 1 of the loop of role "producer", iteration 0) for stage 0 of %ring to be released by the readers of iteration 0

// A release overtakes the loads right before it.
// RUN: sed '/sched.release/d; s@.*sched.elementwise add .*@&\n    sched.release %%ring@' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix BEHIND
// BEHIND: missing fence: 'sched.bulk_copy' of %x_tile (operator 2 of the loop of role "producer", iteration 0) writes %sx at byte 0 of shared memory in thread 64; 'sched.elementwise' of %sx (operator 2 of the loop of role "consumers", iteration 0) reads that byte, of %sx, in thread 0, and may still do so: the release behind it overtakes loads. Release the stage behind the next 'sched.consume', or put a 'sched.proxy_fence' before the release

// RUN: sed '/sched.consume %ring/d' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix EARLY
// EARLY: copy in flight: 'sched.elementwise' of %sx (operator 2 of the loop of role "consumers", iteration 0) reads %sx at byte 0 of shared memory in thread 0; 'sched.bulk_copy' of %x_tile (operator 3 of the prologue of role "producer"), asynchronous, may still be writing that byte, of %sx, for thread 64: nothing has waited for its stage to be full with iteration 0

// RUN: sed '0,/^  sched.barrier/{/^  sched.barrier/d}' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix UNSET
// UNSET: channel protocol: %ring is set up by one thread, and no 'sched.barrier' of the whole block stands between it and the roles, which may use it before
