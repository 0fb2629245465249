"""Open sizes: an estimate chooses tiles and how far loads run ahead."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError, PassFailedException

from mugraph.dialects import te
from mugraph.passes.costs.mapped_kernels import BLOCK_NS, BlockWork, KernelTime, estimate_mapped
from mugraph.passes.targets import target_named
from mugraph.passes.texpr.estimates import estimate_kernels
from mugraph.texpr import build_module, lexer, parser, read_texpr
from mugraph.texpr.lexer import Token
from mugraph.texpr.open_sizes import combinations, estimate_sizes, open_sizes
from mugraph.texpr.read import choose_sizes

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"
H200 = target_named("h200")
COPY = """
size M = 16777216, T = 32 | 1024
fn f(x: f32[M]): f32[M] {
    par M / T b #grid { par T i #block { result[b * T + i] = x[b * T + i] } }
}
"""


def kernel_of(name: str, **sizes: int) -> KernelTime:
    text = (EXAMPLES / f"{name}.te").read_text()
    (found,) = estimate_kernels(build_module(text, f"{name}.te", sizes), "h200")
    return found


def test_open_sizes_and_their_combinations() -> None:
    text = "size M = 4, T = 2 | 4, U = 1 | 2 | 3 par M i { y[i] = x[i] }"
    assert open_sizes(text, "f.te", {}) == {"T": (2, 4), "U": (1, 2, 3)}
    assert open_sizes(text, "f.te", {"T": 8}) == {"U": (1, 2, 3)}
    every = combinations(open_sizes(text, "f.te", {}), 48)
    assert len({*every}) == 6
    assert (("T", 4), ("U", 3)) in every
    assert len({*combinations({"T": range(100)}, 7)}) == 7


@pytest.mark.parametrize("size", ["T = M | 4", "T = 4 | 0", "T = 4 | 2.5"])
def test_values_of_an_open_size_are_whole_numbers(size: str) -> None:
    with pytest.raises(ParseError, match=r"one of several whole numbers above 0, 64 \| 128"):
        read_texpr(f"size M = 4, {size} par M i {{ y[i] = x[i] }}", "f.te", {})


def test_values_that_would_leave_something_over_are_left_out() -> None:
    """`M / T` rounds down: blocks of 64 would compute 64 of 96 elements."""
    text = COPY.replace("M = 16777216, T = 32 | 1024", "M = 96, T = 64 | 32")
    assert choose_sizes(text, "f.te", {}, {"T": (64, 32)}, "h200") == {"T": 32}
    with pytest.raises(ParseError, match="96 is no multiple of 64, so that some is left over"):
        read_texpr(text.replace("| 32", "| 40"), "f.te", {})
    # A quotient that is rounded up on purpose is taken as it is.
    up = text.replace("par M / T b", "par (M + T - 1) / T b").replace(
        "{ result[b * T + i] = x[b * T + i] }",
        "{ if b * T + i < M { result[b * T + i] = x[b * T + i] } }",
    )
    assert choose_sizes(up, "f.te", {}, {"T": (64,)}, "h200") == {"T": 64}


def test_a_program_is_read_with_the_values_of_the_least_estimate() -> None:
    """A block of one warp for each 32 elements waits for memory alone."""
    times = {
        tile: estimate_sizes(COPY, "f.te", {}, (("T", tile),), "h200").microseconds
        for tile in (32, 1024)
    }
    assert times[1024] < times[32]
    for given, expected in (({}, 16384), ({"T": 32}, 524288)):
        function = cast(FuncOp, read_texpr(COPY, "f.te", given).body.block.first_op)
        loop = next(op for op in function.walk() if isinstance(op, te.ParOp))
        assert loop.iterations == expected


def test_a_text_is_parsed_once_for_all_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def tokens_of(text: str, name: str) -> list[Token]:
        parsed.append(name)
        return lexer.tokens_of(text, name)

    monkeypatch.setattr(parser, "tokens_of", tokens_of)
    read_texpr(COPY.replace("32 | 1024", "64 | 128 | 256"), "once.te", {})
    assert parsed == ["once.te"]


def test_values_that_are_refused_are_left_out() -> None:
    text = COPY.replace("32 | 1024", "4096 | 1024").replace("par T i", "fully par T i")
    function = cast(FuncOp, read_texpr(text, "f.te", {}).body.block.first_op)
    loop = next(op for op in function.walk() if isinstance(op, te.ParOp))
    assert loop.iterations == 16384  # 4096 threads are too many for a block
    with pytest.raises(PassFailedException, match="4096 threads"):
        read_texpr(text.replace("4096 | 1024", "4096 | 2048"), "f.te", {})


def test_values_that_leave_a_buffer_are_left_out() -> None:
    """They have an estimate: the check for accesses out of bounds comes behind it."""
    text = COPY.replace("M / T", "(M + T - 1) / T").replace("32 | 1024", "1000 | 32")
    assert choose_sizes(text, "f.te", {}, {"T": (1000, 32)}, "h200") == {"T": 32}
    function = cast(FuncOp, read_texpr(text, "f.te", {}).body.block.first_op)
    assert next(op for op in function.walk() if isinstance(op, te.ParOp)).iterations == 524288
    with pytest.raises(ParseError, match="x is accessed at index"):
        read_texpr(text.replace("1000 | 32", "1000 | 2000"), "f.te", {})


def test_what_bounds_a_product_in_tiles() -> None:
    """Registers: a thread has 16 sums of a tile of 64 x 64, and loads each operand once."""
    small = kernel_of("gemm_shared", TM=64, TN=64, TK=16)
    wide = kernel_of("gemm_shared", TM=128, TN=64, TK=32)
    assert small.blocks == 256
    assert small.resident == 2
    assert wide.blocks == 128
    assert wide.shared < small.shared
    assert wide.waiting < small.waiting
    assert wide.total < small.total
    # 2 x 4 x 4 operands and their sums an iteration: measured 128.8 and 80.1 us.
    assert 1.2 < small.total / wide.total < 2.0


def test_loads_that_run_further_ahead_are_waited_for_less() -> None:
    sizes = {"M": 2048, "N": 2048, "K": 2048, "TN": 128, "WN": 32}
    near, far = (kernel_of("gemm_mma", **sizes, AHEAD=ahead) for ahead in (2, 4))
    assert far.waiting < near.waiting / 2
    assert far.total < near.total
    assert far.products == near.products > 0


def test_an_estimate_is_made_of_waves() -> None:
    work = BlockWork(256, 0, 32, 1e5, 0.0, 1e4, 0.0, 0.0, 0.0)
    one = estimate_mapped(work, H200.multiprocessors, 0.0, H200)
    assert (one.resident, one.waves) == (1, 1)
    many = estimate_mapped(work, 8 * H200.multiprocessors, 0.0, H200)
    assert (many.resident, many.waves) == (8, 1)
    assert many.issue == pytest.approx(8 * one.issue)
    more = estimate_mapped(work, 8 * H200.multiprocessors + 1, 0.0, H200)
    assert more.waves == 2
    assert more.issue == pytest.approx(9 * one.issue)
    assert str(more).startswith("1057 blocks, 8 a multiprocessor, 2 waves; issue ")


def test_a_warp_alone_does_not_keep_the_tensor_cores_busy() -> None:
    alone = BlockWork(32, 0, 64, 0.0, 1e5, 0.0, 0.0, 0.0, 0.0)
    of_eight = alone._replace(threads=256)
    blocks = H200.multiprocessors
    assert estimate_mapped(alone, blocks, 0.0, H200).products == pytest.approx(
        8 * estimate_mapped(of_eight, blocks, 0.0, H200).products
    )


def test_more_memory_than_the_multiprocessors_move_bounds_a_kernel() -> None:
    work = BlockWork(256, 0, 32, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    found = estimate_mapped(work, 132, 4.8e9, H200)
    assert found.memory == pytest.approx(1e6)
    assert found.total > found.memory


STRIDED = """
size N = 1048576, K = 16
fn f(x: f32[N]): f32[N] {
    par N / (128 * K) |b| #grid { par 128 |t| #block {
        seq K |k| { result[(b * 128 + t) * K + k] = x[(b * 128 + t) * K + k] }
    } }
}
"""


def test_lanes_that_are_lines_apart_take_a_line_each() -> None:
    """As measured: the cache looks up a line at a time, and stores parts of sectors one by one."""
    few, many = (
        estimate_sizes(STRIDED, "f.te", {}, (("K", count),), "h200").kernels[0] for count in (8, 32)
    )
    # 8 lanes of a line against one.
    assert many.shared == pytest.approx(4 * few.shared, rel=0.1)
    assert many.cache == pytest.approx(4 * few.cache, rel=0.2)


def test_sums_of_a_row_take_less_where_threads_have_parts_of_a_line() -> None:
    """Measured 291, 279, 286, 193 and 142 us."""
    times = {tile: kernel_of("scan", T=tile).total for tile in (64, 128, 256, 512)}
    assert times[512] < times[256] < times[128]
    assert times[64] == pytest.approx(times[128], rel=0.05)


ROWS = """
fn f(x: f32[64, 1024]): f32[64, 1024] {
    par 64 |i| #grid { par 1024 |j| #block {
        reg v = 0.0
        BODY
        result[i, j] = v
    } }
}
"""


@pytest.mark.parametrize(
    "body",
    [
        "if i > 0 { v = x[i - 1, j] }",  # the first block loads nothing
        "if j > 31 { v = x[i, j - 32] }",  # nor does the first warp
        "v = x[i, j] seq 3 |k| { if j > k { v += x[i, j - k - 1] } }",  # what the block has already
    ],
)
def test_a_step_loads_what_a_block_inside_the_grid_does_once(body: str) -> None:
    found, plain = (
        estimate_sizes(ROWS.replace("BODY", one), "f.te", {}, (), "h200").kernels[0]
        for one in (body, "v = x[i, j]")
    )
    assert found.cache == pytest.approx(plain.cache, rel=0.05)


def test_blocks_are_launched_one_after_the_other() -> None:
    work = BlockWork(32, 0, 32, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    short, long = (estimate_mapped(work, blocks, 0.0, H200).total for blocks in (2**18, 2**19))
    assert long - short == pytest.approx(2**18 * BLOCK_NS, rel=0.01)


def test_atomic_operations_on_one_line_come_one_after_the_other() -> None:
    text = """
    size N = 262144, BINS = 32
    fn f(x: i32[N]): i32[BINS] {
        par BINS i { result[i] = 0 }
        par N / 256 |b| #grid { par 256 |t| #block { atomic result[t % BINS] += x[b * 256 + t] } }
    }
    """
    few, many = (
        estimate_sizes(text, "f.te", {}, (("BINS", bins),), "h200").kernels[1].total
        for bins in (32, 256)
    )
    assert few > 5 * many
