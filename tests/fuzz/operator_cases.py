"""µGraphs of one operator each, or a few, for the checks that random µGraphs pass through."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS

Shape = tuple[int, ...]

CONSTANTS = {"mul_scalar": " by -0.75", "clamp": " from -0.25 to 0.75"}
"""What follows the operand of a function with constants."""
STEPS = [
    function + {"mul_scalar": "(-0.75)", "clamp": "(-0.25, 0.75)"}.get(function, "")
    for function in UNARY_FUNCTIONS
]
"""Every function as a step of an epilogue."""


def dims(shape: Shape) -> str:
    """Extents as they stand in a type."""
    return "x".join(map(str, shape))


def tile(shape: Shape, element: str = "f16") -> str:
    """The type of a tile."""
    return f"!tb.stensor<{dims(shape)}x{element}>"


def tensor(shape: Shape, element: str = "f16") -> str:
    """The type of a tensor."""
    return f"tensor<{dims(shape)}x{element}>"


def in_loop(
    inputs: Sequence[Shape],
    body: str,
    outputs: Sequence[tuple[str, Shape]],
    *,
    iterations: int = 3,
    fordims: Sequence[int] = (),
    threads: int = 64,
    element: str = "f16",
) -> str:
    """A custom kernel of one block: tiles ``%t0`` ... of these extents, positive numbers.

    Input i moves along dimension ``fordims[i]`` with the iterations, not at all for -1; ``outputs``
    names the values that ``body`` makes after the loop.
    """
    moves = [*fordims, *[0] * (len(inputs) - len(fordims))]
    whole = [
        tuple(n * iterations if d == moved else n for d, n in enumerate(shape))
        for shape, moved in zip(inputs, moves, strict=True)
    ]
    numbers = range(len(inputs))
    types = [tensor(shape, element) for shape in whole]
    results = ", ".join(tensor(shape, element) for _, shape in outputs)
    loads = "\n".join(
        f"%t{i} = tb.input %d{i} imap [-1, -1, -1] {f'fordim {moves[i]}' if moves[i] >= 0 else ''} "
        f": {types[i]} -> {tile(inputs[i], element)}"
        for i in numbers
    )
    stores = "\n".join(
        f"tb.output {value} omap [-1, -1, -1] : {tile(shape, element)} -> {tensor(shape, element)}"
        for value, shape in outputs
    )
    names = ", ".join(f"%positive{i}" for i in numbers)
    count = "" if len(outputs) == 1 else f":{len(outputs)}"
    returned = ", ".join(
        "%r" if len(outputs) == 1 else f"%r#{number}" for number in range(len(outputs))
    )
    return f"""
    func.func @f({", ".join(f"%positive{i}: {types[i]}" for i in numbers)}) -> ({results}) {{
      %r{count} = kn.customized {names} grid [1, 1, 1] block [{threads}, 1, 1]
          forloop {iterations} {{
      ^bb0({", ".join(f"%d{i}: {types[i]}" for i in numbers)}):
        {loads}
        {body}
        {stores}
      }} : ({", ".join(types)}) -> ({results})
      func.return {returned} : {results}
    }}"""


def accumulated(value: str, result: str, shape: Shape, element: str = "f16") -> str:
    """``result``, the sum of ``value`` over the iterations."""
    type_ = tile(shape, element)
    return f"{result} = tb.forloop_accum none {value} : {type_} -> {type_}\n"


def elementwise_functions(threads: int) -> list[str]:
    """Every scalar function as a kernel, as an operator of a block and in an epilogue."""
    shape: Shape = (6, 24)
    texts: list[str] = []
    for name in UNARY_FUNCTIONS:
        if name == "identity":
            continue
        constants = CONSTANTS.get(name, "")
        body = f"%v = tb.{name} %t0{constants} : {tile(shape)} -> {tile(shape)}\n"
        body += accumulated("%v", "%a", shape) + accumulated("%t0", "%s", shape)
        body += f"%m = tb.mul_scalar %s by 0.25 : {tile(shape)} -> {tile(shape)}\n"
        body += f"%b = tb.{name} %m{constants} : {tile(shape)} -> {tile(shape)}"
        texts.append(in_loop([shape], body, [("%a", shape), ("%b", shape)], threads=threads))
        texts.append(f"""
        func.func @f(%positive: {tensor(shape)}) -> {tensor(shape)} {{
          %r = kn.{name} %positive{constants} : {tensor(shape)} -> {tensor(shape)}
          func.return %r : {tensor(shape)}
        }}""")
    for name in BINARY_FUNCTIONS:
        for left, right in ((shape, (6, 1)), ((1, 24), shape), ((6, 1), (1, 24))):
            types = f"({tile(left)}, {tile(right)}) -> {tile(shape)}"
            body = f"%v = tb.{name} %t0, %t1 : {types}\n" + accumulated("%v", "%a", shape)
            texts.append(
                in_loop([left, right], body, [("%a", shape)], threads=threads, fordims=(-1, -1))
            )
        texts.append(f"""
        func.func @f(%positive: {tensor((6, 1))}, %positive1: {tensor(shape)}) -> {tensor(shape)} {{
          %r = kn.{name} %positive, %positive1 : ({tensor((6, 1))}, {tensor(shape)})
              -> {tensor(shape)}
          func.return %r : {tensor(shape)}
        }}""")
    for step in STEPS:
        product = f"({tile((6, 16))}, {tile((16, 24))}) -> {tile(shape)}"
        for last in ("", ", accum"):
            body = f"%a = tb.matmul %t0, %t1 then [mul_scalar(0.0625), {step}{last}] : {product}\n"
            if not last:
                body += accumulated("%a", "%b", shape)
            texts.append(
                in_loop(
                    [(6, 16), (16, 24)],
                    body,
                    [("%a" if last else "%b", shape)],
                    fordims=(1, 0),
                    threads=max(threads // 32, 1) * 32,
                )
            )
    return texts


__all__ = ["Shape", "accumulated", "elementwise_functions", "in_loop", "tensor", "tile"]
