"""What ``--plan`` asks of a kernel, it asks of a copy in a copy of its function."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.plan.choose import trial_of
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function


def chain_of(layers: int) -> tuple[ModuleOp, list[kn.CustomizedOp]]:
    """A program of norms and products, each of which is a kernel."""
    graph = mi.new_kernel_graph("chain")
    x = graph.new_input((64, 512))
    for _ in range(layers):
        x = mi.silu(mi.rms_norm(x) @ graph.new_input((512, 512)))
    graph.mark_output(x)
    module = graph.module()
    function = only_function(module)
    fuse_program(function, target_named("sm_90a"))
    return module, [op for op in function.walk() if isinstance(op, kn.CustomizedOp)]


def test_kernels_behind_a_kernel_are_empty_in_its_trial() -> None:
    module, kernels = chain_of(3)
    assert len(kernels) == 3
    written = str(module)
    for plan, behind in ((Plan(), False), (Plan(merge=True), True)):
        with trial_of(kernels[1], plan) as trial:
            block = trial.parent
            assert block is not None
            copies = [op for op in block.ops if isinstance(op, kn.CustomizedOp)]
            assert copies.index(trial) == 1
            assert [bool(op.body.block.ops) for op in copies] == [True, True, behind]
            assert likeness_of(copies[0]) == likeness_of(kernels[0])
            assert trial.operands[0] is copies[0].results[0]
            assert [op.result_types for op in copies] == [op.result_types for op in kernels]
    assert str(module) == written


def test_a_trial_has_what_is_near_its_kernel() -> None:
    module, kernels = chain_of(8)
    written = str(module)
    with trial_of(kernels[4]) as trial:
        block = trial.parent
        assert block is not None
        copies = [op for op in block.ops if isinstance(op, kn.CustomizedOp)]
        assert [likeness_of(op) for op in copies[:3]] == [likeness_of(op) for op in kernels[2:5]]
        assert copies.index(trial) == 2 and len(copies) == 5
        assert copies[0].operands[0] is kernels[1].results[0]
    assert str(module) == written and len([*kernels[1].results[0].uses]) == 1
