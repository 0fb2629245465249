"""The kernels of a program, each as a program of its own: which of them is wrong?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import RegroupOp
from mugraph.dialects.tensor_types import op_label
from mugraph.errors import first_line
from mugraph.tools.diagnostics import ToolError

NAME = "kernel"
"""The function of each program."""


class KernelAlone(NamedTuple):
    """A kernel of a program."""

    operator: Operation
    """The first that is like it."""
    module: ModuleOp
    """A function of the operator's operands, which returns its results."""
    times: int
    """How often the program has it."""


def kernels_alone(function: FuncOp) -> list[KernelAlone]:
    """The operators of a function that are kernels, those that are alike once, in order.

    Views are left out.  Raises ``ToolError`` where the program has been scheduled.
    """
    found: dict[str, KernelAlone] = {}
    for op in _kernels(function):
        module = _alone(op)
        text = str(module)
        known = found.get(text, KernelAlone(op, module, 0))
        found[text] = known._replace(times=known.times + 1)
    return list(found.values())


def _kernels(function: FuncOp) -> Iterator[Operation]:
    for op in function.body.block.ops:
        if isinstance(op, sched.LaunchOp):
            raise ToolError(
                f"--each-kernel takes programs as they are before --transpile; {op_label(op)} "
                "launches a scheduled kernel."
            )
        if op.results and not isinstance(op, (SharesMemory, RegroupOp)):
            yield op


def _alone(op: Operation) -> ModuleOp:
    operands = list(dict.fromkeys(op.operands))
    types = [value.type for value in operands]
    block = Block(arg_types=types)
    copy = op.clone(dict(zip(operands, block.args, strict=True)))
    # What tensors are called makes no difference.
    for value in (*block.args, *copy.results):
        value.name_hint = None
    block.add_ops([copy, ReturnOp(*copy.results)])
    results = [result.type for result in copy.results]
    module = ModuleOp([FuncOp(NAME, (types, results), Region(block))])
    try:
        module.verify()
    except VerifyException as error:
        raise ToolError(f"{op_label(op)} cannot stand alone: {first_line(error)}") from error
    return module
