"""Launches at the level of addresses, and what they left: where results were written, by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.runtime.interpreter.address_kernel import (
    AddressLevel,
    KernelRun,
    run_kernel_by_address,
)
from mugraph.runtime.interpreter.address_plans import Plans
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array, is_whole
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.schedule import run_kernel

Mask = npt.NDArray[np.bool_]


@dataclass
class AddressLauncher:
    """Runs the launches of one function at the level of addresses.

    Where only a sample of blocks runs, what the others would have written is NaN in the function's
    results; other operators get it from the level of logical values.
    """

    level: AddressLevel
    plans: Plans = field(default_factory=Plans)
    blocks: dict[str, list[tuple[int, ...]]] = field(
        default_factory=dict[str, list[tuple[int, ...]]]
    )
    """The blocks that ran, of each kernel by name."""
    written: dict[SSAValue, Mask] = field(default_factory=dict[SSAValue, Mask])

    def refuse(self, op: CustomizedOp) -> None:
        """Raises ``ExecutionError``: a threadblock graph has no addresses."""
        raise ExecutionError(
            f"{op_label(op)} has no addresses before it is scheduled; run --transpile first"
        )

    def launch(
        self, op: sched.LaunchOp, inputs: Sequence[Array], arithmetic: Arithmetic, module: ModuleOp
    ) -> tuple[Array, ...]:
        """The results of a launch; raises ``ExecutionError`` as :func:`run_kernel_by_address`."""
        run = run_kernel_by_address(op, inputs, self.level, module, self.plans)
        self.blocks[op.kernel.string_value()] = [
            tuple(int(index) for index in block) for block in run.blocks
        ]
        for result, written in zip(op.outputs, run.written, strict=True):
            self.written[result] = written
        if self.level.sample is None or _is_only_returned(op):
            return run.results
        return self._completed(run, run_kernel(op, inputs, arithmetic, module))

    def _completed(self, run: KernelRun, logical: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(
            np.where(written, result, whole)
            for result, written, whole in zip(run.results, run.written, logical, strict=True)
        )

    def mask_outputs(self, function: FuncOp, outputs: Sequence[Any]) -> list[Mask]:
        """Where the outputs of a function were written.

        Elsewhere they become NaN, and integers 0, in place.
        """
        returned = function.body.blocks[-1].last_op
        values = returned.operands if isinstance(returned, ReturnOp) else ()
        masks: list[Mask] = []
        for value, output in zip(values, outputs, strict=True):
            mask = self.written.get(value)
            if mask is None:
                mask = np.ones(shape_of(value.type), np.bool_)
            output[~mask] = 0 if is_whole(output.dtype) else np.nan
            masks.append(mask)
        return masks


def _is_only_returned(op: sched.LaunchOp) -> bool:
    return all(isinstance(use.operation, ReturnOp) for result in op.outputs for use in result.uses)
