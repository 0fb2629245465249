"""``--load-operators``: the functions of custom operators, from a `.te` file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects import te
from mugraph.dialects.tb import CustomOp
from mugraph.dialects.tensor_types import element_type_of, shape_of, value_label
from mugraph.texpr.read import read_operator


def buffer_types(op: CustomOp) -> list[te.BufferType]:
    """The types of the function's parameters, by the operands of a custom operator."""
    return [_buffer_type(op, value) for value in op.inputs]


def _buffer_type(op: CustomOp, value: SSAValue) -> te.BufferType:
    element = element_type_of(value.type)
    if element not in te.ELEMENT_TYPES.values():
        raise VerifyException(
            f"{op.label}: {value_label(value)} has elements of {element}, but a tensor expression "
            f"has {', '.join(te.ELEMENT_TYPES)}; insert a 'tb.cast'"
        )
    return te.BufferType.of(shape_of(value.type), element)


def load_operators(module: ModuleOp, text: str, name: str) -> None:
    """Adds the functions of a `.te` text that custom operators without one are called after.

    Each gets a copy for the extents of its operands; operators of equal extents share one.  Raises
    ``ParseError`` at the place of an error in the text.
    """
    known = {op.sym_name.data for op in module.ops if isinstance(op, FuncOp)}
    for op in [op for op in module.walk() if isinstance(op, CustomOp)]:
        if op.declared_function() is not None:
            continue
        symbol, loaded = read_operator(text, name, op.function_name, buffer_types(op), {})
        for function in list(loaded.ops):
            assert isinstance(function, FuncOp)
            if function.sym_name.data not in known:
                function.detach()
                module.body.block.insert_op_before(function, _first(module))
                known.add(function.sym_name.data)
        op.callee = SymbolRefAttr(symbol)


def _first(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


@dataclass(frozen=True)
class LoadOperatorsPass(ModulePass):
    """Brings the functions of ``tb.custom`` operators from a `.te` file into the module.

    Of every ``tb.custom @f`` whose function the module does not have, the file's ``fn f`` is
    copied for the extents of the operands, and checked for races and accesses out of bounds.

    ``file`` is the path of the file.

    Before, with ``fn rope(x: f16[M, D], ...): f16[M, D] { ... }`` in the file::

        %y = tb.custom @rope(%x, %cos, %sin) : (!tb.stensor<16x64xf16>, ...) -> ...

    After::

        func.func private @rope_16_64(%x: !te.buffer<16x64xf16>, ...) { ... }
        %y = tb.custom @rope_16_64(%x, %cos, %sin) : (!tb.stensor<16x64xf16>, ...) -> ...
    """

    name = "load-operators"

    file: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Loads what the module lacks."""
        try:
            text = Path(self.file).read_text(encoding="utf-8")
        except OSError as error:
            raise PassFailedException(
                f"--load-operators: {self.file} cannot be read: {error.strerror}"
            ) from error
        load_operators(op, text, self.file)


__all__: Sequence[str] = ["LoadOperatorsPass", "buffer_types", "load_operators"]
