"""Random programs: is the chosen mapping the cheapest of all digit permutations?

``PYTHONPATH=tests python -m fuzz.texpr_mappings -n 1000`` makes programs of one to three parallel
bands over device and shared memory, small enough that every mapping of the family can be made and
every instruction of every warp looked at.  Nothing of the search is used: mappings are enumerated
digit by digit, in all orders, and sectors and wavefronts are counted by themselves.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects.te import ApplyOp, BufferType, LoopOp, Space
from mugraph.dialects.tensor_types import element_bytes_of, row_major_strides
from mugraph.passes.texpr.te_map import TeMapPass, apply_mappings
from mugraph.passes.texpr.te_map import program as blocks
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.choice import MappingChoice, swizzles_for
from mugraph.passes.texpr.te_map.choice import choose as choose_mappings
from mugraph.passes.texpr.te_map.cost import DEVICE_INSTRUCTION, BandAccess, places_of, width_of
from mugraph.passes.texpr.te_map.family import VECTORS, BandMapping
from mugraph.passes.texpr.te_map.search import Classes
from mugraph.texpr import read_texpr

IntArray = npt.NDArray[np.int64]
WARP = 32
MOST_MAPPINGS = 12000
"""Programs with a band of more mappings are left out."""


def program(seed: int) -> tuple[str, int]:
    """A program of the seed, and the threads of its blocks (0: chosen)."""
    pick = random.Random(seed)
    rank = pick.choice((1, 2, 2, 2, 3))
    extents = [pick.choice((2, 3, 4, 5, 8, 12, 16, 20, 32, 64)) for _ in range(rank)]
    while math.prod(extents) > 128 or math.prod(extents) < 16:
        extents = [pick.choice((2, 3, 4, 6, 8, 16, 32, 64, 128)) for _ in range(rank)]
    threads = pick.choice((0, 32, 32, 64))
    element = pick.choice(("f16", "f32"))
    names = "ijk"[:rank]
    items = math.prod(extents)

    def linear(order: Sequence[int], pad: int = 0) -> str:
        strides: dict[int, int] = {}
        stride = 1
        for dimension in reversed(order):
            strides[dimension] = stride
            stride *= extents[dimension] + pad
        return " + ".join(f"{strides[d]} * {names[d]}" for d in range(rank))

    def index() -> str:
        order = list(range(rank))
        shape = pick.random()
        if shape < 0.3:
            return linear(order)
        pick.shuffle(order)
        if shape < 0.6:
            return linear(order)
        if shape < 0.7:
            return linear(order, pick.choice((1, 2)))
        if shape < 0.8:
            return names[pick.randrange(rank)]
        if shape < 0.9:
            part = pick.choice((2, 4, 8))
            return f"({linear(order)}) % {part} * {-(-items // part)} + ({linear(order)}) / {part}"
        return f"{linear(order)} + {pick.choice((1, 3, 8))}"

    def band(statement: str, level: str) -> str:
        text = statement
        for name, extent in reversed(list(zip(names, extents, strict=True))):
            text = f"par {extent} {name}{level} {{ {text} }}"
        return text

    size = 4 * max(1024, math.prod(extent + 2 for extent in extents))
    head = f"fn f(x: {element}[{size}], z: f32[{size}], y: {element}[{size}]) {{"
    out = linear(pick.sample(range(rank), rank))
    if pick.random() < 0.35:
        terms = [f"x[{index()}]", *(f"z[{index()}]" for _ in range(pick.randrange(2)))]
        return f"{head}\n{band(f'y[{out}] = ' + ' + '.join(terms), '')}\n}}", threads
    order = pick.sample(range(rank), rank)
    kind = pick.choice(("f16", "f32"))
    lines = [f"par 2 b #grid {{ new s: {kind}[{items}] #shared"]
    lines.append(band(f"s[{linear(order)}] = x[{index()} + b * 1024]", " #block"))
    if pick.random() < 0.4:
        lines.append(f"new t: f32[{items}] #shared")
        lines.append(band(f"t[{linear(order[::-1])}] = s[{linear(order)}] + 1.0", " #block"))
        lines.append(band(f"y[{out} + b * 1024] = t[{linear(order)}]", " #block"))
    else:
        again = pick.sample(range(rank), rank)
        lines.append(band(f"y[{out} + b * 1024] = s[{linear(again)}]", " #block"))
    return "\n".join([head, *lines, "}}"]), threads


@dataclass(frozen=True)
class Chosen:
    """What the pass was asked for a kernel, and what it chose."""

    groups: list[list[Band]]
    spaces: dict[SSAValue, Space]
    threads: int
    enough: int
    choice: MappingChoice


@dataclass(frozen=True)
class Table:
    """An access of a band: its address at every index and every value of other variables."""

    place: BandAccess
    numbers: IntArray
    """``[other values, index]``, in elements."""
    times: float
    """How often an iteration makes the access, over the number of other values."""


def table_of(band: Band, place: BandAccess) -> Table:
    """The element that an access touches at every index of a band, one index after the other."""
    expressions, operands = place.expressions, place.indices
    strides = [1] if len(expressions) == 1 else row_major_strides(place.type.get_shape())
    others = _others(band, operands)
    rows: list[list[int]] = []
    for outer in itertools.product(*(range(loop.iterations) for loop in others)):
        value = {loop.variable: number for loop, number in zip(others, outer, strict=True)}
        row: list[int] = []
        for point in itertools.product(*map(range, band.extents)):
            value |= {loop.variable: n for loop, n in zip(band.loops, point, strict=True)}
            numbers = [_value(operand, value) for operand in operands]
            row.append(
                sum(
                    stride * expression.eval(numbers, [])
                    for stride, expression in zip(strides, expressions, strict=True)
                )
            )
        rows.append(row)
    return Table(place, np.array(rows), place.repeats / len(rows))


def _others(band: Band, operands: Sequence[SSAValue]) -> list[LoopOp]:
    found: dict[LoopOp, None] = {}
    stack = list(operands)
    while stack:
        value = stack.pop()
        if isinstance(owner := value.owner, ApplyOp):
            stack += list(owner.indices)
            continue
        loop = owner if isinstance(owner, Operation) else owner.parent_op()
        if isinstance(loop, LoopOp) and loop not in band.loops:
            found[loop] = None
    return list(found)


def _value(operand: SSAValue, value: Mapping[SSAValue, int]) -> int:
    if isinstance(owner := operand.owner, ApplyOp):
        return owner.expression.eval([_value(one, value) for one in owner.indices], [])
    return value[operand]


def widths(table: Table, band: Band, dimension: int, vector: int) -> int:
    """How many neighbours an access takes at once: all, where the compiler knows that it can.

    Raises ``AssertionError`` where they are not contiguous and aligned.
    """
    neighbours = [vector if d == dimension else 1 for d in range(len(band.extents))]
    width = width_of(band, table.place, neighbours)
    if width > 1:
        numbers = table.numbers.reshape(-1, *band.extents)
        moved = np.moveaxis(numbers, 1 + dimension, -1)
        runs = moved.reshape(-1, band.extents[dimension] // vector, vector)
        expected = np.broadcast_to(np.arange(vector), runs.shape)
        assert np.array_equal(runs - runs[..., :1], expected)
        assert not (runs[..., 0] % vector).any()
    return width


def every_mapping(
    extents: Sequence[int], threads: int, dimension: int, vector: int
) -> Iterator[IntArray]:
    """All digit permutations with these neighbours, some at a time.

    ``index[mapping, neighbour, step, thread]`` is the row-major number of an iteration, -1 of none.
    """
    neighbours = [vector if d == dimension else 1 for d in range(len(extents))]
    counts = [-(-n // v) for n, v in zip(extents, neighbours, strict=True)]
    dealt = [
        deal
        for deal in itertools.product(
            *([n for n in range(1, threads + 1) if n == 1 or n < 2 * count] for count in counts)
        )
        if threads % math.prod(deal) == 0
    ]
    busiest = max(math.prod(deal) for deal in dealt)
    for deal in dealt:
        if math.prod(deal) < busiest:
            continue
        steps = [-(-count // n) for count, n in zip(counts, deal, strict=True)]
        labelled = [
            [*(("t", p) for p in _primes(n)), *(("s", p) for p in _primes(s))]
            for n, s in zip(deal, steps, strict=True)
        ]
        for arranged in itertools.product(*(sorted(set(_orders(one))) for one in labelled)):
            yield from _of_arrangement(extents, threads, neighbours, arranged)


def _primes(number: int) -> list[int]:
    for prime in range(2, number + 1):
        if number % prime == 0:
            return [prime, *_primes(number // prime)]
    return []


def _orders(items: Sequence[tuple[str, int]]) -> list[tuple[tuple[str, int], ...]]:
    if not items:
        return [()]
    return [
        (one, *rest)
        for one in set(items)
        for rest in _orders([*items[: items.index(one)], *items[items.index(one) + 1 :]])
    ]


def _of_arrangement(
    extents: Sequence[int],
    threads: int,
    neighbours: Sequence[int],
    arranged: Sequence[Sequence[tuple[str, int]]],
) -> Iterator[IntArray]:
    thread_digits: list[tuple[int, int, int]] = []
    step_digits: list[tuple[int, int, int]] = []
    for dimension, digits in enumerate(arranged):
        stride = neighbours[dimension]
        for role, radix in digits:
            (thread_digits if role == "t" else step_digits).append((dimension, stride, radix))
            stride *= radix
    orders: list[tuple[int, ...]] = list(itertools.permutations(range(len(thread_digits))))
    busy = math.prod(radix for _, _, radix in thread_digits)
    number = np.arange(threads)
    parts = np.zeros((len(orders), len(extents), threads), np.int64)
    for row, order in enumerate(orders):
        over = 1
        for which in order:
            dimension, stride, radix = thread_digits[which]
            parts[row, dimension] += number // over % radix * stride
            over *= radix
    steps = math.prod(radix for _, _, radix in step_digits)
    moves = np.zeros((len(extents), steps), np.int64)
    over = 1
    for dimension, stride, radix in step_digits:
        moves[dimension] += np.arange(steps) // over % radix * stride
        over *= radix
    idle = number >= busy
    flat = np.zeros((len(orders), math.prod(neighbours), steps, threads), np.int64)
    out = np.broadcast_to(idle, flat.shape).copy()
    for dimension, extent in enumerate(extents):
        index = parts[:, dimension][:, None, None, :] + moves[dimension][None, None, :, None]
        if neighbours[dimension] > 1:
            index = index + np.arange(neighbours[dimension])[None, :, None, None]
        out |= index >= extent
        flat = flat * extent + index
    yield np.where(out, -1, flat)


def traffic_of(
    table: Table, index: IntArray, width: int, swizzle: tuple[int, int, int] | None
) -> npt.NDArray[np.float64]:
    """Sectors or wavefronts of an access under mappings, and its instructions: ``[mapping, 2]``."""
    place = table.place
    size = element_bytes_of(place.type)
    if width > 1:
        index = index[:, :1]
    total = np.zeros((len(index), 2))
    for numbers in table.numbers:
        address = numbers[index]
        if swizzle is not None:
            bits, base, shift = swizzle
            address = address ^ ((address >> shift) & (((1 << bits) - 1) << base))
        at = np.where(index < 0, -1, address * size)
        missing = -at.shape[-1] % WARP
        at = np.pad(at, ((0, 0), (0, 0), (0, 0), (0, missing)), constant_values=-1)
        rows = at.reshape(-1, WARP)
        active = (rows >= 0).any(axis=1)
        if place.type.memory_space is Space.SHARED:
            traffic = _wavefronts(rows, width * size)
        else:
            traffic = _distinct(rows, width * size, 32) + DEVICE_INSTRUCTION * active
        for column, values in enumerate((traffic, active)):
            total[:, column] += values.reshape(len(index), -1).sum(axis=1)
    return total * table.times


def _distinct(rows: IntArray, bytes_: int, unit: int) -> IntArray:
    """How many units of memory the lanes of each row touch."""
    touched = [
        np.where(rows < 0, -1, (rows + at) // unit)
        for at in sorted({*range(0, bytes_, unit), bytes_ - 1})
    ]
    units = np.sort(np.concatenate(touched, axis=1), axis=1)
    new = np.concatenate([units[:, :1] >= 0, (units[:, 1:] != units[:, :-1])], axis=1)
    return (new & (units >= 0)).sum(axis=1)


def _wavefronts(rows: IntArray, bytes_: int) -> IntArray:
    """The wavefronts of each row: of each part of a warp that needs at most 32 words."""
    lanes = min(WARP, 128 // bytes_)
    parts = rows.reshape(-1, lanes)
    words = np.concatenate(
        [np.where(parts < 0, -1, parts // 4 + at) for at in range(max(1, bytes_ // 4))], axis=1
    )
    words = np.sort(words, axis=1)
    new = np.concatenate([words[:, :1] >= 0, words[:, 1:] != words[:, :-1]], axis=1) & (words >= 0)
    banks = np.zeros((len(parts), 32), np.int64)
    for column in range(words.shape[1]):
        some = new[:, column]
        np.add.at(banks, (np.flatnonzero(some), words[some, column] % 32), 1)
    return banks.max(axis=1).reshape(len(rows), -1).sum(axis=1)


def index_of(mapping: BandMapping) -> IntArray:
    """What a mapping's own index expressions say, in the form of ``every_mapping``."""
    thread, vector = AffineExpr.dimension(0), AffineExpr.dimension(1)
    radices = [mapping.step_radices(d) for d in range(len(mapping.extents))]
    flat: list[int] = []
    steps = list(itertools.product(*(range(r) for each in radices for r in each)))
    for neighbour, step, number in itertools.product(
        range(mapping.vector), steps, range(mapping.threads)
    ):
        left = list(step)
        place = 0
        is_in = number < mapping.busy_threads
        for d, extent in enumerate(mapping.extents):
            own, left = left[: len(radices[d])], left[len(radices[d]) :]
            names = [AffineExpr.constant(one) for one in own]
            index = mapping.index(d, thread, names, vector).eval([number, neighbour], [])
            is_in &= index < extent
            place = place * extent + index
        flat.append(place if is_in else -1)
    return np.array(flat).reshape(1, mapping.vector, len(steps), mapping.threads)


Cost = tuple[float, float]


def least_cost(chosen: Chosen) -> tuple[Cost, int] | None:
    """The least cost of all mappings and swizzles together, and how many mappings there are.

    ``None`` where they are too many.
    """
    groups: list[dict[SSAValue | None, dict[object, npt.NDArray[np.float64]]]] = []
    mappings = 0
    for bands in chosen.groups:
        tables = [
            (band, table_of(band, place))
            for band in bands
            for place in places_of(band, chosen.spaces)
        ]
        parts: list[dict[SSAValue | None, dict[object, npt.NDArray[np.float64]]]] = []
        extents = bands[0].extents
        for dimension, vector in _neighbours(bands, tables, chosen):
            for index in every_mapping(extents, chosen.threads, dimension, vector):
                mappings += len(index)
                if mappings > MOST_MAPPINGS:
                    return None
                parts.append(_costs(tables, index, dimension, vector))
        groups.append(
            {
                buffer: {
                    swizzle: np.concatenate([part[buffer][swizzle] for part in parts])
                    for swizzle in parts[0][buffer]
                }
                for buffer in parts[0]
            }
        )
    shared = list(dict.fromkeys(b for group in groups for b in group if b is not None))
    best: Cost = (math.inf, math.inf)
    for swizzles in itertools.product(*(_swizzles(buffer) for buffer in shared)):
        traffic = instructions = 0.0
        for group in groups:
            costs = group[None][None]
            for buffer, swizzle in zip(shared, swizzles, strict=True):
                if buffer in group:
                    costs = costs + group[buffer][swizzle]
            costs = costs.round(6)
            first = costs[np.lexsort((costs[:, 1], costs[:, 0]))[0]]
            traffic, instructions = traffic + first[0], instructions + first[1]
        best = min(best, (float(traffic), float(instructions)))
    return best, mappings


def _neighbours(
    bands: Sequence[Band], tables: Sequence[tuple[Band, Table]], chosen: Chosen
) -> list[tuple[int, int]]:
    found = [(0, 1)]
    extents = bands[0].extents
    for dimension, extent in enumerate(extents):
        for vector in VECTORS[1:]:
            enough = math.prod(extents) // vector >= chosen.enough
            if extent % vector == 0 and enough:
                wide = [widths(table, band, dimension, vector) for band, table in tables]
                if max(wide, default=1) > 1:
                    found.append((dimension, vector))
    return found


def _swizzles(buffer: SSAValue) -> list[tuple[int, int, int] | None]:
    return [
        None if one is None else (one.bits, one.base, one.shift)
        for one in swizzles_for(cast(BufferType, buffer.type))
    ]


def _costs(
    tables: Sequence[tuple[Band, Table]], index: IntArray, dimension: int, vector: int
) -> dict[SSAValue | None, dict[object, npt.NDArray[np.float64]]]:
    nothing = np.zeros((len(index), 2))
    costs: dict[SSAValue | None, dict[object, npt.NDArray[np.float64]]] = {None: {None: nothing}}
    for band, table in tables:
        width = widths(table, band, dimension, vector)
        if table.place.type.memory_space is not Space.SHARED:
            costs[None][None] = costs[None][None] + traffic_of(table, index, width, None)
            continue
        own = costs.setdefault(table.place.buffer, {})
        for swizzle in _swizzles(table.place.buffer):
            if swizzle is not None and width > 1 << swizzle[1]:
                cost = np.full((len(index), 2), math.inf)
            else:
                cost = traffic_of(table, index, width, swizzle)
            own[swizzle] = own.get(swizzle, nothing) + cost
    return costs


def cost_of(chosen: Chosen) -> Cost:
    """What the chosen mappings and swizzles cost, by their index expressions."""
    traffic = instructions = 0.0
    for bands, mapping in zip(chosen.groups, chosen.choice.mappings, strict=True):
        dimension = mapping.vector_dimension or 0
        for band in bands:
            for place in places_of(band, chosen.spaces):
                table = table_of(band, place)
                width = widths(table, band, dimension, mapping.vector)
                one = chosen.choice.swizzles.get(place.buffer)
                swizzle = None if one is None else (one.bits, one.base, one.shift)
                (cost,) = traffic_of(table, index_of(mapping), width, swizzle)
                traffic, instructions = traffic + cost[0], instructions + cost[1]
    return round(float(traffic), 6), round(float(instructions), 6)


@dataclass(frozen=True)
class Answer:
    """What became of a program: how many mappings there were, and what is wrong."""

    mappings: int
    wrong: str


def check(seed: int) -> Answer | None:
    """Maps the program of a seed; ``None`` where its mappings are too many to be enumerated."""
    text, threads = program(seed)
    module = read_texpr(text, "random.te", {})
    function = cast(FuncOp, module.body.block.first_op)
    chosen: list[Chosen] = []
    answers: list[tuple[Cost, int] | None] = []
    costs: list[Cost] = []

    def choose(
        groups: Sequence[Sequence[Band]],
        candidates: Sequence[Classes],
        spaces: dict[SSAValue, Space],
    ) -> MappingChoice:
        # The bands are looked at while they stand.
        choice = choose_mappings(groups, candidates, spaces)
        block = candidates[0].found[0].deal.threads
        is_flat = function.body.block.first_op in [band.loops[0] for band in groups[0]]
        enough = block * 132 if is_flat else block
        one = Chosen([list(group) for group in groups], spaces, block, enough, choice)
        chosen.append(one)
        answers.append(least_cost(one))
        costs.append(cost_of(one))
        return choice

    with patch.object(apply_mappings, "choose", choose), patch.object(blocks, "choose", choose):
        TeMapPass(arch="sm_90a", threads=threads).apply(Context(), module)
    assert chosen, "no choice was looked at"
    mappings = 0
    for one, answer, cost in zip(chosen, answers, costs, strict=True):
        if answer is None:
            return None
        least, count = answer
        mappings += count
        stated = round(one.choice.cost[0], 6), round(one.choice.cost[1], 6)
        if not one.choice.is_least or stated != cost or cost != least:
            wrong = f"seed {seed}: chosen {cost}, said to be {stated}, the least is {least}"
            return Answer(mappings, f"{wrong}\n{text}")
    return Answer(mappings, "")


def main() -> int:
    """Runs programs until there are enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started, seed = time.perf_counter(), options.seed
    done = mappings = failures = 0
    while done < options.n:
        answer = check(seed)
        seed += 1
        if answer is None:
            continue
        done += 1
        mappings += answer.mappings
        if answer.wrong:
            failures += 1
            print(answer.wrong)
    print(
        f"{done} programs, {mappings} mappings, {failures} not mapped at the least cost; seeds "
        f"{options.seed} to {seed - 1}, {seed - options.seed - done} left out as too large, "
        f"{time.perf_counter() - started:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
