"""Whether kernels compute what their certificates say, each kernel alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import ParseError, VerifyException

from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.tensor_types import op_label
from mugraph.runtime.equivalence.check import Answer, Checker, Verdict
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.equivalence.subject import Subject
from mugraph.runtime.interpreter.errors import ExecutionError

Read = Callable[[str], ModuleOp]
"""Parses and verifies text."""


def check_certificates(module: ModuleOp, read: Read) -> Iterator[tuple[str, Verdict]]:
    """The answer for each kernel with a certificate, and what to call the kernel."""
    for op in module.walk():
        if isinstance(op, CustomizedOp) and CERTIFICATE in op.attributes:
            yield op_label(op), _verdict(op, read)


def _verdict(kernel: CustomizedOp, read: Read) -> Verdict:
    certificate = kernel.attributes[CERTIFICATE]
    if not isinstance(certificate, StringAttr):
        return Verdict(Answer.UNDECIDED, ["its certificate is no text"])
    try:
        reference = Subject.of(read(certificate.data))
        return Checker(reference).check(Subject.of(_alone(kernel)))
    except (ParseError, VerifyException) as error:
        return Verdict(Answer.UNDECIDED, [f"its certificate cannot be read: {error}"])
    except (CheckError, ExecutionError) as error:
        return Verdict(Answer.UNDECIDED, [str(error)])


def _alone(kernel: CustomizedOp) -> ModuleOp:
    """A function that is the kernel alone."""
    types = [value.type for value in kernel.inputs]
    block = Block(arg_types=types)
    values: dict[SSAValue, SSAValue] = dict(zip(kernel.inputs, block.args, strict=False))
    # One tensor may be several operands: each is an argument of its own then.
    own = kernel.clone(values)
    own.operands = block.args
    block.add_ops([own, ReturnOp(*own.results)])
    results = [value.type for value in kernel.results]
    return ModuleOp([FuncOp("kernel", (types, results), Region(block))])
