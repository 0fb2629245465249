"""µGraphs of one product, as text."""

from __future__ import annotations


def product(
    rows: int,
    depth: int,
    columns: int,
    *,
    blocks: int = 2,
    loop: int,
    threads: int = 128,
    element: str = "f16",
) -> str:
    """x w: ``blocks`` blocks of ``columns`` columns each, ``loop`` tiles of ``depth``."""
    total = "i32" if element == "i8" else element
    x = f"tensor<{rows}x{depth * loop}x{element}>"
    w = f"tensor<{depth * loop}x{columns * blocks}x{element}>"
    y = f"tensor<{rows}x{columns * blocks}x{total}>"
    tile_x = f"!tb.stensor<{rows}x{depth}x{element}>"
    tile_w = f"!tb.stensor<{depth}x{columns}x{element}>"
    tile = f"!tb.stensor<{rows}x{columns}x{total}>"
    launch = f"grid [{blocks}, 1, 1] block [{threads}, 1, 1] forloop {loop}"
    return f"""
func.func @fuzzed(%signed: {x}, %signed_1: {w}) -> {y} {{
  %y = kn.customized %signed, %signed_1 {launch} {{
  ^bb0(%dx: {x}, %dw: {w}):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : {x} -> {tile_x}
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : {w} -> {tile_w}
    %m = tb.matmul %sx, %sw : ({tile_x}, {tile_w}) -> {tile}
    %am = tb.forloop_accum none %m : {tile} -> {tile}
    tb.output %am omap [1, -1, -1] : {tile} -> {y}
  }} : ({x}, {w}) -> {y}
  func.return %y : {y}
}}
"""
