"""µGraphs as text for the tests of the interpreter, and what parses them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from mugraph.tools.universe import MUGRAPH_UNIVERSE

Array = npt.NDArray[Any]


def context() -> Context:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Func)
    for name, factory in MUGRAPH_UNIVERSE.all_dialects.items():
        ctx.register_dialect(name, factory)
    return ctx


def parse(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def extents(shape: Sequence[int]) -> str:
    return "x".join(str(extent) for extent in shape)


def tensor(shape: Sequence[int], element: str = "f16") -> str:
    return f"tensor<{extents(shape)}x{element}>"


def tile(shape: Sequence[int], element: str = "f16") -> str:
    return f"!tb.stensor<{extents(shape)}x{element}>"


def customized(
    inputs: Sequence[Sequence[int]],
    output: Sequence[int],
    body: str,
    grid: Sequence[int] = (1, 1, 1),
    forloop: int = 1,
) -> str:
    """A function @f of one kernel, whose body names its tensors %0d, %1d ..."""
    names = [f"%arg{index}" for index in range(len(inputs))]
    types = [tensor(shape) for shape in inputs]
    signature = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))
    arguments = ", ".join(f"%d{index}: {type_}" for index, type_ in enumerate(types))
    launch = f"grid {list(grid)} block [128, 1, 1] forloop {forloop}"
    return f"""
func.func @f({signature}) -> {tensor(output)} {{
  %result = kn.customized {", ".join(names)} {launch} {{
  ^bb0({arguments}):
    {body}
  }} : ({", ".join(types)}) -> {tensor(output)}
  func.return %result : {tensor(output)}
}}
"""


def on_tiles(
    inputs: Sequence[Sequence[int]],
    output: Sequence[int],
    body: str,
    forloop: int = 1,
    fordims: Sequence[int] | None = None,
) -> str:
    """A kernel of one block: ``body`` computes %y, a value after the loop, from %t0, %t1 ...

    ``fordims`` has -1 for a tensor that the loop does not split, which is all of them by default.
    """
    loads: list[str] = []
    for index, shape in enumerate(inputs):
        part = list(shape)
        split = ""
        if fordims is not None and fordims[index] >= 0:
            part[fordims[index]] //= forloop
            split = f"fordim {fordims[index]}"
        loads.append(
            f"%t{index} = tb.input %d{index} imap [-1, -1, -1] {split} "
            f": {tensor(shape)} -> {tile(part)}"
        )
    store = f"tb.output %y omap [-1, -1, -1] : {tile(output)} -> {tensor(output)}"
    return customized(inputs, output, "\n    ".join([*loads, body, store]), forloop=forloop)


def integers(shape: Sequence[int], limit: int = 5, seed: int = 0) -> Array:
    """Small integers, whose products and sums fp32 holds exactly in any order."""
    generator = np.random.default_rng(seed)
    return generator.integers(-limit, limit, shape, endpoint=True).astype(np.float16)


def normal(shape: Sequence[int], scale: float = 1.0, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape, np.float32) * scale).astype(np.float16)


def relative_error(value: Array, reference: Array) -> float:
    difference = np.linalg.norm(value.astype(np.float64) - reference)
    return float(difference / np.linalg.norm(reference))
