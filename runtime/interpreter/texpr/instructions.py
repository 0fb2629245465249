"""What PTX instructions compute on the numbers of a warp, or of one thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from mugraph.dialects import te
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.atoms.mma import MmaAtom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.programming_model import WARP
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import reciprocal, rsqrt
from mugraph.runtime.interpreter.texpr.numbers import multiply_add

Registers = Array
"""``[iterations, elements]``: what each iteration holds in an operand."""


def execute_asm(op: te.AsmOp, operands: Sequence[Registers], lanes: int | None) -> dict[int, Array]:
    """What an instruction leaves in the operands that it writes, by their number.

    ``lanes`` is the extent of the fully parallel loop around, if there is one.  Raises
    ``ExecutionError`` for an instruction that the interpreter does not know, and for one of a warp
    where no warp is together.
    """
    if op.instruction in _WITHOUT_EFFECT:
        return {}
    order, literals = _operands_of(op)
    given = [operands[position] for position in order]
    name = op.instruction
    if name.startswith("mma.sync."):
        result = _mma(name, _warps(name, given, lanes))
    elif name.startswith("ldmatrix.sync."):
        *registers, lines = _warps(name, given, lanes)
        result = _ldmatrix(name, np.concatenate(registers, axis=2), lines)
        return _split(order[:-1], operands, result)
    elif name.startswith("stmatrix.sync."):
        _lines, *registers = _warps(name, given, lanes)
        result = _stmatrix(name, np.concatenate(registers, axis=2))
    elif name.startswith("cp.async."):
        result = given[1]
    elif name.startswith("shfl.sync."):
        result = _shuffle(name, _warps(name, given, lanes), literals)
    else:
        function = _OF_ONE_THREAD.get(_without_modifiers(name))
        if function is None:
            raise ExecutionError(
                f"the interpreter does not know the instruction {name}; it knows "
                "mma.sync, ldmatrix, stmatrix, shfl.sync, cp.async, "
                f"{', '.join(_OF_ONE_THREAD)}"
            )
        result = function(*given[1:])
    written = operands[order[0]]
    return {order[0]: np.asarray(result).reshape(written.shape).astype(written.dtype)}


def _split(order: Sequence[int], operands: Sequence[Registers], result: Array) -> dict[int, Array]:
    """What goes to each of the operands that an instruction writes, in order."""
    rows = np.asarray(result).reshape(len(operands[order[0]]), -1)
    found: dict[int, Array] = {}
    first = 0
    for position in order:
        held = operands[position]
        found[position] = rows[:, first : first + held.shape[1]].astype(held.dtype)
        first += held.shape[1]
    return found


def _operands_of(op: te.AsmOp) -> tuple[list[int], list[int]]:
    """The operands of the instruction in order, and the numbers that stand behind them."""
    text = op.template.strip().removesuffix(";")
    if ";" in text or "{" in text.replace("{%", "").replace("%}", ""):
        raise ExecutionError(
            f"the interpreter runs inline PTX of one instruction, not '{op.text.data}'"
        )
    places: list[int] = []
    literals: list[int] = []
    for part in text[len(op.instruction) :].split(","):
        word = part.strip(" {}[]")
        if word.startswith("%"):
            places.append(int(word[1:]))
        elif word:
            literals.append(int(word, 0))
    if not places:
        raise ExecutionError(f"the interpreter cannot execute '{op.text.data}'")
    return places, literals


def _warps(name: str, operands: Sequence[Registers], lanes: int | None) -> list[Registers]:
    """The operands as ``[warps, 32, elements]``."""
    if lanes is None or lanes % WARP or operands[0].shape[0] % lanes:
        raise ExecutionError(
            f"{name} is an instruction of a warp: it stands in a 'fully par' of a multiple of 32 "
            "iterations, and all of them come to it"
        )
    return [operand.reshape(-1, WARP, operand.shape[1]) for operand in operands]


# Instructions of a warp.

_MMA = re.compile(r"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.row\.col\.(\w+)\.(\w+)\.(\w+)\.(\w+)")


@cache
def _mma_atom(name: str) -> MmaAtom:
    match = _MMA.fullmatch(name)
    if match is None:
        raise ExecutionError(f"the interpreter does not know the instruction {name}")
    m, n, k, *types = match.groups()
    atom = f"SM80_{m}x{n}x{k}_{''.join(types).upper()}_TN"
    try:
        return mma_atom(atom)
    except LayoutError as error:
        raise ExecutionError(f"the interpreter does not know the instruction {name}") from error


def _mma(name: str, operands: Sequence[Registers]) -> Registers:
    atom = _mma_atom(name)
    if len(operands) != 4:
        raise ExecutionError(f"{name} has operands d, a, b, c, not {len(operands)}")
    wide = np.float64 if operands[0].dtype == np.float64 else np.float32
    a, b, c = (
        _matrix(name, atom, letter, operand.astype(wide))
        for letter, operand in zip("ABC", operands[1:], strict=True)
    )
    d = a @ b.swapaxes(1, 2) + c
    return d.swapaxes(1, 2).reshape(d.shape[0], -1)[:, _fragment(atom, "C")]


@cache
def _fragment(atom: MmaAtom, letter: str) -> Any:
    """For each thread and value its place in the column-major tile."""
    layout = atom.layout(letter)
    threads = layout[0].size()
    places = np.array(layout.indices(), np.int64)
    return places.reshape(-1, threads).T


def _matrix(name: str, atom: MmaAtom, letter: str, registers: Registers) -> Array:
    places = _fragment(atom, letter)
    if registers.shape[2] != places.shape[1]:
        raise ExecutionError(
            f"{name}: each thread holds {places.shape[1]} elements of {letter}, not "
            f"{registers.shape[2]}"
        )
    rows, columns = atom.tile_shape(letter)
    tile = np.empty((registers.shape[0], rows * columns), registers.dtype)
    tile[:, places] = registers
    return tile.reshape(-1, columns, rows).swapaxes(1, 2)


def _ldmatrix(name: str, held: Registers, rows: Registers) -> Registers:
    """``ldmatrix...xN[.trans].shared.b16 d, [rows]``: N matrices of 8 x 8, a row of each a lane.

    The registers may be several operands, ``{%0, %1}``.
    """
    count = next((int(part[1]) for part in name.split(".") if part in ("x1", "x2", "x4")), 0)
    if rows.shape[2] != 8 or held.shape[2] != 2 * count:
        raise ExecutionError(
            f"{name} fills {2 * count} elements a thread from rows of 8 elements, one a thread"
        )
    matrices = rows[:, : 8 * count].reshape(-1, count, 8, 8)
    if ".trans" in name:
        matrices = matrices.swapaxes(2, 3)
    return matrices.reshape(-1, count, WARP, 2).swapaxes(1, 2).reshape(-1, WARP, 2 * count)


def _stmatrix(name: str, held: Registers) -> Registers:
    """``stmatrix...x4[.trans].shared.b16 [rows], d``: a row of four matrices for each lane."""
    if ".x4" not in name or held.shape[2] != 8:
        raise ExecutionError(f"the interpreter runs stmatrix of 4 matrices, not {name}")
    matrices = held.reshape(-1, WARP, 4, 2).swapaxes(1, 2).reshape(-1, 4, 8, 8)
    if ".trans" in name:
        matrices = matrices.swapaxes(2, 3)
    return matrices.reshape(-1, WARP, 8)


def _shuffle(name: str, operands: Sequence[Registers], literals: Sequence[int]) -> Registers:
    """``shfl.sync.MODE.b32 d, a, distance, clamp, mask`` of a whole warp."""
    mode = name.split(".")[2]
    if len(operands) + len(literals) != 5 or mode not in SHUFFLES:
        raise ExecutionError(f"the interpreter runs {name} d, a, distance, clamp, mask")
    _held, values, *distances = operands
    return shuffled(mode, values, distances[0] if distances else literals[0], literals[-2])


SHUFFLES = ("bfly", "down", "up", "idx")


def shuffled(mode: str, values: Array, distance: Any, clamp: int) -> Array:
    """What each lane of warps, ``[warps, 32, 1]``, gets of another one, as PTX has ``shfl.sync``.

    ``distance`` is taken modulo 32.  Bits 8 to 12 of ``clamp`` are those of a lane that stay, bits
    0 to 4 the last lane that is read with them, or the first one for ``up``.  A lane gets its own
    where it would read past it.
    """
    lane, distance = np.arange(WARP)[:, None], distance & WARP - 1
    same = clamp >> 8 & WARP - 1
    last = lane & same | clamp & WARP - 1 & ~same
    source = {
        "bfly": lane ^ distance,
        "down": lane + distance,
        "up": lane - distance,
        "idx": lane & same | distance & ~same,
    }[mode]
    is_there = source >= last if mode == "up" else source <= last
    source = np.broadcast_to(np.where(is_there, source, lane), values.shape)
    return np.take_along_axis(values, source, axis=1)


def warpgroup_product(atom: MmaAtom, a: Array, b: Array, sums: Array) -> Array:
    """``sums + A B`` of warp groups: A ``[groups, m, k]``, B ``[groups, n, k]``.

    The sums are those of each thread, ``[128 * groups, values]``.
    """
    wide = np.float64 if sums.dtype == np.float64 else np.float32
    product = a.astype(wide) @ b.astype(wide).swapaxes(1, 2)
    tiles = product.swapaxes(1, 2).reshape(len(product), -1)
    return sums + tiles[:, _fragment(atom, "C")].reshape(sums.shape)


# Instructions of one thread.

_WITHOUT_EFFECT = (
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.wait_all",
    "bar.warp.sync",
)
"""Copies land at once here, and a fully parallel loop is always together."""


def _without_modifiers(name: str) -> str:
    return name.split(".")[0] + "." + name.split(".")[-1]


_OF_ONE_THREAD: dict[str, Callable[..., Any]] = {
    "ex2.f32": np.exp2,
    "lg2.f32": np.log2,
    "rcp.f32": reciprocal,
    "rsqrt.f32": rsqrt,
    "sqrt.f32": np.sqrt,
    "tanh.f32": np.tanh,
    "mov.f32": np.copy,
    "mov.b32": np.copy,
    "add.f32": np.add,
    "mul.f32": np.multiply,
    "fma.f32": multiply_add,
    "max.f32": np.fmax,
    "min.f32": np.fmin,
    "add.s32": np.add,
}
"""By name and type, without the modifiers between."""
