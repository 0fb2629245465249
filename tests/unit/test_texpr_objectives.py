"""``objective=farkas``: the least distance between neighbouring threads, held against Z3."""

from __future__ import annotations

import math
import random
from importlib import import_module
from typing import Any, cast

import pytest
from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.te import ParOp, Space
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.passes.texpr.te_map.bands import Band, band_at
from mugraph.passes.texpr.te_map.cost import places_of
from mugraph.passes.texpr.te_map.farkas import distance_of, factors_of, nearest
from mugraph.texpr import read_texpr


def band_of(text: str) -> tuple[Band, dict[SSAValue, Space]]:
    module = read_texpr(text, "f.te", {})
    loop = next(op for op in module.walk() if isinstance(op, ParOp))
    function = module.body.block.first_op
    assert function is not None
    return band_at(loop), dict.fromkeys(function.regions[0].block.args, Space.GLOBAL)


def least_by_z3(extents: list[int], factors: list[tuple[int, ...]], lanes: int) -> int:
    """The objective as an integer program: which binary digit stands at which place."""
    # z3 has no types to speak of.
    z3 = cast(Any, import_module("z3"))
    digits = [(d, 1 << p) for d, n in enumerate(extents) for p in range(n.bit_length() - 1)]
    places = range(lanes.bit_length() - 1)
    solver = z3.Optimize()
    at = [[z3.Int(f"x{q}_{p}") for p in places] for q in range(len(digits))]
    for row in at:
        solver.add(*(z3.And(x >= 0, x <= 1) for x in row), z3.Sum(row) <= 1)
    for p in places:
        solver.add(z3.Sum([row[p] for row in at]) == 1)
    bounds: list[Any] = []
    for a, each in enumerate(factors):
        moves = [each[d] * stride for d, stride in digits]
        behind = z3.IntVal(0)
        for p in places:
            move = z3.Sum([moves[q] * at[q][p] for q in range(len(digits))])
            far = z3.Int(f"far{a}_{p}")
            solver.add(far >= move - behind, far >= behind - move)
            pairs = (lanes - 1) // (1 << p) - (lanes - 1) // (1 << (p + 1))
            bounds.append(pairs * far)
            behind = behind + move
    total = z3.Sum(bounds)
    solver.minimize(total)
    assert solver.check() == z3.sat
    return int(solver.model().eval(total).as_long())


@pytest.mark.parametrize("seed", range(6))
def test_the_distance_is_the_least_of_all_orders_of_digits(seed: int) -> None:
    pick = random.Random(seed)
    extents = [pick.choice((2, 4, 8, 16)) for _ in range(2)]
    while math.prod(extents) < 32:
        extents = [pick.choice((4, 8, 16)) for _ in range(2)]
    m, n = extents
    indices = (f"i * {n} + j", f"j * {m} + i", "i + j", f"i * {n + 3} + j")
    index = [pick.choice(indices) for _ in "xz"]
    text = f"""fn f(x: f32[1024], z: f32[1024], y: f32[1024]) {{
        par {m} i #block {{ par {n} j #block {{ y[j * {m} + i] = x[{index[0]}] + z[{index[1]}] }} }}
    }}"""
    band, spaces = band_of(text)
    threads = math.prod(extents)
    found = nearest([band], threads, spaces)
    factors = [factors_of(band, place) for place in places_of(band, spaces)]
    assert distance_of(found, factors) == least_by_z3(extents, factors, 32)


def test_indices_with_division_are_refused() -> None:
    text = "fn f(x: f32[64], y: f32[64]) { par 64 i { y[i] = x[i % 8 * 8 + i / 8] } }"
    with pytest.raises(PassFailedException, match="without division and modulo"):
        TeMapPass(objective="farkas").apply(Context(), read_texpr(text, "f.te", {}))


def test_an_unknown_objective_is_refused() -> None:
    text = "fn f(x: f32[64], y: f32[64]) { par 64 i { y[i] = x[i] } }"
    with pytest.raises(PassFailedException, match="objective is traffic or farkas"):
        TeMapPass(objective="speed").apply(Context(), read_texpr(text, "f.te", {}))
