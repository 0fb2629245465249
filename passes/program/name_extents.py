"""``--name-extents``: which dimensions of every tensor of a program have names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.passes import ModulePass

from mugraph.dialects.named_extents import EXTENT, is_open, with_names
from mugraph.passes.program.named_extents import names_of_values


def name_extents(function: FuncOp) -> None:
    """Writes the names of dimensions on operators, and on the function's results."""
    found = names_of_values(function)
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            named = [found[value] for value in op.operands]
            function.res_attrs = with_names(function.res_attrs, named)
        elif any(any(found[result]) for result in op.results):
            op.attributes[EXTENT] = ArrayAttr(
                [ArrayAttr([StringAttr(name) for name in found[result]]) for result in op.results]
            )


@dataclass(frozen=True)
class NameExtentsPass(ModulePass):
    """Finds the named extent of each dynamic dimension ``?`` of a program, and writes it down.

    Attributes of arguments name their dimensions (``mugraph.extent``); an attribute of the function
    defines the names (``mugraph.extents``). Operators may have a named dimension if they treat each
    of its indices separately: element-wise functions, rows of products and of norms, reductions
    along other dimensions, views that keep the dimension. An operator that combines elements along
    it is an error.

    Before::

        func.func @f(%x: tensor<?x64xf16> {mugraph.extent = ["m", ""]}) -> tensor<?x64xf16>
            attributes {mugraph.extents = {m = {largest = 512}}} {
          %y = kn.exp %x : tensor<?x64xf16> -> tensor<?x64xf16>

    After::

          %y = kn.exp %x {mugraph.extent = [["m", ""]]} : tensor<?x64xf16> -> tensor<?x64xf16>
    """

    name = "name-extents"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Names dimensions in every function with open extents."""
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and is_open(function):
                name_extents(function)
