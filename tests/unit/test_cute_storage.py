"""Shared memory by the names of a class, whose annotations are values."""

from typing import Any

import numpy as np
import pytest

from mugraph import cute
from mugraph.cute import cutlass
from mugraph.dialects.te import NewOp

LAYOUT = cute.composition(cute.Swizzle(2, 2, 3), cute.Layout((32, 32), (32, 1)))


@cute.struct
class Storage:
    """A tile, and mbarriers."""

    full: cute.struct.MemRange[cutlass.Int64, 2]
    tile: cute.struct.Align[cute.struct.MemRange[cutlass.Float32, 32 * 32], 1024]


@cute.kernel(results=["b"])
def transposed(a: Any, b: Any) -> None:
    """Through a tile that is found twice."""
    thread, _, _ = cute.arch.thread_idx()
    storage = cute.SmemAllocator().allocate(Storage)
    tile = storage.tile.get_tensor(LAYOUT.outer, swizzle=LAYOUT.inner)
    for row in range(32):
        tile[row, thread] = a[row, thread]
    cute.arch.sync_threads()
    for row in range(32):
        b[thread, row] = storage.tile.get_tensor(LAYOUT)[row, thread]


def test_a_tensor_of_a_struct() -> None:
    a = np.arange(1024, dtype=np.float32).reshape(32, 32)
    b = np.zeros_like(a)
    launch = transposed(a, b).launch(grid=(1,), block=(32,))
    launch.run()
    assert (b == a.T).all()
    assert sum(isinstance(op, NewOp) for op in launch.trace().walk()) == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("too long", "takes 1025 elements, and the range"),
        ("two tensors", "lies there, not"),
        ("pointer", "ranges of Int64 are mbarriers"),
        ("beyond", "which has 2"),
    ],
)
def test_what_a_struct_has_not(how: str, words: str) -> None:
    @cute.kernel
    def kernel(a: Any) -> None:
        storage = cute.SmemAllocator().allocate(Storage)
        if how == "too long":
            storage.tile.get_tensor(cute.Layout(1025))
        elif how == "two tensors":
            storage.tile.get_tensor(LAYOUT)
            storage.tile.get_tensor(cute.Layout(32))
        elif how == "pointer":
            storage.tile.data_ptr()
        else:
            cute.arch.mbarrier_init(storage.full.data_ptr() + 2, 1)

    with pytest.raises(cute.KernelError, match=words):
        kernel(cute.make_fake_tensor("f32", (4,))).launch(grid=(1,), block=(32,)).trace()


def test_annotations_are_ranges() -> None:
    with pytest.raises(cute.KernelError, match=r"struct Odd: count is .*int32.*, not a "):

        @cute.struct
        class Odd:
            count: cutlass.Int32
