"""The arguments of a function, each with the attributes that stand beside it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument


def entries_of_arguments(function: FuncOp) -> Sequence[DictionaryAttr]:
    """The attributes of each argument."""
    if function.arg_attrs:
        return function.arg_attrs.data
    return [DictionaryAttr({})] * len(function.body.block.args)


def append_argument(
    function: FuncOp, type_: Attribute, attributes: dict[str, Attribute] | None = None
) -> BlockArgument:
    """A last argument, with its attributes.

    The function's type does not have it until ``update_function_type``.
    """
    entry = DictionaryAttr(attributes or {})
    function.arg_attrs = ArrayAttr([*entries_of_arguments(function), entry])
    block = function.body.block
    return block.insert_arg(type_, len(block.args))
