"""From the accumulator of one product to the next: what threads hold already.

A thread-value layout maps (thread, value) to the position in a tile.  Where that of accumulators
side by side equals that of an instruction's operand A, every thread holds the operand as soon as it
has the accumulators: the values of one product are multiplied from registers in the next.

Rows of an accumulator are shared by lanes that differ in the low bits of their number, so that
butterfly shuffles combine what they hold of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from mugraph.dialects.cute.algebra import coalesce, composition
from mugraph.dialects.cute.atoms.mma import MmaAtom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.inverses import is_bijective, right_inverse
from mugraph.dialects.cute.layout import Layout, make_layout


@dataclass(frozen=True)
class RowsOfAtom:
    """How threads share the rows of an accumulator.

    A thread holds values of ``slots`` rows, value c of row ``slot_of_value[c]``; ``lanes``
    neighbouring threads, the first of which is a multiple of that, hold the rest of them.
    ``columns[lane][c]`` is the column of value c of a lane among them.
    """

    slots: int
    lanes: int
    slot_of_value: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]


@cache
def rows_of(atom: MmaAtom) -> RowsOfAtom:
    """How threads share the rows of an instruction's accumulator.

    Raises LayoutError where that is not a power of two of neighbouring threads, all with equally
    many values of each row.
    """
    extent = atom.shape_mnk[0]
    threads, values = atom.threads, atom.values_of_c
    places = [
        [divmod(atom.c_layout(thread + threads * value), extent) for value in range(values)]
        for thread in range(threads)
    ]
    rows = [[row for _, row in held] for held in places]
    distinct = list(dict.fromkeys(rows[0]))
    slots = tuple(distinct.index(row) for row in rows[0])
    lanes = sum(set(held) == set(rows[0]) for held in rows)
    for thread, held in enumerate(rows):
        first = rows[thread - thread % lanes]
        mine = list(dict.fromkeys(held))
        if held != first or tuple(mine.index(row) for row in held) != slots:
            raise LayoutError(
                f"The rows of {atom.name} are not shared by neighbouring threads in the same way."
            )
    if lanes & (lanes - 1) or any(rows[thread] == rows[0] for thread in range(lanes, threads)):
        raise LayoutError(f"The rows of {atom.name} are not shared by a power of two of threads.")
    columns = tuple(tuple(column for column, _ in held) for held in places[:lanes])
    return RowsOfAtom(len(distinct), lanes, slots, columns)


def accumulators_side_by_side(atom: MmaAtom, depth: int) -> Layout[int]:
    """(thread, (value, tile)) to the position in an m by ``depth`` tile of accumulators.

    Raises LayoutError where ``depth`` is no multiple of the accumulator's columns.
    """
    m, n, _ = atom.shape_mnk
    if depth % n:
        raise LayoutError(f"{depth} columns are no whole accumulators of {atom.name}.")
    thread, value = atom.c_layout[0], atom.c_layout[1]
    return make_layout(thread, make_layout(value, Layout(depth // n, m * n)))


def conversion(held: Layout[int], wanted: Layout[int]) -> Layout[int]:
    """Where in (thread, value) of ``held`` each (thread, value) of ``wanted`` is.

    Both are thread-value layouts of one tile, bijective; the result maps the 1-D coordinate of one
    to that of the other.  Raises LayoutError for layouts of different sizes.
    """
    if held.size() != wanted.size() or not is_bijective(held):
        raise LayoutError(f"{held} and {wanted} do not hold the same tile once each.")
    return coalesce(composition(right_inverse(held), wanted))


@cache
def accumulator_is_operand(accumulator: MmaAtom, multiplier: MmaAtom) -> bool:
    """Whether accumulators of one instruction are operand A of another, thread by thread.

    Rounded to the operand's type, value by value and in the order of values; columns of the
    accumulators become k.  Compared is the narrowest tile of whole accumulators and operands.
    """
    m, _, k = multiplier.shape_mnk
    rows, columns, _ = accumulator.shape_mnk
    if (rows, accumulator.threads) != (m, multiplier.threads):
        return False
    if multiplier.a_space != "registers":
        return False
    depth = math.lcm(columns, k)
    held = accumulators_side_by_side(accumulator, depth)
    thread, value = multiplier.a_layout[0], multiplier.a_layout[1]
    wanted = make_layout(thread, make_layout(value, Layout(depth // k, m * k)))
    return conversion(held, wanted) == coalesce(Layout(held.size(), 1))


def tiled_accumulator(
    atom: MmaAtom, groups: tuple[int, int], rows: int, columns: int
) -> Layout[int]:
    """(thread, value) to the position in a ``rows`` by ``columns`` tile of tiled accumulators.

    ``groups`` are the atoms side by side along m and n; a thread's values are those of its m tiles,
    in each of its n tiles.  Raises LayoutError where the atoms do not divide the tile.
    """
    m, n, _ = atom.shape_mnk
    groups_m, groups_n = groups
    if rows % (m * groups_m) or columns % (n * groups_n):
        raise LayoutError(f"{rows} x {columns} are no whole accumulators of {atom.name}.")
    within = composition(Layout((m, n), (1, rows)), atom.c_layout)
    threads = Layout((groups_m, groups_n), (m, n * rows))
    tiles_n, tiles_m = columns // (n * groups_n), rows // (m * groups_m)
    tiles = Layout((tiles_n, tiles_m), (n * groups_n * rows, m * groups_m))
    return make_layout(make_layout(within[0], threads), make_layout(within[1], tiles))


@cache
def held_alike(
    atom: MmaAtom, groups: tuple[int, int], other: MmaAtom, other_groups: tuple[int, int]
) -> bool:
    """Whether threads hold accumulators of two tiled instructions in the same places and order.

    Then what holds a tile in one way holds it in the other, whatever whole tile it is.
    """
    if (atom, groups) == (other, other_groups):
        return True
    rows = math.lcm(atom.shape_mnk[0] * groups[0], other.shape_mnk[0] * other_groups[0])
    columns = math.lcm(atom.shape_mnk[1] * groups[1], other.shape_mnk[1] * other_groups[1])
    # Two common tiles along both, so that also the way from one to the next counts.
    held = tiled_accumulator(atom, groups, 2 * rows, 2 * columns)
    wanted = tiled_accumulator(other, other_groups, 2 * rows, 2 * columns)
    return all(coalesce(held[mode]) == coalesce(wanted[mode]) for mode in (0, 1))


def values_of_rows(atom: MmaAtom, tiles_m: int, tiles_n: int) -> Sequence[int]:
    """The slot of the row of each value of a thread's ``tiles_m`` x ``tiles_n`` accumulators."""
    rows = rows_of(atom)
    return [
        i * rows.slots + slot
        for i in range(tiles_m)
        for _ in range(tiles_n)
        for slot in rows.slot_of_value
    ]


@cache
def columns_of_values(atom: MmaAtom) -> tuple[int, tuple[int, ...]]:
    """How many columns of an accumulator a thread holds values of, and that of each value.

    Raises LayoutError where that is not the same for all threads.
    """
    extent = atom.shape_mnk[0]
    slots: set[tuple[int, ...]] = set()
    for thread in range(atom.threads):
        held = [
            atom.c_layout(thread + atom.threads * value) // extent
            for value in range(atom.values_of_c)
        ]
        distinct = list(dict.fromkeys(held))
        slots.add(tuple(distinct.index(column) for column in held))
    if len(slots) > 1:
        raise LayoutError(f"Threads do not share the columns of {atom.name} alike.")
    (found,) = slots
    return max(found) + 1, found


@cache
def holds_pairs_of_columns(atom: MmaAtom) -> bool:
    """Whether a thread's values 2 i and 2 i + 1 are neighbours in a row, the first column even."""
    extent = atom.shape_mnk[0]
    if atom.values_of_c % 2:
        return False
    for thread in range(atom.threads):
        for value in range(0, atom.values_of_c, 2):
            left, right = (
                divmod(atom.c_layout(thread + atom.threads * at), extent)
                for at in (value, value + 1)
            )
            if left[0] % 2 or right != (left[0] + 1, left[1]):
                return False
    return True


def values_of_columns(atom: MmaAtom, tiles_m: int, tiles_n: int) -> Sequence[int]:
    """The slot of the column of each value of a thread's ``tiles_m`` x ``tiles_n`` accumulators."""
    count, slots = columns_of_values(atom)
    return [j * count + slot for _ in range(tiles_m) for j in range(tiles_n) for slot in slots]
