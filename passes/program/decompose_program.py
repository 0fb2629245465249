"""``--decompose-program``: composite operators become the operators that they are made of."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mugraph.dialects import kn
from mugraph.passes.each import FunctionPass


def decompose_program(function: FuncOp, *, kernels: bool = False, views: bool = True) -> None:
    """Replaces composite operators.

    With ``kernels`` also those that have a kernel; without ``views`` not those that are views.
    """
    pending: list[Operation] = list(function.body.block.ops)
    for op in pending:
        if not isinstance(op, kn.CompositeOp) or (isinstance(op, kn.RegroupOp) and not views):
            continue
        if not op.BY_LIBRARY and (kernels or not op.HAS_KERNEL):
            # A part may be made of parts itself.
            pending += op.replace()
    function.update_function_type()


@dataclass(frozen=True)
class DecomposeProgramPass(FunctionPass):
    """Decomposes softmax, norms, means and views by extents into simpler operators.

    What is between the parts is f32.  An operator that has a kernel, ``kn.rms_norm``, stays, unless
    ``kernels=true``.  ``kn.reshape`` and ``kn.transpose`` become ``kn.view``, which fixes the
    layout of what they look at to row-major where none is written.

    Before::

        %y = kn.softmax %x dim 1 : tensor<4x64xf16> -> tensor<4x64xf16>

    After::

        %0 = kn.reduction %x combine max dim 1 : tensor<4x64xf16> -> tensor<4x1xf32>
        %1 = kn.sub %x, %0 : (tensor<4x64xf16>, tensor<4x1xf32>) -> tensor<4x64xf32>
        %2 = kn.exp %1 : tensor<4x64xf32> -> tensor<4x64xf32>
        %3 = kn.reduction %2 dim 1 : tensor<4x64xf32> -> tensor<4x1xf32>
        %y = kn.div %2, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf16>
    """

    name = "decompose-program"

    kernels: bool = False

    def run(self, function: FuncOp) -> None:
        """Decomposes in a µGraph."""
        decompose_program(function, kernels=self.kernels)
