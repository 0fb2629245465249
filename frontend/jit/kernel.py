"""What a compiled µGraph is to its caller."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from mugraph.codegen.c_abi import CInterface


class Kernel(ABC):
    """A compiled µGraph: call it with its inputs, get its outputs."""

    def __init__(self, interface: CInterface) -> None:
        self.interface = interface

    @property
    def name(self) -> str:
        """The function's name."""
        return self.interface.name

    @property
    @abstractmethod
    def arch(self) -> str:
        """What it was compiled for: ``cpu``, or an architecture such as ``sm_90a``."""

    @abstractmethod
    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Runs it on the current stream; returns the output, or a tuple of several.

        Inputs are arrays of torch, CuPy, JAX, NumPy or anything with ``__dlpack__`` or
        ``__cuda_array_interface__``; extents, element types, strides, device and alignment are
        checked against what was compiled.  ``out`` are arrays to write to, one or a sequence;
        without it outputs are allocated with the planned strides, by torch or CuPy.  An output of
        ``interface.in_place`` may be the input that it names, of which only what changes is
        written then.  Nothing is recorded for automatic differentiation.

        Raises ``ArgumentError`` naming the argument that does not fit.
        """

    def __repr__(self) -> str:
        inputs = ", ".join(f"{tensor.name}: {tensor}" for tensor in self.interface.inputs)
        return f"<mugraph kernel {self.name}({inputs}) for {self.arch}>"


def as_sequence(out: Any, count: int) -> list[Any]:
    """``out`` as a sequence: one array stands for a sequence of one."""
    if count == 1 and not isinstance(out, (tuple, list)):
        return [out]
    return list(cast(Sequence[Any], out))
