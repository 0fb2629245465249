"""Graphs of one custom operator each, for tests of every stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.reading import make_context
from mugraph.texpr.load_operators import load_operators

OPERATORS = Path(__file__).parents[2] / "examples" / "custom_operators" / "operators.te"


@dataclass(frozen=True)
class Tile:
    """The extents and the element type of a block's tile, as text."""

    rows: int
    columns: int
    element: str = "f16"

    @property
    def stensor(self) -> str:
        """The type of the tile."""
        return f"!tb.stensor<{self.rows}x{self.columns}x{self.element}>"

    def tensor(self, blocks: int) -> str:
        """The type of the tensor whose rows ``blocks`` blocks share."""
        return f"tensor<{self.rows * blocks}x{self.columns}x{self.element}>"


def graph_of(
    operator: str, operands: Sequence[Tile], result: Tile, *, blocks: int = 2, threads: int = 128
) -> str:
    """A graph that runs an operator on tiles of rows; operands come straight from memory."""
    names = [f"x{number}" for number in range(len(operands))]
    types = ", ".join(tile.tensor(blocks) for tile in operands)
    arguments = ", ".join(
        f"%{name}: {tile.tensor(blocks)}" for name, tile in zip(names, operands, strict=True)
    )
    inside = ", ".join(
        f"%d{name}: {tile.tensor(blocks)}" for name, tile in zip(names, operands, strict=True)
    )
    inputs = "\n".join(
        f"    %s{name} = tb.input %d{name} imap [0, -1, -1] fordim -1 : "
        f"{tile.tensor(blocks)} -> {tile.stensor}\n"
        f"    %a{name} = tb.forloop_accum none %s{name} : {tile.stensor} -> {tile.stensor}"
        for name, tile in zip(names, operands, strict=True)
    )
    tiles = ", ".join(tile.stensor for tile in operands)
    given = ", ".join(f"%a{name}" for name in names)
    passed = ", ".join(f"%{name}" for name in names)
    out = result.tensor(blocks)
    return f"""
func.func @f({arguments}) -> {out} {{
  %o = kn.customized {passed} grid [{blocks}, 1, 1] block [{threads}, 1, 1] forloop 1 {{
  ^bb0({inside}):
{inputs}
    %y = tb.custom @{operator}({given}) : ({tiles}) -> {result.stensor}
    tb.output %y omap [0, -1, -1] : {result.stensor} -> {out}
  }} : ({types}) -> {out}
  func.return %o : {out}
}}
"""


def parse(text: str, operators: str | None = None) -> ModuleOp:
    """The module of a text, with its operators' functions from ``operators.te`` or a text."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    source = OPERATORS.read_text(encoding="utf-8") if operators is None else operators
    load_operators(module, source, "operators.te")
    module.verify()
    return module
