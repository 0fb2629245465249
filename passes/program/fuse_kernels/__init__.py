"""``--fuse-kernels``: operators of a program share kernels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects.functions import mugraphs_in
from mugraph.dialects.named_extents import buckets_of, is_smaller_bucket
from mugraph.passes.each import TargetPass
from mugraph.passes.program.fuse_kernels.choice import Found, prepare_program
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.pages import walk_along_pages
from mugraph.passes.program.fuse_kernels.refused import Refusal, without_refused
from mugraph.passes.program.fuse_kernels.rows import read_rows_in_place
from mugraph.passes.program.fuse_kernels.searches import Searches
from mugraph.passes.targets import Target


def fuse_program(function: FuncOp, target: Target) -> Fusion:
    """Makes custom kernels of the operators of a function; returns what was tried."""
    return fuse_buckets([function], target)[0]


def fuse_buckets(
    buckets: Sequence[FuncOp],
    target: Target,
    *,
    certificates: bool = False,
    refusal: Refusal | None = None,
    searches: Searches | None = None,
) -> list[Fusion]:
    """The same in all buckets of a program, small ones first.

    Operators of a kernel that there is a ``refusal`` of stand apart; a note on stderr names them.
    What is in ``searches`` is not searched for again.
    """
    found = (searches or Searches()).find(buckets, target, certificates=certificates)
    for own in found:
        if refusal is not None:
            own, sentences = without_refused(own, refusal)
            for sentence in sentences:
                print(f"--fuse-kernels: note: {sentence}", file=sys.stderr)
        finish(own, target, certificates=certificates)
    return [own.fusion for own in found]


def finish(found: Found, target: Target, *, certificates: bool = False) -> None:
    """Makes the kernels that were found for a function."""
    found.fusion.apply(found.groups)
    if not certificates:
        walk_along_pages(found.fusion.function)
        read_rows_in_place(found.fusion.function, target)


@dataclass(frozen=True)
class FuseKernelsPass(TargetPass):
    """Makes custom kernels of the operators of a program.

    Which operators share a kernel is chosen by the estimated time of the whole program on ``arch``:
    launches, bytes, and repeated computation. A kernel's grid cuts indices that all its results
    have; its loop goes along one index of a sum. Algebra moves what exists only after the loop out
    of its sums: factors and quotients that do not depend on the index, sums of terms, and
    exponentials below a maximum, which becomes a running maximum. Operators that share no kernel
    stay unchanged. ``--plan`` cuts the kernels later.

    With ``certificates`` each kernel keeps the operators that it was found for, as text in
    ``kn.certificate``; ``mg-check --certificates`` compares it with them.

    Before::

        %s = kn.matmul %q, %k : ...
        %p = kn.softmax %s dim 2 : ...
        %o = kn.matmul %p, %v : ...

    After::

        %o = kn.customized %q, %k, %v grid [2, 4, 1] block [128, 1, 1] forloop 64 {
          ...
          %s = tb.matmul %q_tile, %k_tile : ...
          %max, %fall = tb.reduction_max %s dim 2 : ...
          %below = tb.sub %s, %max : ...
          %e = tb.exp %below : ...
          %sum = tb.forloop_accum_rescale sum %e by %rescale : ...
    """

    name = "fuse-kernels"

    certificates: bool = False

    def refusal(self, ctx: Context) -> Refusal | None:
        """What says of a kernel that it does not compile, where that is asked."""
        return None

    def known(self) -> Searches:
        """What has been found of programs before."""
        return Searches()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuses in every µGraph of the module."""
        target, refusal, searches = self.target, self.refusal(ctx), self.known()
        for function in mugraphs_in(op):
            if not is_smaller_bucket(function):
                buckets = buckets_of(op, function)
                fuse_buckets(
                    buckets,
                    target,
                    certificates=self.certificates,
                    refusal=refusal,
                    searches=searches,
                )


__all__ = ["FuseKernelsPass", "finish", "fuse_buckets", "fuse_program", "prepare_program"]
