"""Sums so far of few long runs, which blocks share: the kernels, executed on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from emulated_programs import check_emulated_later, made_of

import mugraph.build as mi
from mugraph.runtime.execute import CudaModule

RANDOM = np.random.default_rng(5)


def test_blocks_that_share_a_run_add_up_what_is_before_their_part() -> None:
    """Whole numbers, so that sums are exact in any order: along memory and across it."""
    one, few, across = (
        RANDOM.integers(-8, 9, shape).astype(np.float32)
        for shape in ((1, 17001), (2, 33000), (3000, 9))
    )

    def program(one: Any, few: Any, across: Any) -> list[Any]:
        return [
            *(mi.scan(x, dim=1, exclusive=own) for x, own in ((one, False), (few, True))),
            mi.scan(across, dim=0),
        ]

    def check(kernels: CudaModule) -> None:
        sums, before, down = kernels.run([one, few, across])
        np.testing.assert_array_equal(sums, one.cumsum(1))
        np.testing.assert_array_equal(before, few.cumsum(1) - few)
        np.testing.assert_array_equal(down, across.cumsum(0))

    check_emulated_later(made_of(program, one, few, across), check)
