"""``--online-softmax``: exponentials are computed below a running maximum."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mugraph.dialects.tensor_types import op_label
from mugraph.passes.mugraph.online_softmax.kernel import (
    custom_kernels,
    find_online_softmax,
    is_plain_exponential,
    online_softmax,
)
from mugraph.passes.mugraph.online_softmax.parts import online_softmax_of_parts


@dataclass(frozen=True)
class OnlineSoftmaxPass(ModulePass):
    """Computes exponentials below a running maximum wherever it cancels in all outputs.

    A place is a ``tb.exp`` whose results go through casts, products with other values, left
    operands of ``tb.matmul``, sums over the last dimension and accumulators ``none`` and ``sum``,
    and reach outputs only as quotients in which a factor of each row cancels: every use of the
    exponentials is normalised by sums of them.  Every such place is rewritten, and none twice.
    Where parts of the sums are stored, and one other kernel adds them up tile by tile and
    normalises (``split_k`` of a plan), blocks store their maxima as well, below the largest of
    which the other kernel adds up.  Any other exponential is left as it is, such as one whose sum
    is stored itself, and a note says why (``notes=false`` leaves notes out).  A kernel whose plan
    says ``online_softmax = false`` stays as it is.

    The result is the same function wherever both are defined; where scores are so large that the
    exponentials would overflow, or so small that all of a row would vanish, only the rewritten
    one is.

    Before::

        %e = tb.exp %s : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
        %p = tb.matmul %e, %v : ...
        %o = tb.forloop_accum none %p : ...
        %l = tb.forloop_accum sum %e : ...
        %r = tb.div %o, %l : ...

    After::

        %max, %fall = tb.reduction_max %s dim 1 : ...
        %0 = tb.sub %s, %max : ...
        %rescale = tb.exp %fall : ...
        %e = tb.exp %0 : !tb.stensor<16x64xf32> -> !tb.stensor<16x64xf16>
        %p = tb.matmul %e, %v : ...
        %o = tb.forloop_accum_rescale none %p by %rescale : ...
        %l = tb.forloop_accum_rescale sum %e by %rescale : ...
        %r = tb.div %o, %l : ...
    """

    name = "online-softmax"

    notes: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites in every threadblock graph of the module."""
        for graph in custom_kernels(op):
            online_softmax(graph)
        # Kernels are replaced by others that store, or load, maxima.
        while any(online_softmax_of_parts(graph) for graph in custom_kernels(op)):
            pass
        kept = custom_kernels(op) if self.notes else []
        for graph in kept:
            if graph.decided.online_softmax is False:
                continue
            for exponential in filter(is_plain_exponential, graph.body.block.ops):
                reason = find_online_softmax(exponential, graph)
                sentence = f"{op_label(exponential)} of {op_label(graph)} stays as it is: {reason}"
                print(f"--{self.name}: note: {sentence}", file=sys.stderr)


__all__ = ["OnlineSoftmaxPass"]
