"""Passes that do the same to each function, or to each kernel, of a module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mugraph.dialects import sched, te
from mugraph.dialects.functions import mugraphs_in
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.sched.kernel import unplanned_kernels
from mugraph.dialects.sharding import is_per_device
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

Unit = TypeVar("Unit", bound=Operation)


@dataclass(frozen=True)
class TargetPass(ModulePass, ABC):
    """A pass that asks what a target has: a GPU, or the default one of an architecture."""

    arch: str = DEFAULT_TARGET

    @property
    def target(self) -> Target:
        """The target; raises ``PassFailedException`` where there is none of the name."""
        return target_named(self.arch)

    def check_options(self) -> None:
        """Raises ``PassFailedException`` where there is no such target."""
        target_named(self.arch)


class EachPass(ModulePass, ABC, Generic[Unit]):
    """A pass that does the same to each operator of a kind, in the order of the module."""

    @abstractmethod
    def units(self, module: ModuleOp) -> Sequence[Unit]:
        """The operators that there are before the pass."""

    @abstractmethod
    def run(self, unit: Unit, /) -> None:
        """What the pass does to one of them."""

    def check_options(self) -> None:
        """Raises ``PassFailedException`` for options that it cannot do, whatever the module has."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass on each of them."""
        self.check_options()
        for unit in self.units(op):
            self.run(unit)


class FunctionPass(EachPass[FuncOp], ABC):
    """A pass on each µGraph."""

    def units(self, module: ModuleOp) -> Sequence[FuncOp]:
        """The functions that are µGraphs."""
        return mugraphs_in(module)


class DevicePass(EachPass[FuncOp], ABC):
    """A pass on each function that is the program of each of several devices."""

    def units(self, module: ModuleOp) -> Sequence[FuncOp]:
        """These functions."""
        functions = [op for op in module.walk() if isinstance(op, FuncOp)]
        return [function for function in functions if is_per_device(function)]


class GraphPass(EachPass[CustomizedOp], ABC):
    """A pass on each custom kernel and its threadblock graph."""

    def units(self, module: ModuleOp) -> Sequence[CustomizedOp]:
        """The custom kernels."""
        return [op for op in module.walk() if isinstance(op, CustomizedOp)]


class KernelPass(EachPass[sched.KernelOp], ABC):
    """A pass on each scheduled kernel."""

    def units(self, module: ModuleOp) -> Sequence[sched.KernelOp]:
        """The kernels."""
        return [op for op in module.body.block.ops if isinstance(op, sched.KernelOp)]


class UnplannedKernelPass(KernelPass, ABC):
    """A pass on each scheduled kernel whose buffers may still change."""

    def units(self, module: ModuleOp) -> Sequence[sched.KernelOp]:
        """The kernels whose memory is not planned yet."""
        return unplanned_kernels(module)


class TexprKernelPass(EachPass[te.KernelOp], ABC):
    """A pass on each kernel of a mapped tensor expression."""

    def units(self, module: ModuleOp) -> Sequence[te.KernelOp]:
        """The kernels."""
        return [op for op in module.walk() if isinstance(op, te.KernelOp)]
