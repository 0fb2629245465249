"""``--te-map``: parallel loops become kernels, blocks and threads."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.passes.each import TargetPass
from mugraph.passes.texpr.te_check_mapping import prove_mappings
from mugraph.passes.texpr.te_map.apply_mappings import map_function

__all__ = ["TeMapPass", "map_function"]


@dataclass(frozen=True)
class TeMapPass(TargetPass):
    """Makes kernels of the parallel loops of ``te`` functions, and deals iterations to threads.

    Loops at level grid, and loops around others that have no level, run over blocks; a band of
    loops without a level that holds no others is dealt to blocks and threads; all other bands are
    dealt to the threads of a block.  A ``fully`` parallel loop has consecutive threads.  How a band
    is dealt, and how shared buffers are swizzled, is what takes the fewest sectors of device memory
    and wavefronts of shared memory among all digit permutations (``docs/texpr.md``); among equal
    ones the fewest instructions, then digits.  Where threads would then exchange elements of a
    buffer of no space, it is in shared memory, and it is chosen again.

    Bands become ``te.step``; a reduction into a number of the block becomes one of each thread and
    ``te.all_reduce``.  What stands outside bands all threads do, or one, where it writes memory.
    ``threads`` is the size of a block, 0 to choose it.  Calls are inlined.  ``te.iteration`` states
    which iteration runs where; that each runs exactly once is proved as by ``--te-check-mapping``,
    unless ``prove=false``.

    Before::

        te.par %i = 4096 {
          %0 = te.view %a[%i] : !te.buffer<4096xf32>
          te.bind %0, %b[%i] : !te.buffer<4096xf32>
        }

    After::

        te.kernel "copy" %block = 16 {
          te.threads %thread = 256 {
            te.step "par 4096 i" {
              %i = te.apply %thread + %block * 256
              te.iteration [%i] of [4096] grid
              %0 = te.view %a[%i] : !te.buffer<4096xf32>
              te.bind %0, %b[%i] : !te.buffer<4096xf32>
            }
          }
        }
    """

    name = "te-map"

    threads: int = 0
    prove: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Maps every function of the module that others do not call."""
        target = self.target
        if not 0 <= self.threads <= te.MAX_THREADS:
            raise PassFailedException(
                f"--te-map: threads is the size of a block, 1 to {te.MAX_THREADS}, or 0 to choose "
                f"it; not {self.threads}"
            )
        functions = [one for one in op.ops if isinstance(one, FuncOp) and te.is_texpr(one)]
        for function in functions:
            if function.sym_visibility is None:
                map_function(function, target, self.threads)
        for function in functions:
            if function.sym_visibility is not None:
                Rewriter.erase_op(function)
        if self.prove:
            prove_mappings(op, self.name)
