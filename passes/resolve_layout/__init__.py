"""``--resolve-layout``: every tensor of a µGraph gets a layout.

Analysis, choice and rewrite are :mod:`problem`, :mod:`solve` and :mod:`rewrite`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.passes.resolve_layout.problem import build_layout_problem, is_mugraph
from mugraph.passes.resolve_layout.rewrite import apply_layouts
from mugraph.passes.resolve_layout.solve import UnsatisfiableLayouts, solve_with_z3


def resolve_layout(function: FuncOp) -> None:
    """Resolves the layouts of one function.

    Raises ``PassFailedException`` where given layouts contradict what the operators need.
    """
    problem = build_layout_problem(function)
    try:
        solution = solve_with_z3(problem)
    except UnsatisfiableLayouts as error:
        raise PassFailedException(
            f"--resolve-layout: no layouts of @{function.sym_name.data} meet all requirements, "
            f"because {', and '.join(error.reasons)}; change a layout in the signature"
        ) from error
    apply_layouts(function, problem, solution)


@dataclass(frozen=True)
class ResolveLayoutPass(ModulePass):
    """Gives every DTensor and STensor the layout that makes copies wide and swizzles few.

    Z3 chooses the innermost dimension of each tensor; the strides follow from it, the first
    dimension of extent over 1 padded to 16 bytes.  A layout that a type already has stays, and
    inputs without one are row-major and contiguous; results without one are free.

    The µGraph must not have been scheduled: modules with a ``sched.kernel`` are left as they are,
    and so are functions without ``kn`` operators.  It may be fused or not.  All extents are static.

    Before::

        func.func @f(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
          %y = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
          func.return %y : tensor<6x9xf16>
        }

    After::

        func.func @f(%x: tensor<6x9xf16, #cute.layout<(6,9):(9,1)>>)
            -> tensor<6x9xf16, #cute.layout<(6,9):(16,1)>> {
          %y = kn.exp %x : ...
          func.return %y : tensor<6x9xf16, #cute.layout<(6,9):(16,1)>>
        }
    """

    name = "resolve-layout"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Resolves the layouts of every µGraph of the module."""
        if any(inner.name == "sched.kernel" for inner in op.walk()):
            return
        for function in tuple(op.walk()):
            if isinstance(function, FuncOp) and is_mugraph(function):
                resolve_layout(function)
