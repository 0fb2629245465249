"""Rows of linear partitions: who holds which, and what each warp and thread makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.rows import LinearRows, rows_like
from mugraph.dialects.sched.mappings import IDLE, owned_vectors


@st.composite
def drawn_rows(draw: st.DrawFn) -> LinearRows:
    """Rows of some partition that are shared out evenly."""
    vector = draw(st.sampled_from([1, 2, 4, 8]))
    threads = draw(st.sampled_from([1, 16, 32, 48, 64, 128]))
    vectors, count = draw(st.integers(1, 200)), draw(st.integers(1, 6))
    results = draw(st.sampled_from([each for each in range(1, count + 1) if count % each == 0]))
    if count > 1 and vectors % threads:
        vectors = draw(
            st.sampled_from([each for each in range(1, threads + 1) if threads % each == 0])
        )
    shape = (count // results, results * vectors * vector)
    return LinearRows(LinearPartition(threads, vector, (1, 0)), shape, 1, results)


@given(drawn_rows())
def test_every_thread_holds_the_rows_of_its_elements(rows: LinearRows) -> None:
    partition = rows.partition
    owned = owned_vectors(partition.threads, partition.vector, math.prod(rows.shape))
    value_of = rows.thread_values().value_of(partition.thread_values(rows.shape))
    value_of = value_of[:: partition.vector]
    row_of = rows.rows_of()
    assert owned.shape[0] == len(value_of)
    for vectors, value in zip(owned, value_of, strict=True):
        held = vectors != IDLE
        expected = vectors * partition.vector // rows.extent
        np.testing.assert_array_equal(row_of[value][held], expected[held])


@given(drawn_rows())
def test_lanes_are_neighbours_and_share_nothing_else(rows: LinearRows) -> None:
    for held in rows.rows_of():
        for row in set(held[held != IDLE].tolist()):
            (lanes,) = np.nonzero(held == row)
            assert len(lanes) == rows.lanes
            assert lanes[-1] - lanes[0] + 1 == rows.lanes
            assert lanes[0] % rows.lanes == 0


def test_rows_that_are_not_even_are_refused() -> None:
    partition = LinearPartition(64, 8, (1, 0))
    with pytest.raises(ValueError, match="12 vectors a row are not shared out evenly"):
        LinearRows(partition, (4, 96), 1, 1)
    with pytest.raises(ValueError, match="rows along dimension 0 are not runs of neighbours"):
        LinearRows(partition, (4, 96), 0, 1)
    assert rows_like(partition, (4, 96), (4, 1)) is None
    assert rows_like(partition, (4, 128), (4, 2)) == LinearRows(partition, (4, 128), 1, 2)
