"""From the accumulator of one product to the next: what threads hold already.

A thread-value layout maps (thread, value) to the position in a tile.  Where that of accumulators
side by side equals that of an instruction's operand A, every thread holds the operand as soon as it
has the accumulators: the values of one product are multiplied from registers in the next.
"""

from __future__ import annotations

import math
from functools import cache

from mugraph.dialects.cute.algebra import coalesce, composition
from mugraph.dialects.cute.atoms.mma import MmaAtom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.inverses import is_bijective, right_inverse
from mugraph.dialects.cute.layout import Layout, make_layout


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
