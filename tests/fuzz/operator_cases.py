"""µGraphs of one operator each, or a few, for the checks that random µGraphs pass through."""

from __future__ import annotations

from collections.abc import Sequence

from thorough import inputs

from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS

Shape = tuple[int, ...]

CONSTANTS = {
    "mul_scalar": " by -0.75",
    "add_scalar": " by 0.3",
    "fill": " with 0.3",
    "clamp": " from -0.25 to 0.75",
    "bits": " from 1.0 count 3.0",
}
"""What follows the operand of a function with constants."""
STEP_CONSTANTS = {
    "mul_scalar": "(-0.75)",
    "add_scalar": "(0.3)",
    "fill": "(0.3)",
    "clamp": "(-0.25, 0.75)",
}
JUMPING = ("floor", "round", "bits", "fp4", "nf4")
"""Functions that make a whole one of a rounding error: they are drawn on inputs alone."""
SMOOTH = [function for function in UNARY_FUNCTIONS if function not in JUMPING]
STEPS = [function + STEP_CONSTANTS.get(function, "") for function in SMOOTH]
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


def on_whole_tensors(names: Sequence[str], arguments: Sequence[Shape], shape: Shape) -> str:
    """Operators of ``kn`` on the same arguments, each with a result of this shape."""
    tensors = [tensor(argument) for argument in arguments]
    given = [f"%positive{i}" for i in range(len(arguments))]
    types = tensors[0] if len(tensors) == 1 else f"({', '.join(tensors)})"
    operators = "\n".join(
        f"%{name} = kn.{name} {', '.join(given)}{CONSTANTS.get(name, '')} : {types} -> "
        f"{tensor(shape)}"
        for name in names
    )
    results = ", ".join([tensor(shape)] * len(names))
    parameters = ", ".join(f"{name}: {type_}" for name, type_ in zip(given, tensors, strict=True))
    return f"""
    func.func @f({parameters}) -> ({results}) {{
      {operators}
      func.return {", ".join(f"%{name}" for name in names)} : {results}
    }}"""


TOGETHER = 5
"""So many functions are in one kernel."""
PRODUCTS_TOGETHER = 3
"""So many functions are in the epilogues of one kernel, each in two."""


def elementwise_functions(threads: int) -> list[str]:
    """Every scalar function as a kernel, as an operator of a block and in an epilogue.

    Every run takes half of the epilogues.
    """
    shape: Shape = (6, 24)
    texts = [on_whole_tensors(JUMPING, [shape], shape)]
    unary = [name for name in SMOOTH if name != "identity"]
    for first in range(0, len(unary), TOGETHER):
        names = unary[first : first + TOGETHER]
        body = accumulated("%t0", "%s", shape)
        body += f"%m = tb.mul_scalar %s by 0.25 : {tile(shape)} -> {tile(shape)}\n"
        for name in names:
            rest = f"{CONSTANTS.get(name, '')} : {tile(shape)} -> {tile(shape)}\n"
            body += f"%{name}_v = tb.{name} %t0{rest}"
            body += accumulated(f"%{name}_v", f"%{name}_a", shape)
            body += f"%{name}_b = tb.{name} %m{rest}"
        outputs = [(f"%{name}_{which}", shape) for name in names for which in "ab"]
        texts.append(in_loop([shape], body, outputs, threads=threads))
        texts.append(on_whole_tensors(names, [shape], shape))
    binary = list(BINARY_FUNCTIONS)
    for left, right in ((shape, (6, 1)), ((1, 24), shape), ((6, 1), (1, 24))):
        types = f"({tile(left)}, {tile(right)}) -> {tile(shape)}"
        body = "".join(
            f"%{name}_v = tb.{name} %t0, %t1 : {types}\n"
            + accumulated(f"%{name}_v", f"%{name}_a", shape)
            for name in binary
        )
        outputs = [(f"%{name}_a", shape) for name in binary]
        texts.append(in_loop([left, right], body, outputs, threads=threads, fordims=(-1, -1)))
    texts.append(on_whole_tensors(binary, [(6, 1), shape], shape))
    product = f"({tile((6, 16))}, {tile((16, 24))}) -> {tile(shape)}"
    for first in range(0, len(STEPS), PRODUCTS_TOGETHER)[:: -inputs(2, 1)]:
        body = ""
        outputs = []
        for number, step in enumerate(STEPS[first : first + PRODUCTS_TOGETHER]):
            for result, last in ((f"%a{number}", ", accum"), (f"%v{number}", "")):
                steps = f"mul_scalar(0.0625), {step}{last}"
                body += f"{result} = tb.matmul %t0, %t1 then [{steps}] : {product}\n"
            body += accumulated(f"%v{number}", f"%b{number}", shape)
            outputs += [(f"%a{number}", shape), (f"%b{number}", shape)]
        operands = [(6, 16), (16, 24)]
        whole_warps = max(threads // 32, 1) * 32
        texts.append(in_loop(operands, body, outputs, fordims=(1, 0), threads=whole_warps))
    return texts


ROWS: Sequence[tuple[Shape, int]] = (
    *(((5, 9), 33), ((16, 40), 128), ((2, 3, 8), 20)),
    *inputs(0, 1) * (((6, 24), 64),),
)
"""Extents of tiles and threads of blocks, some of them odd.

The last ones are, like the second ones, a matrix of whole vectors in whole warps.
"""


def row_of(shape: Shape) -> Shape:
    """The extents of one number a row."""
    return (*shape[:-1], 1)


def accumulators() -> list[str]:
    """Every accumulator that is not a plain sum."""
    texts: list[str] = []
    for shape, threads in ROWS:
        row = row_of(shape)
        last = len(shape) - 1
        steps = [
            f"%a = tb.forloop_accum max %t0 : {tile(shape)} -> {tile(shape)}",
            f"%b = tb.forloop_accum mean %t0 : {tile(shape)} -> {tile(row)}",
            f"%c = tb.forloop_accum_rescale none %t0 by %t1 : ({tile(shape)}, {tile(row)}) "
            f"-> {tile(shape)}",
            f"%d = tb.forloop_accum_rescale sum %t0 by %t1 : ({tile(shape)}, {tile(row)}) "
            f"-> {tile(row)}",
            f"%e = tb.forloop_accum_rescale sum %t0 by %t0 : ({tile(shape)}, {tile(shape)}) "
            f"-> {tile(row)}",
        ]
        outputs = [("%a", shape), ("%b", row), ("%c", shape), ("%d", row), ("%e", row)]
        body = "\n".join(steps)
        texts.append(in_loop([shape, row], body, outputs, threads=threads, fordims=(last, last)))
    return texts


def running_maxima() -> list[str]:
    """Maxima over every dimension, and what they are for."""
    texts: list[str] = []
    for shape, threads in ROWS:
        for dim in range(len(shape)):
            result = tuple(1 if d == dim else n for d, n in enumerate(shape))
            body = (
                f"%m, %f = tb.reduction_max %t0 dim {dim} : {tile(shape)} -> "
                f"({tile(result)}, {tile(result, 'f32')})\n"
                f"%x = tb.exp %f : {tile(result, 'f32')} -> {tile(result)}\n"
            )
            body += accumulated("%m", "%a", result) + accumulated("%x", "%b", result)
            outputs = [("%a", result), ("%b", result)]
            texts.append(in_loop([shape], body, outputs, threads=threads, iterations=4))
    return texts


def norms() -> list[str]:
    """Norms with weights and epsilons."""
    texts: list[str] = []
    for shape, threads in ROWS:
        factors = (*[1] * (len(shape) - 1), shape[-1])
        types = f"{tile(shape)}, {tile(factors)} -> {tile(shape)}"
        for epsilon in ("", "epsilon 0.25"):
            body = f"%v = tb.rms_norm %t0 weight %t1 {epsilon} : {types}\n"
            body += accumulated("%v", "%a", shape)
            body += f"%w = tb.rms_norm %t0 {epsilon} : {tile(shape)} -> {tile(shape)}\n"
            body += accumulated("%w", "%b", shape)
            outputs = [("%a", shape), ("%b", shape)]
            texts.append(in_loop([shape, factors], body, outputs, threads=threads, fordims=(0, -1)))
    return texts


def softmax_attention(
    scores: Shape,
    columns: int,
    *,
    iterations: int,
    threads: int,
    more: str = "",
    outputs: Sequence[tuple[str, Shape]] = (),
) -> str:
    """The quotient of weighted exponentials and their sum; ``more`` and its ``outputs`` follow."""
    *lead, rows, depth = scores
    values, result = (*lead, depth, columns), (*lead, rows, columns)
    row = row_of(scores)
    last = len(scores) - 1
    body = f"""%e = tb.exp %t0 : {tile(scores)} -> {tile(scores)}
    %p = tb.matmul %e, %t1 : ({tile(scores)}, {tile(values)}) -> {tile(result)}
    %o = tb.forloop_accum none %p : {tile(result)} -> {tile(result)}
    %l = tb.forloop_accum sum %e : {tile(scores)} -> {tile(row)}
    %q = tb.div %o, %l : ({tile(result)}, {tile(row)}) -> {tile(result)}
    {more}"""
    return in_loop(
        [scores, values],
        body,
        [("%q", result), *outputs],
        iterations=iterations,
        fordims=(last, last - 1),
        threads=threads,
    )


def rearrangements() -> list[str]:
    """Tiles put together and cut, along every dimension, aligned and not."""
    texts: list[str] = []
    cases: Sequence[tuple[Shape, int, tuple[int, int], int]] = (
        ((6, 24), 1, (8, 16), 64),
        ((6, 24), 0, (5, 1), 33),
        ((5, 9), 1, (4, 5), 96),
        ((4, 6, 8), 0, (3, 1), 40),
        ((4, 6, 8), 1, (2, 4), 128),
        ((4, 6, 8), 2, (1, 7), 32),
    )
    for shape, dim, extents, threads in cases:
        one, two = (tuple(n if d == dim else e for d, e in enumerate(shape)) for n in extents)
        body = f"%z = tb.concat %t0, %t1 dim {dim} : ({tile(one)}, {tile(two)}) -> {tile(shape)}\n"
        body += f"%e = tb.exp %z : {tile(shape)} -> {tile(shape)}\n"
        body += f"%p, %q = tb.split %e dim {dim} : ({tile(shape)}) -> ({tile(one)}, {tile(two)})\n"
        body += accumulated("%p", "%a", one) + accumulated("%q", "%b", two)
        body += accumulated("%z", "%c", shape)
        body += f"%d = tb.concat %a, %b dim {dim} : ({tile(one)}, {tile(two)}) -> {tile(shape)}"
        outputs = [("%c", shape), ("%d", shape)]
        moves = (len(shape) - 1 if dim != len(shape) - 1 else 0,) * 2
        texts.append(in_loop([one, two], body, outputs, threads=threads, fordims=moves))
    return texts


def products() -> list[str]:
    """Several matrices in a block, and products of tiles that would have to be put together."""
    texts: list[str] = []
    for lead, threads in (((3,), 64), ((2, 2), 32), ((1, 2), 96)):
        lhs, rhs, result = (*lead, 7, 16), (*lead, 16, 9), (*lead, 7, 9)
        moves = (len(lhs) - 1, len(lhs) - 2)
        types = f"({tile(lhs)}, {tile(rhs)}) -> {tile(result)}"
        body = f"%a = tb.matmul %t0, %t1 then [mul_scalar(0.125), exp, accum] : {types}\n"
        body += f"%m = tb.matmul %t0, %t1 : {types}\n" + accumulated("%m", "%b", result)
        outputs = [("%a", result), ("%b", result)]
        texts.append(in_loop([lhs, rhs], body, outputs, threads=threads, fordims=moves))
    tiles: Sequence[Shape] = ((8, 16), (8, 8), (16, 12), (8, 12))
    result: Shape = (8, 12)
    types = ", ".join(map(tile, tiles))
    call = f"tb.concat_then_matmul %t0, %t1, %t2, %t3 : ({types}) -> {tile(result)}\n"
    whole: Shape = (8, 24)
    joined = f"""%j = tb.concat %t0, %t1 dim 1 : ({tile((8, 16))}, {tile((8, 8))}) -> {tile(whole)}
    %k = tb.concat %t2, %t3 dim 0 : ({tile((16, 12))}, {tile((8, 12))}) -> {tile((24, 12))}
    %m = tb.matmul %j, %k : ({tile((8, 24))}, {tile((24, 12))}) -> {tile(result)}
    """
    for product in (f"%m = {call}", joined):
        body = product + accumulated("%m", "%a", result)
        used_twice = body + f"%s = tb.square %m : {tile(result)} -> {tile(result)}\n"
        used_twice += accumulated("%s", "%b", result)
        moves = (1, 1, 0, 0)
        texts.append(in_loop(tiles, body, [("%a", result)], fordims=moves))
        outputs = [("%a", result), ("%b", result)]
        texts.append(in_loop(tiles, used_twice, outputs, fordims=moves))
    return texts


__all__ = [
    "Shape",
    "accumulated",
    "accumulators",
    "elementwise_functions",
    "in_loop",
    "norms",
    "products",
    "rearrangements",
    "running_maxima",
    "softmax_attention",
    "tensor",
    "tile",
]
