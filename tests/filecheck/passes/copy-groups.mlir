// Passes that move operators name the groups that a wait covers anew.
// RUN: mg-opt --split-input-file --promote-registers %s | filecheck %s

// A loop that commits carries what its waits ask for; what is not committed in it stays outside.
// CHECK-LABEL: sched.kernel @carried
// CHECK:      [[OLD:%[0-9]+]], [[NEW:%[0-9]+]] = sched.prologue {
// CHECK:      sched.forloop 4 carrying [[NEW]] : !sched.token {
// CHECK-NEXT: ^bb0([[BEFORE:%[0-9]+]]: !sched.token):
// CHECK-NEXT:   sched.wait pending 0 for [[BEFORE]]
// CHECK-NEXT:   [[AFTER:%[0-9]+]] = sched.commit
// CHECK-NEXT:   sched.wait pending 0 for [[AFTER]]
// CHECK-NEXT:   sched.yield [[AFTER]]
sched.kernel @carried inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  sched.prologue {
    %0 = sched.commit
    %1 = sched.commit
  }
  sched.forloop 4 {
    sched.wait pending 0
    %2 = sched.commit
    sched.wait pending 0
  }
  sched.epilogue {
    sched.wait pending 1
  }
}

// -----

// CHECK-LABEL: sched.kernel @invariant
// CHECK:      [[GROUP:%[0-9]+]] = sched.prologue {
// CHECK:      sched.forloop 4 {
// CHECK-NEXT:   sched.wait pending 0 for [[GROUP]]
sched.kernel @invariant inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  sched.prologue {
    %0 = sched.commit
  }
  sched.forloop 4 {
    sched.wait pending 0
  }
}

// -----

// In the first iteration no third group is there.
// CHECK-LABEL: sched.kernel @too_few
// CHECK:      sched.forloop 4 carrying
// CHECK:        [[LAST:%[0-9]+]] = sched.commit
// CHECK-NEXT:   sched.wait pending 2{{$}}
// CHECK-NEXT:   sched.yield [[LAST]] : !sched.token
sched.kernel @too_few inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  sched.prologue {
    %0 = sched.commit
  }
  sched.forloop 4 {
    %1 = sched.commit
    sched.wait pending 2
  }
}
