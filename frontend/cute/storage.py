"""Shared memory by names: ``@cute.struct`` of a class whose annotations say what there is.

@cute.struct
class Storage:
    full: cute.struct.MemRange[cutlass.Int64, stages]
    a: cute.struct.Align[cute.struct.MemRange[cutlass.Float16, 8192], 1024]

storage = cute.SmemAllocator().allocate(Storage)
tile = storage.a.get_tensor(layout)
cute.arch.mbarrier_init(storage.full.data_ptr(), 1)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from mugraph.cute.errors import KernelError
from mugraph.cute.machine import kernel_machine
from mugraph.dialects.cute import ComposedLayout, Layout, composition
from mugraph.dialects.cute.tensor import Tensor


@dataclass(frozen=True)
class Range:
    """So many elements that lie together, and what their start is a multiple of, in bytes."""

    element_type: Any
    count: int
    alignment: int = 16


@dataclass
class PlacedRange:
    """A range of a struct in the shared memory of a block."""

    name: str
    range: Range
    _lies: Any = None
    """What was asked for, and what it is."""

    def _once(self, what: Any, made: Callable[[], Any]) -> Any:
        if self._lies is None:
            self._lies = what, made()
        if self._lies[0] != what:
            raise KernelError(f"{self.name}.get_tensor: {self._lies[0]} lies there, not {what}")
        return self._lies[1]

    def data_ptr(self) -> Any:
        """A pointer to the first mbarrier of a range of ``Int64``."""
        if self.range.element_type not in ("i64", np.int64):
            raise KernelError(
                f"{self.name}.data_ptr: ranges of Int64 are mbarriers; of {self.range.element_type}"
                " take get_tensor"
            )
        machine, count = kernel_machine("data_ptr"), self.range.count
        return self._once("mbarriers", lambda: machine.mbarriers(count, self.name))

    def get_tensor(self, layout: Layout[int] | ComposedLayout, swizzle: Any = None) -> Tensor:
        """The tensor that lies there.  Raises KernelError where the range is too short."""
        whole = layout if swizzle is None else composition(swizzle, layout)
        if whole.cosize() > self.range.count:
            raise KernelError(
                f"{self.name}.get_tensor: {whole} takes {whole.cosize()} elements, and the range "
                f"has {self.range.count}"
            )
        kind, alignment = self.range.element_type, self.range.alignment
        machine = kernel_machine("get_tensor")
        return self._once(whole, lambda: machine.shared(kind, whole, self.name, alignment))


class struct:  # noqa: N801
    """The ranges that a class names.  Raises KernelError for annotations that are none."""

    class MemRange:
        """``MemRange[element_type, count]``."""

        def __class_getitem__(cls, given: tuple[Any, int]) -> Range:
            return Range(*given)

    class Align:
        """``Align[range, bytes]``."""

        def __class_getitem__(cls, given: tuple[Range, int]) -> Range:
            return replace(given[0], alignment=given[1])

    def __init__(self, named: type) -> None:
        self.ranges: dict[str, Any] = inspect.get_annotations(named, eval_str=False)
        for name, one in self.ranges.items():
            if not isinstance(one, Range):
                raise KernelError(
                    f"struct {named.__name__}: {name} is {one!r}, not a struct.MemRange[type, "
                    "count]; annotations must be values, without 'from __future__ import "
                    "annotations'"
                )

    def placed(self) -> Any:
        """Its ranges in shared memory, by their names."""
        return SimpleNamespace(
            **{name: PlacedRange(name, one) for name, one in self.ranges.items()}
        )
