"""Which functions of a module are µGraphs, beside those of other dialects."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp

from mugraph.dialects.interfaces import HasLayoutConstraints, HasWorkspace


def holds_kernels(function: FuncOp) -> bool:
    """Whether a function computes with kernels, scheduled or not."""
    return any(isinstance(op, (HasLayoutConstraints, HasWorkspace)) for op in function.walk())


def only_returns_tensors(function: FuncOp) -> bool:
    """Whether a function has no operators and returns tensors: a µGraph without kernels."""
    returned = function.function_type.outputs.data
    return (
        all(op is function or isinstance(op, ReturnOp) for op in function.walk())
        and len(returned) > 0
        and all(isinstance(type_, TensorType) for type_ in returned)
    )


def is_foreign(function: FuncOp) -> bool:
    """Whether a function has nothing of a µGraph, so that passes leave it as it is."""
    return function.is_declaration or not (
        holds_kernels(function) or only_returns_tensors(function)
    )


def mugraphs_of(module: ModuleOp) -> list[FuncOp]:
    """The functions to compile or run: a module's µGraphs or, where it has none, all it defines."""
    defined = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    return [function for function in defined if not is_foreign(function)] or defined
