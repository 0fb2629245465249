"""A pipelined matrix product, scheduled and planned by hand, for the tests of addresses."""

SX_TYPE = "!sched.shared<32x32xf16, S<2,3,3> o (32,32):(32,1)>"
SW_TYPE = "!sched.shared<32x16xf16, S<1,3,3> o (32,16):(16,1)>"
SO_TYPE = "!sched.shared<32x16xf16, (32,16):(16,1)>"
X_TILE = "!sched.global<32x32xf16, (32,32):(192,1)>"
W_TILE = "!sched.global<32x16xf16, (32,16):(48,1)>"
O_TILE = "!sched.global<32x16xf16, (32,16):(48,1)>"
ACC = "!sched.tile<32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>"
BY = "by <64, vector 8, order [1, 0]>"
# 9216 bytes: 3 stages of 2048 for x, 3 of 1024 for w; the result takes the third of x.
SMEM = 9216

STEP = f"""sched.copy async %xt to %sx {BY} STAGE : {X_TILE} to {SX_TYPE}
    sched.copy async %wt to %sw {BY} STAGE : {W_TILE} to {SW_TYPE}
    sched.commit"""

PIPELINE = f"""
sched.kernel @kernel inputs 2 grid [3, 1, 1] block [64, 1, 1] smem {SMEM} {{
^bb0(%x: !sched.global<32x192xf16, (32,192):(192,1)>,
     %w: !sched.global<192x48xf16, (192,48):(48,1)>,
     %o: !sched.global<32x48xf16, (32,48):(48,1)>):
  %xt = sched.local_tile %x map [-1, -1, -1] fordim 1
    : !sched.global<32x192xf16, (32,192):(192,1)> -> {X_TILE}
  %wt = sched.local_tile %w map [1, -1, -1] fordim 0
    : !sched.global<192x48xf16, (192,48):(48,1)> -> {W_TILE}
  %ot = sched.local_tile %o map [1, -1, -1]
    : !sched.global<32x48xf16, (32,48):(48,1)> -> {O_TILE}
  %sx = sched.alloc stages 3 offset 0 : {SX_TYPE}
  %sw = sched.alloc stages 3 offset 6144 : {SW_TYPE}
  %so = sched.alloc offset 4096 : {SO_TYPE}
  %acc = sched.empty : {ACC}
  %acc_1 = sched.prologue {{
    {STEP.replace("STAGE", "iteration 0")}
    {STEP.replace("STAGE", "iteration 1")}
    %acc_2 = sched.fill %acc with 0.0 : {ACC}
    sched.yield %acc_2 : {ACC}
  }} -> {ACC}
  %acc_3 = sched.forloop 6 carrying %acc_1 : {ACC} {{
  ^bb0(%acc_4: {ACC}):
    sched.wait pending 1
    sched.barrier
    {STEP.replace("STAGE", "ahead 2")}
    %acc_5 = sched.mma %sx, %sw to %acc_4 ldmatrix [true, true] : {SX_TYPE}, {SW_TYPE} to {ACC}
    sched.yield %acc_5 : {ACC}
  }}
  sched.epilogue {{
    sched.barrier
    sched.store %acc_3 to %so then [mul_scalar(0.5)] : {ACC} to {SO_TYPE}
    sched.barrier
    sched.copy %so to %ot {BY} : {SO_TYPE} to {O_TILE}
  }}
}}
func.func @f(%x: tensor<32x192xf16>, %w: tensor<192x48xf16>) -> tensor<32x48xf16> {{
  %o = sched.launch @kernel %x, %w
    : (tensor<32x192xf16>, tensor<192x48xf16>) -> tensor<32x48xf16>
  func.return %o : tensor<32x48xf16>
}}
"""
