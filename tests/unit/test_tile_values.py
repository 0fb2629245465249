"""Tiles get their values from the order of the text, and can be named by their registers."""

import pytest
from access_cases import parse
from golden_cuda import MUGRAPHS, WORKLOADS
from xdsl.passes import PassPipeline

from mugraph.dialects import sched
from mugraph.passes.schedule.tile_values import name_registers, name_values
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module

SUM = "!sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>"
MATRIX = "!sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>"
PRODUCT = f"sched.warpgroup_mma async %a, %a to %s : {MATRIX}, {MATRIX} to {SUM}"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_values_follow_from_registers(workload: str) -> None:
    context = make_context()
    module = read_module(str(MUGRAPHS / f"{workload}.mlir"), context)
    PassPipeline(tuple(transpile_pipeline("h200"))).apply(context, module)
    (kernel, *_) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    before = str(kernel)
    name_registers(kernel)
    assert not any(isinstance(op, sched.YieldOp) for op in kernel.walk())
    name_values(kernel)
    module.verify()
    assert str(kernel) == before


def waits_of(declared_in_the_loop: bool) -> list[sched.WarpgroupWaitOp]:
    """The waits of a role that waits behind its loop for the product of the last iteration."""
    made = f"%s = sched.empty : {SUM}"
    module = parse(f"""
    sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {{
      %a = sched.alloc : {MATRIX}
      sched.role "consumers" warps 4 {{
        {"" if declared_in_the_loop else made}
        sched.forloop 4 {{
          {made if declared_in_the_loop else ""}
          {PRODUCT}
        }}
        sched.epilogue {{
          sched.warpgroup_wait pending 0
        }}
      }}
    }}""")
    return [op for op in module.walk() if isinstance(op, sched.WarpgroupWaitOp)]


def test_a_wait_returns_the_sum_of_the_loop() -> None:
    (wait,) = waits_of(declared_in_the_loop=False)
    (total,) = wait.sums
    assert isinstance(total.owner, sched.ForloopOp)


def test_a_wait_behind_the_loop_names_nothing_of_an_iteration() -> None:
    (wait,) = waits_of(declared_in_the_loop=True)
    assert not wait.sums
