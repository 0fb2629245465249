"""``--te-prefetch``: loops load what later iterations read while they compute."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.passes.each import TexprKernelPass
from mugraph.passes.texpr.te_prefetch.copies import find_prefetch, prefetch


def loops_to_prefetch(kernel: te.KernelOp) -> list[tuple[te.SeqOp, int]]:
    """The loops of a block's program whose loads are asked to begin earlier, and how much."""
    return [
        (op, op.ahead)
        for op in kernel.threads.walk()
        if isinstance(op, te.SeqOp) and op.ahead is not None
    ]


@dataclass(frozen=True)
class TePrefetchPass(TexprKernelPass):
    """Loads what iterations of a loop read from device memory some iterations ahead.

    For loops with ``prefetch n`` (``#prefetch(n)`` in a ``.te`` text): the steps of an iteration
    that only copy from device memory into shared buffers made in the loop become asynchronous
    copies for the iteration n later.  There are n + 1 buffers in the place of each, used in turn;
    the first n iterations' copies begin before the loop.  The copies of an iteration are a group,
    and each iteration waits until its own has landed.  ``--te-sync`` puts the barriers, and checks
    that what is read has landed.  Pre-condition: ``--te-map``, before ``--te-promote``.

    With ``fragments``, and n of at least 2: where the rest of the loop is one step, of an even
    number of parts that first load registers from the buffers, and then compute with them, the
    registers are loaded one part early, those of the first part in the iteration before.  Copies
    then begin behind the last loads of an iteration, and n buffers are enough.

    Before::

        te.seq %k = 128 prefetch 3 {
          %t = te.new : !te.buffer<256xf16, shared>
          te.step "load" { ... te.bind %0, %t[%thread] ... }
          te.step "use" { ... te.view %t[%thread] ... }
        }

    After::

        %t = te.new : !te.buffer<4x256xf16, shared>
        te.seq %k_ahead = 3 {
          te.step "load" { te.copy_async 1, %a[...] to %t[%k_ahead mod 4, %thread] }
          te.commit
        }
        te.seq %k = 128 {
          te.wait 2
          te.if 124 - %k >= 0 {
            te.step "load" { ... te.copy_async ... }
          }
          te.commit
          te.step "use" { ... te.view %t[%k mod 4, %thread] ... }
        }
        te.wait 0

    The loop with ``fragments``::

        te.step "use" { parts 0 to m - 2, each behind the loads of the part after it }
        te.wait 1
        te.if ... { te.step "load" { ... } }
        te.commit
        te.step "use" { loads of part 0 of the next iteration; part m - 1 }
    """

    name = "te-prefetch"

    fragments: bool = True

    def run(self, kernel: te.KernelOp) -> None:
        """Prefetches in the loops of a kernel."""
        for loop, ahead in loops_to_prefetch(kernel):
            found = find_prefetch(loop, kernel)
            if not found.fills:
                raise PassFailedException(
                    "--te-prefetch: the loop over "
                    f"{loop.variable.name_hint or 'i'} has #prefetch({ahead}), but no "
                    "parallel loop in it that only copies a buffer which the kernel does "
                    "not write into one that is made in it with 'new ... #shared'"
                )
            loop.prefetch = None
            if loop.iterations > 1:
                prefetch(found, ahead, fragments=self.fragments)
