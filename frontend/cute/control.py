"""Loops, conditions and shared memory of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Index, Numeric
from mugraph.cute.machine import kernel_machine
from mugraph.cute.sizes import at_most
from mugraph.cute.storage import struct
from mugraph.dialects.cute import ComposedLayout, IntTuple, Layout
from mugraph.dialects.cute.int_tuple import flatten
from mugraph.dialects.cute.tensor import Tensor


def dynamic_range(extent: Numeric, name: str = "k") -> Iterator[Any]:
    """A loop of the kernel: ``for k in dynamic_range(8): ...``, recorded once.

    The extent may be one that a call says, or depend on blocks and loops around.

    Python's ``range`` is written out instead.  What the body rebinds it rebinds once: keep what
    changes from iteration to iteration in tensors, or compute it from ``k``.
    Raises KernelError where the extent is no number from 0 on.
    """
    if not isinstance(extent, int | Index) or at_most(extent) < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelError(f"dynamic_range: the extent {extent} is no number from 0 on")
    return kernel_machine("dynamic_range").iterate(extent, name)


def when(condition: Any) -> AbstractContextManager[None]:
    """What runs only where a condition holds: on threads, blocks, iterations, or on elements.

    ``with when(thread < 32): ...``, ``with when(a[i] > 0): ...``; ``&`` joins conditions of one
    kind.  Barriers may stand in it where the condition is the same for all threads of a block, but
    not where it is on elements, which are taken to say anything.
    """
    return kernel_machine("when").when(condition)


def printf(*_arguments: Any) -> None:
    """Raises KernelError: a kernel has no output but its tensors."""
    raise KernelError(
        "printf: a kernel prints nothing when it runs; 'print' shows tensors and indices when it "
        "is recorded"
    )


def elem_less(coord: Any, bound: IntTuple) -> Any:
    """Whether every number of a coordinate is less than that of a bound: what predicates ask."""
    left, right = flatten(coord), flatten(bound)
    if len(left) != len(right):
        raise KernelError(
            f"elem_less: the coordinate {coord} has {len(left)} numbers, the bound {bound} has "
            f"{len(right)}"
        )
    holds: Any = True
    for one, other in zip(left, right, strict=True):
        found = one < other
        holds = found if holds is True else holds & found
    return holds


class SmemAllocator:
    """Gives out the shared memory of a block."""

    def allocate_tensor(
        self,
        element_type: Any,
        layout: Layout[int] | ComposedLayout | IntTuple,
        byte_alignment: int = 128,
        name: str = "tile",
    ) -> Tensor:
        """A new tensor: ``allocate_tensor("f16", Layout((64, 64), (64, 1)))``.

        A swizzled layout is the layout of the buffer: ``S<3,3,3> o (64,64):(64,1)``; a shape is
        column-major.
        """
        if not isinstance(layout, Layout | ComposedLayout):
            layout = Layout(layout)
        return kernel_machine("allocate_tensor").shared(element_type, layout, name, byte_alignment)

    def allocate(self, storage: struct) -> Any:
        """Ranges by their names: ``allocate(Storage).a.get_tensor(layout)``."""
        return storage.placed()

    def allocate_array(self, element_type: str, num_elems: int = 1, name: str = "barriers") -> Any:
        """Mbarriers: ``allocate_array("i64", 4)`` is a pointer to the first of four.

        Raises KernelError for other elements: tensors hold those.
        """
        if element_type != "i64":
            raise KernelError(
                f"allocate_array: arrays are of i64, as mbarriers, not of {element_type}; use "
                "'allocate_tensor'"
            )
        return kernel_machine("allocate_array").mbarriers(num_elems, name)
