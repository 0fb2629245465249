"""Linear partitions: every element once, vectors contiguous and aligned, lanes within bounds."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.dialects.partition import (
    LinearPartition,
    PartitionedOperand,
    choose_lanes,
    choose_partition,
    iteration_order,
    result_order,
    vector_fits,
)
from mugraph.dialects.tensor_types import padded_strides

SHAPES = st.lists(st.sampled_from([1, 2, 3, 8, 16]), min_size=1, max_size=3).map(tuple)


@st.composite
def operations(
    draw: st.DrawFn,
) -> tuple[tuple[int, ...], list[PartitionedOperand], int]:
    """An iteration domain, operands on it (some broadcast), and a count of threads."""
    shape = draw(SHAPES)
    operands: list[PartitionedOperand] = []
    for _ in range(draw(st.integers(1, 3))):
        extents = tuple(1 if draw(st.booleans()) and operands else extent for extent in shape)
        size = draw(st.sampled_from([2, 4]))
        innermost = draw(st.integers(0, len(shape) - 1))
        operands.append(
            PartitionedOperand(extents, padded_strides(extents, innermost, size)[0], size)
        )
    return shape, operands, draw(st.sampled_from([32, 128, 256]))


def coordinate(shape: tuple[int, ...], order: tuple[int, ...], index: int) -> list[int]:
    """The coordinates of an index of the iteration domain, the order's first fastest."""
    result = [0] * len(shape)
    for dim in order:
        index, result[dim] = divmod(index, shape[dim])
    return result


@given(operations())
def test_chosen_vectors_are_contiguous_and_aligned(
    operation: tuple[tuple[int, ...], list[PartitionedOperand], int],
) -> None:
    shape, operands, threads = operation
    partition = choose_partition(shape, operands, threads)
    assert sorted(partition.order) == list(range(len(shape)))
    assert partition.vector == 1 or math.prod(shape) >= partition.vector * threads
    assert math.prod(shape) % partition.vector == 0
    for operand in operands:
        assert partition.vector == 1 or partition.vector * operand.element_bytes <= 16
        for start in range(0, math.prod(shape), partition.vector):
            offsets = [
                sum(
                    stride * (0 if extent == 1 else at)
                    for stride, extent, at in zip(
                        operand.strides,
                        operand.shape,
                        coordinate(shape, partition.order, start + step),
                        strict=True,
                    )
                )
                for step in range(partition.vector)
            ]
            steps = {second - first for first, second in itertools.pairwise(offsets)}
            assert steps <= {1} or steps <= {0}
            if steps == {1}:
                assert offsets[0] % partition.vector == 0


@given(SHAPES, st.integers(1, 300), st.sampled_from([1, 2, 4, 8]))
def test_values_a_thread_are_enough_and_no_more_than_a_vector_too_many(
    shape: tuple[int, ...], threads: int, vector: int
) -> None:
    partition = LinearPartition(threads, vector, tuple(range(len(shape))))
    values = partition.values_per_thread(shape)
    assert values % vector == 0 and values * threads >= math.prod(shape)
    rounds, vectors = values // vector, math.ceil(math.prod(shape) / vector)
    assert (rounds - 1) * threads < vectors


def test_walks_along_the_dimension_that_most_operands_have_innermost() -> None:
    rows = PartitionedOperand((64, 64), (64, 1), 2)
    columns = PartitionedOperand((64, 64), (1, 64), 2)
    assert choose_partition((64, 64), [rows, columns, columns], 32).order == (0, 1)
    # A tie goes to the first, the destination.
    assert choose_partition((64, 64), [rows, columns], 32).order == (1, 0)


@pytest.mark.parametrize(
    ("operand", "shape", "vector", "fits"),
    [
        (PartitionedOperand((4, 16), (16, 1), 2), (4, 16), 8, True),
        (PartitionedOperand((4, 16), (16, 1), 4), (4, 16), 8, False),  # 32 bytes
        (PartitionedOperand((4, 12), (12, 1), 2), (4, 12), 8, False),  # 12 elements a row
        (PartitionedOperand((4, 16), (20, 1), 2), (4, 16), 8, False),  # rows 20 apart
        (PartitionedOperand((1, 16), (20, 1), 2), (4, 16), 8, True),  # one row only
        (PartitionedOperand((4, 1), (1, 1), 2), (4, 16), 8, True),  # broadcast along the vector
        (PartitionedOperand((4, 16), (1, 4), 2), (4, 16), 2, False),  # other dimension innermost
        (PartitionedOperand((4, 16), (1, 4), 2), (4, 16), 1, True),
    ],
)
def test_vector_fits(
    operand: PartitionedOperand, shape: tuple[int, ...], vector: int, fits: bool
) -> None:
    assert vector_fits(operand, shape, 1, vector) is fits


@given(st.integers(1, 2000), st.integers(1, 2000), st.sampled_from([16, 32, 128, 1024]))
def test_lanes_are_a_power_of_two_that_threads_and_elements_allow(
    results: int, group: int, threads: int
) -> None:
    lanes = choose_lanes(results, group, threads)
    assert lanes in (1, 2, 4, 8, 16, 32)
    assert lanes == 1 or (lanes * results <= threads and lanes <= group)
    doubled = lanes * 2
    assert doubled > 32 or doubled * results > threads or doubled > group


def test_orders() -> None:
    assert iteration_order((2, 3, 4), 1) == (1, 2, 0)
    assert result_order(PartitionedOperand((8, 1), (1, 8), 2)) == (0, 1)
    assert result_order(PartitionedOperand((1, 1), (1, 1), 2)) == (1, 0)


@pytest.mark.parametrize(
    ("threads", "vector", "order", "message"),
    [
        (0, 1, (0,), "at least one thread"),
        (1, 0, (0,), "one element"),
        (1, 1, (0, 2), r"\[0, 2\] is not a permutation"),
    ],
)
def test_errors(threads: int, vector: int, order: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearPartition(threads, vector, order)
