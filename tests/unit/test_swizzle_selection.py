"""The choice of shared layouts: exact over the whole space, and what it counts is what runs."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.sched import AllocOp, KernelOp, Proxy
from mugraph.dialects.tensor_types import padded_strides, physical_elements
from mugraph.passes.memory.memory_access import memory_access_costs
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.mugraph.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass
from mugraph.passes.schedule.lower_threadblock import LowerThreadblockPass
from mugraph.passes.schedule.plan_swizzle import PlanSwizzlePass, choose_layouts
from mugraph.passes.schedule.plan_swizzle.evaluate import swizzled_wavefronts
from mugraph.passes.schedule.plan_swizzle.patterns import Instruction, Pattern
from mugraph.passes.schedule.plan_swizzle.selection import (
    Certificate,
    Method,
    boxes_of,
    choose_layout,
)
from mugraph.passes.schedule.plan_swizzle.space import (
    Extents,
    extents_of,
    paddings,
    swizzles,
)
from mugraph.reading import make_context, read_module

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))


@st.composite
def patterns(draw: st.DrawFn, shape: tuple[int, int], element_bytes: int) -> Pattern:
    """Lanes that step along both dimensions of a matrix whose second dimension is innermost."""
    width = draw(st.sampled_from([w for w in (1, 2, 4, 8) if w * element_bytes <= 16]))
    if shape[1] % width:
        width = 1
    rows = draw(st.integers(1, 4))
    down, along = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    lanes = np.arange(32 * rows, dtype=np.int64)
    fast = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    coordinates = np.zeros((len(lanes), 2), dtype=np.int64)
    coordinates[:, 0] = (lanes * down + lanes // fast) % shape[0]
    coordinates[:, 1] = (lanes * along + lanes % fast) % (shape[1] // width) * width
    if draw(st.booleans()):
        coordinates[::3] = -1
    kind = draw(st.sampled_from([Instruction.LOAD, Instruction.STORE]))
    return Pattern("test", kind, width, element_bytes, coordinates.reshape(rows, 32, 2), 1)


@st.composite
def buffers(draw: st.DrawFn) -> tuple[tuple[int, int], int, list[Pattern]]:
    """A matrix, the bytes of its elements, and its accesses."""
    element_bytes = draw(st.sampled_from([1, 2, 4]))
    shape = (draw(st.integers(2, 40)), draw(st.sampled_from([4, 8, 16, 24, 32, 40, 48, 64, 128])))
    count = draw(st.integers(1, 3))
    return shape, element_bytes, [draw(patterns(shape, element_bytes)) for _ in range(count)]


def total(found: list[Pattern], strides: tuple[int, ...], swizzle: Swizzle) -> int:
    return sum(int(swizzled_wavefronts(pattern, strides, [swizzle])[0]) for pattern in found)


def every_swizzle(extents: Extents) -> list[Swizzle]:
    """All swizzles of positive shift that keep chunks whole, useless ones as well."""
    reach = max(1, (Layout(extents.shape, extents.strides()).cosize() - 1).bit_length())
    lowest = extents.chunk.bit_length() - 1
    return [
        Swizzle(bits, base, shift)
        for bits in range(1, reach)
        for base in range(lowest, reach)
        for shift in range(bits, reach)
        if base + bits + shift <= reach
    ]


@settings(max_examples=40, deadline=None)
@given(buffers())
def test_no_swizzle_and_no_padding_is_better(
    case: tuple[tuple[int, int], int, list[Pattern]],
) -> None:
    shape, element_bytes, found = case
    layout = Layout(shape, (shape[1], 1))
    choice = choose_layout(layout, shape, element_bytes, found)
    best = choice.chosen.cost.wavefronts
    assert choice.ideal <= best <= total(found, layout.flat_stride, Swizzle(0, 0, 0))
    extents = extents_of(shape, layout.flat_stride, element_bytes, max(p.width for p in found))
    assert extents is not None
    none = Swizzle(0, 0, 0)
    assert all(
        total(found, extents.strides(padding), none) >= best for padding in paddings(extents)
    )
    # Targets past a line or in a word and sources below a line are not in the space.
    sample = every_swizzle(extents)
    for swizzle in sample[:: max(1, len(sample) // 60)]:
        assert counted_plainly(found, extents.strides(), swizzle) >= best, swizzle


def counted_plainly(found: list[Pattern], strides: tuple[int, ...], swizzle: Swizzle) -> int:
    """The wavefronts by definition, one instruction at a time, addresses by the layout itself."""
    wavefronts = 0
    for pattern in found:
        layout = ComposedLayout(swizzle, 0, Layout((1 << 20,), (1,)))
        for row in pattern.coordinates:
            offsets = [
                layout(int(at @ np.array(strides))) * pattern.element_bytes
                for at in row
                if at[0] >= 0
            ]
            lanes = [i for i, at in enumerate(row) if at[0] >= 0]
            groups: dict[int, set[int]] = {}
            for lane, offset in zip(lanes, offsets, strict=True):
                words = range(offset // 4, (offset + pattern.access_bytes - 1) // 4 + 1)
                groups.setdefault(lane // pattern.lanes, set()).update(words)
            for words in groups.values():
                banks = [word % 32 for word in words]
                wavefronts += max(banks.count(bank) for bank in set(banks))
        # Loads of two groups at a time may take half as many.
    if any(p.instruction is Instruction.LOAD and p.access_bytes > 4 for p in found):
        return 2 * wavefronts
    return wavefronts


@settings(max_examples=40, deadline=None)
@given(buffers())
def test_chunks_stay_whole_and_elements_apart(
    case: tuple[tuple[int, int], int, list[Pattern]],
) -> None:
    shape, element_bytes, found = case
    given_layout = Layout(shape, padded_strides(shape, 1, element_bytes)[0])
    choice = choose_layout(given_layout, shape, element_bytes, found)
    layout, chunk = choice.chosen.layout, max(pattern.width for pattern in found)
    seen: set[int] = set()
    for row in range(shape[0]):
        for column in range(shape[1]):
            offset = int(layout((row, column)))
            start = int(layout((row, column - column % chunk)))
            assert start % chunk == 0
            assert offset - start == column % chunk
            seen.add(offset)
    assert len(seen) == shape[0] * shape[1]
    assert max(seen) < physical_elements(layout)
    assert choice.chosen.cost <= choice.given.cost
    again = choose_layout(layout, shape, element_bytes, found)
    assert again.chosen.layout == layout


def test_only_swizzles_that_can_matter_are_tried() -> None:
    """A line is 64 elements of f16: sources reach it, targets do not, chunks of 8 stay."""
    extents = Extents((16, 128), (1, 0), 2, 8)
    for swizzle in swizzles(extents):
        assert swizzle.base >= 3
        assert swizzle.base + swizzle.bits <= 6
        assert swizzle.base + swizzle.shift + swizzle.bits - 1 >= 6
        assert swizzle.base + swizzle.shift + swizzle.bits <= 11
    assert Swizzle(3, 3, 4) in swizzles(extents)


def test_boxes_side_by_side() -> None:
    assert boxes_of(Layout((16, 128), (128, 1))) == 1
    assert boxes_of(Layout((16, (64, 2)), (64, (1, 1024)))) == 2
    swizzled = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((2, (32, 4)), (32, (1, 64))))
    assert boxes_of(swizzled) == 4


def test_all_accesses_count_at_once() -> None:
    """Read down the columns and along the rows: the columns' swizzle costs the rows nothing."""
    lanes = np.arange(32)
    down = np.stack([lanes, np.zeros(32, dtype=np.int64)], axis=1)[None]
    along = np.stack([np.zeros(32, dtype=np.int64), lanes], axis=1)[None]
    both = [
        Pattern("down", Instruction.LOAD, 1, 4, down, 1),
        Pattern("along", Instruction.LOAD, 1, 4, along, 1),
    ]
    plain = Layout((32, 32), (32, 1))
    choice = choose_layout(plain, (32, 32), 4, both)
    assert choice.given.cost.wavefronts == 33
    assert (choice.chosen.method, choice.chosen.cost.wavefronts) == (Method.XOR, 2)
    assert choice.certificate is Certificate.IDEAL


def apply(module: ModuleOp, *passes: ModulePass) -> ModuleOp:
    PassPipeline(passes).apply(make_context(), module)
    module.verify()
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_counted_is_what_runs_and_instructions_stay(path: Path) -> None:
    module = apply(
        read_module(str(path), make_context()),
        DecomposeThreadblockPass(),
        FuseThreadblockPass(),
        ResolveLayoutPass(),
        LowerThreadblockPass(),
    )

    def measured() -> tuple[dict[int, int], list[tuple[str, int, int]]]:
        wavefronts: dict[int, int] = {}
        instructions: list[tuple[str, int, int]] = []
        buffers = [op for op in module.walk() if isinstance(op, AllocOp)]
        for kernel in (op for op in module.walk() if isinstance(op, KernelOp)):
            for cost in memory_access_costs(kernel):
                access, owner = cost.access, cost.access.value.owner
                if access.proxy is Proxy.BULK_COPY:
                    continue  # these write whole lines, in any layout that they can have
                instructions.append((access.instruction, access.width, access.instructions))
                if isinstance(owner, AllocOp) and not access.stage.every_stage:
                    blocks = int(np.prod(kernel.grid_dim))
                    at = buffers.index(owner)
                    wavefronts[at] = wavefronts.get(at, 0) + cost.per_launch // blocks
        return wavefronts, instructions

    before, instructions = measured()
    choices = choose_layouts(module)
    assert sorted(before.values()) == sorted(
        found.choice.given.cost.wavefronts for found in choices
    )
    expected = sorted(found.choice.chosen.cost.wavefronts for found in choices)
    apply(module, PlanSwizzlePass())
    after, same_instructions = measured()
    assert sorted(after.values()) == expected
    assert same_instructions == instructions
    for found in choices:
        assert found.choice.chosen.cost <= found.choice.given.cost
