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
// RUN: sed '/sched.release/d; s@.*sched.map add .*@&\n    sched.release %%ring@' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix BEHIND
// BEHIND: missing fence: 'sched.bulk_copy' of %x_tile (operator 2 of the loop of role "producer", iteration 0) writes %sx at byte 0 of shared memory in thread 64; 'sched.map' %sum (operator 2 of the loop of role "consumers", iteration 0) reads that byte, of %sx, in thread 0, and may still do so: the release behind it overtakes loads. Release the stage behind the next 'sched.consume', or put a 'sched.proxy_fence' before the release

// RUN: sed '/sched.consume %ring/d' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix EARLY
// EARLY: copy in flight: 'sched.map' %sum (operator 2 of the loop of role "consumers", iteration 0) reads %sx at byte 0 of shared memory in thread 0; 'sched.bulk_copy' of %x_tile (operator 3 of the prologue of role "producer"), asynchronous, may still be writing that byte, of %sx, for thread 64: nothing has waited for its stage to be full with iteration 0

// RUN: sed '0,/^  sched.barrier/{/^  sched.barrier/d}' %S/Inputs/channel-sum.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix UNSET
// UNSET: channel protocol: %ring is set up by one thread, and no 'sched.barrier' of the whole block stands between it and the roles, which may use it before

// A kernel whose roles come to their ends says so; what it says is checked when it is read again.
// RUN: mg-opt --check-hazards %S/Inputs/channel-sum.mlir > %t.right.mlir
// RUN: filecheck %s --check-prefix CERTIFIED < %t.right.mlir
// CERTIFIED: } {sched.progress_certificate = {channels = [{stages = 2 : i64, published = 4 : i64, consumed = 4 : i64, released = 3 : i64}, {stages = 1 : i64, published = 1 : i64, consumed = 1 : i64, released = 0 : i64}], iterations = 4 : i64, roles = {consumers = 2 : i64, producer = 1 : i64}, steps = 15 : i64}}
// RUN: mg-opt --check-hazards %t.right.mlir | diff %t.right.mlir -

// RUN: sed 's/consumed = 4/consumed = 5/; s/producer = 1/loader = 1/' %t.right.mlir > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix FORGED
// FORGED: mg-opt: {{.*}}:{{[0-9]+}}:{{[0-9]+}}: error: --check-hazards: 'sched.kernel' @channel_sum has a 'sched.progress_certificate' that is not its own; without it a new one is made:
// FORGED-NEXT: 'channels' is [{stages = 2 : i64, published = 4 : i64, consumed = 5 : i64
// FORGED-NEXT: 'roles' is {consumers = 2 : i64, loader = 1 : i64}, and a run of the kernel has {consumers = 2 : i64, producer = 1 : i64}
