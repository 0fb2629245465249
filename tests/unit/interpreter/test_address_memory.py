"""The parts of the address level by themselves: memory, copies in flight, registers, lanes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from interpreter_programs import integers, parse
from xdsl.ir import Block

from mugraph.dialects import sched
from mugraph.dialects.sched.accesses import StageReference
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.address_kernel import stretches_of, warps_in
from mugraph.runtime.interpreter.block_lists import block_lists
from mugraph.runtime.interpreter.combining import combine_lanes
from mugraph.runtime.interpreter.memory import (
    DeviceTensor,
    InFlight,
    SharedBuffer,
    SharedMemory,
    poison,
)

HALF = np.dtype(np.float16)
START = np.array([0])


def buffer(memory: SharedMemory, offset: int = 0, stages: int = 1) -> SharedBuffer:
    return SharedBuffer(memory, offset, stages, 32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_memory_is_poison_until_it_is_written(dtype: type[np.floating]) -> None:
    memory = SharedMemory(2, 64)
    place = buffer(memory)
    assert np.isnan(
        place.read(np.dtype(dtype), np.arange(64 // np.dtype(dtype).itemsize), START)
    ).all()
    assert np.isnan(poison(np.dtype(dtype)))
    place.write(np.array([3, 1]), START, np.array([[5, 6], [7, 8]], dtype))
    read = place.read(np.dtype(dtype), np.array([1, 2, 3]), START)
    np.testing.assert_array_equal(read, np.array([[6, np.nan, 5], [8, np.nan, 7]], dtype))


def test_whole_lines_keep_every_bit() -> None:
    memory = SharedMemory(1, 64)
    bits = np.random.default_rng(0).integers(0, 256, (1, 64), np.uint8)
    memory.bytes[...] = bits
    line = np.dtype(np.complex128)
    place = buffer(memory)
    place.write(np.array([3, 2, 1, 0]), START, place.read(line, np.arange(4), START))
    np.testing.assert_array_equal(memory.bytes.reshape(4, 16), bits.reshape(4, 16)[::-1])


def test_stages() -> None:
    place = buffer(SharedMemory(1, 256), offset=64, stages=3)
    assert place.starts(StageReference(), 4) == 64 + 32
    assert place.starts(StageReference(ahead=2), 4) == 64
    assert place.starts(StageReference(iteration=2), 4) == 64 + 64
    assert place.starts(StageReference(iteration=0, every_stage=True), 4) == 64


def test_copies_land_group_by_group() -> None:
    place = buffer(SharedMemory(1, 64))
    groups = InFlight()

    def issue(at: int) -> None:
        values = np.array([[at + 1.0]], HALF)
        groups.uncommitted.append(partial(place.write, np.array([at]), START, values))

    def landed() -> list[int]:
        values = place.read(HALF, np.arange(5), START)[0]
        return [int(at) for at in np.flatnonzero(~np.isnan(values))]

    issue(0)
    issue(1)
    groups.wait(0)
    assert landed() == []  # A wait covers committed groups only.
    groups.commit()
    issue(2)
    groups.commit()
    groups.commit()  # An empty group counts.
    groups.wait(2)
    assert landed() == [0, 1]
    groups.wait(2)
    assert landed() == [0, 1]
    groups.wait(1)
    assert landed() == [0, 1, 2]


def test_a_padded_tensor() -> None:
    module = parse("""
    sched.kernel @kernel inputs 1 grid [1, 1, 1] block [32, 1, 1] smem 0 {
    ^bb0(%x: !sched.global<3x5xf16, (3,5):(1,8)>, %y: !sched.global<3x5xf16, (3,5):(8,1)>):
    }
    """)
    kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
    x = integers((3, 5))
    column_major = DeviceTensor.of(kernel.body.block.args[0], x)
    assert column_major.elements.shape == (4 * 8 + 2 + 1,)
    np.testing.assert_array_equal(column_major.logical(), x)
    np.testing.assert_array_equal(column_major.elements[8:11], x[:, 1])
    assert np.isnan(column_major.elements[3:8]).all()
    assert column_major.logical_written().all()
    empty = DeviceTensor.empty(kernel.body.block.args[1])
    assert np.isnan(empty.logical()).all() and not empty.logical_written().any()


@pytest.mark.parametrize("lanes", [1, 2, 8, 32])
@pytest.mark.parametrize("threads", [32, 48, 64])
def test_lanes_add_pairwise(lanes: int, threads: int) -> None:
    sums = np.random.default_rng(0).standard_normal((2, threads)).astype(np.float32)
    expected = np.zeros((2, -(-threads // lanes) * lanes), np.float32)
    expected[:, :threads] = sums
    distance = lanes // 2
    while distance:
        expected = np.stack(
            [expected[:, t] + expected[:, t ^ distance] for t in range(expected.shape[1])], axis=1
        )
        distance //= 2
    np.testing.assert_array_equal(combine_lanes(sums, lanes), expected[:, :threads])


@pytest.mark.one_in(7)
@pytest.mark.parametrize("ldmatrix", ["true", "false"])
@pytest.mark.parametrize("extents", [(16, 8, 16), (24, 40, 24), (8, 72, 40), (56, 16, 8)])
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_any_extents(
    ldmatrix: str, extents: tuple[int, int, int], warps: tuple[int, int], transposed: bool
) -> None:
    m, n, k = extents
    text = product_of(m, n, k, warps, ldmatrix, transposed)
    a, b = integers((m, k)), integers((k, n), seed=1)
    module = parse(text)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    for order in ("together", "reversed"):
        (result,) = run_function(module, None, [a, b], level="address", order=order)
        np.testing.assert_array_equal(result, exact)


def product_of(
    m: int, n: int, k: int, warps: tuple[int, int], ldmatrix: str, transposed: bool
) -> str:
    """A kernel of one block that multiplies a (m, k) and b (k, n), copied synchronously."""
    threads = warps[0] * warps[1] * 32
    a, b, c = (
        f"{extents[0]}x{extents[1]}xf16, ({extents[0]},{extents[1]})"
        for extents in ((m, k), (k, n), (m, n))
    )
    layouts = [f"(1,{m})", f"(1,{k})"] if transposed else [f"({k},1)", f"({n},1)"]
    sa, sb = f"!sched.shared<{a}:{layouts[0]}>", f"!sched.shared<{b}:{layouts[1]}>"
    sc = f"!sched.shared<{c}:({n},1)>"
    ga, gb = f"!sched.global<{a}:({k},1)>", f"!sched.global<{b}:({n},1)>"
    gc = f"!sched.global<{c}:({n},1)>"
    warp_grid = f"({warps[0]},{warps[1]},1)"
    acc = f"!sched.tile<{m}x{n}xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, {warp_grid}>>"
    by = f"by <{threads}, vector 1, order [1, 0]>"
    at_b = -(-m * k * 2 // 128) * 128
    at_c = at_b + -(-k * n * 2 // 128) * 128
    return f"""
    sched.kernel @kernel inputs 2 grid [1, 1, 1] block [{threads}, 1, 1] smem {at_c + m * n * 2} {{
    ^bb0(%a: {ga}, %b: {gb}, %c: {gc}):
      %sa = sched.alloc offset 0 : {sa}
      %sb = sched.alloc offset {at_b} : {sb}
      %sc = sched.alloc offset {at_c} : {sc}
      %acc = sched.empty : {acc}
      %acc_1 = sched.prologue {{
        sched.copy %a to %sa {by} : {ga} to {sa}
        sched.copy %b to %sb {by} : {gb} to {sb}
        %acc_2 = sched.fill %acc with 0.0 : {acc}
        sched.barrier
        %acc_3 = sched.mma %sa, %sb to %acc_2 ldmatrix [{ldmatrix}, {ldmatrix}] : {sa}, {sb}
          to {acc}
        sched.store %acc_3 to %sc : {acc} to {sc}
        sched.barrier
        sched.copy %sc to %c {by} : {sc} to {gc}
        sched.yield %acc_3 : {acc}
      }} -> {acc}
    }}
    func.func @f(%a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>) -> tensor<{m}x{n}xf16> {{
      %c = sched.launch @kernel %a, %b
        : (tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>) -> tensor<{m}x{n}xf16>
      func.return %c : tensor<{m}x{n}xf16>
    }}
    """


def test_barriers_cut_the_execution_into_stretches() -> None:
    module = parse(product_of(16, 8, 16, (1, 1), "true", transposed=False))
    kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
    names = [[step.op.name for step in stretch] for stretch in stretches_of(kernel.body.block.ops)]
    assert names == [
        ["sched.copy", "sched.copy", "sched.fill"],
        ["sched.mma", "sched.store"],
        ["sched.copy"],
    ]
    assert warps_in(80) == [slice(0, 32), slice(32, 64), slice(64, 80)]


def test_which_blocks_a_sample_holds() -> None:
    (every,) = block_lists(kernel_of(3, 2, 1))
    np.testing.assert_array_equal(every[0, :4], [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]])
    assert every.shape == (1, 6, 3)
    (two,) = block_lists(kernel_of(3, 2, 4), sample=2)
    np.testing.assert_array_equal(two, [[[0, 0, 0], [2, 1, 3]]])


def kernel_of(*grid: int) -> sched.KernelOp:
    return sched.KernelOp("kernel", 0, grid, (32, 1, 1), Block())


SHARED_A = "!sched.shared<8x12xf16, S<1,2,2> o (8,12):(12,1)>"
SHARED_R = "!sched.shared<8x12xf16, (8,12):(1,8)>"
SHARED_S = "!sched.shared<8x3xf32, (8,3):(3,1)>"
DEVICE_A = "!sched.global<8x12xf16, (8,12):(12,1)>"
DEVICE_R = "!sched.global<8x12xf16, (8,12):(16,1)>"
DEVICE_S = "!sched.global<8x3xf16, (8,3):(3,1)>"
LINEAR = "!sched.tile<8x12xf32, #sched.linear<32, vector 4, order [1, 0]>>"
BY = "by <32, vector 4, order [1, 0]>"

STEPS = {
    "accumulation in shared memory": f"""
      sched.fill %r with 2.0 : {SHARED_R}
      sched.barrier
      sched.map square %a to %r then [mul_scalar(0.3), accum] {BY}
        : {SHARED_A} to {SHARED_R}
    """,
    "registers that are added up": f"""
      %zero = sched.fill %f with 0.0 : {LINEAR}
      %exp = sched.map exp %a to %g {BY} : {SHARED_A} to {LINEAR}
      %one = sched.map identity %exp to %zero then [square, accum] : {LINEAR} to {LINEAR}
      %two = sched.map identity %a to %one then [accum] {BY} : {SHARED_A} to {LINEAR}
      sched.store %two to %r then [mul_scalar(0.25)] : {LINEAR} to {SHARED_R}
    """,
    "two sources": f"""
      sched.map mul %a, %a to %r {BY} : {SHARED_A}, {SHARED_A} to {SHARED_R}
    """,
}


def vector_kernel(steps: str) -> str:
    """One block that reads x and writes two results: from %r, and sums of it from %s."""
    return f"""
    sched.kernel @kernel inputs 1 grid [1, 1, 1] block [32, 1, 1] smem 640 {{
    ^bb0(%x: {DEVICE_A}, %o: {DEVICE_R}, %p: {DEVICE_S}):
      %a = sched.alloc offset 0 : {SHARED_A}
      %r = sched.alloc offset 256 : {SHARED_R}
      %s = sched.alloc offset 512 : {SHARED_S}
      %f = sched.empty : {LINEAR}
      %g = sched.empty : {LINEAR}
      sched.prologue {{
        sched.copy %x to %a {BY} : {DEVICE_A} to {SHARED_A}
        sched.barrier
        {steps}
        sched.barrier
        sched.reduce %r to %s then [mul_scalar(0.5)] dim 1 strided lanes 4
          by <32, vector 1, order [0, 1]> : {SHARED_R} to {SHARED_S}
        sched.barrier
        sched.reduce %r to %s then [accum] dim 1 contiguous lanes 2
          by <32, vector 1, order [0, 1]> : {SHARED_R} to {SHARED_S}
        sched.barrier
        sched.copy %r to %o {BY} : {SHARED_R} to {DEVICE_R}
        sched.copy %s to %p by <32, vector 1, order [1, 0]> : {SHARED_S} to {DEVICE_S}
      }}
    }}
    func.func @f(%x: tensor<8x12xf16>) -> (tensor<8x12xf16>, tensor<8x3xf16>) {{
      %o, %p = sched.launch @kernel %x : (tensor<8x12xf16>) -> (tensor<8x12xf16>, tensor<8x3xf16>)
      func.return %o, %p : tensor<8x12xf16>, tensor<8x3xf16>
    }}
    """


@pytest.mark.parametrize("name", STEPS)
def test_steps_round_as_logical_values_do(name: str) -> None:
    module = parse(vector_kernel(STEPS[name]))
    x = integers((8, 12), 3)
    logical = run_function(module, None, [x])
    for order in ("together", "forward"):
        by_address = run_function(module, None, [x], level="address", order=order)
        np.testing.assert_array_equal(by_address[0], logical[0])
        # Sums of four numbers in another order.
        np.testing.assert_allclose(by_address[1], logical[1], rtol=1e-3)
