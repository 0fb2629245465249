"""``--fuse-threadblock``: unary operators become epilogues of the operator before them.

Source: Mirage's document "The CUDA Transpiler", "Threadblock Level Data Reuse"; the rule is that of
its ``src/transpiler/resolve_tb_fusion.cc``, where the two differ.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Operation

from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr
from mugraph.dialects.interfaces import FusesWithProducer, HasEpilogue
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of
from mugraph.passes.each import GraphPass


class Fusion(NamedTuple):
    """``tail`` becomes the last step of the epilogue of ``lead``."""

    lead: HasEpilogue
    tail: FusesWithProducer
    epilogue: Epilogue


def rounds_for_good(tail: Operation) -> bool:
    """Whether fusing would leave out a rounding of the operand that the µGraph means.

    That to 8 bits is what a quantised µGraph is about, and a cast to integers makes whole numbers
    of fractions before they are added up.  Sums of integers are not rounded.
    """
    kept, result = (element_type_of(value.type) for value in (tail.operands[0], tail.results[0]))
    if is_integer(kept):
        lead = tail.operands[0].owner
        assert isinstance(lead, Operation)  # the caller has found it
        made_of = [element_type_of(value.type) for value in lead.operands]
        return kept != result or not all(is_integer(type_) for type_ in made_of)
    return element_bytes_of(tail.operands[0].type) == 1


def find_fusion(tail: Operation) -> Fusion | None:
    """The fusion of an operator with the producer of its operand, where the rule allows it.

    The producer must have no other consumer, must be able to lead a chain (inputs and reducing
    accumulators cannot), and must not accumulate itself: what follows an accumulation runs after
    the loop, its steps before it.  A value of 8 bits is always rounded to them.
    """
    if not isinstance(tail, FusesWithProducer):
        return None
    lead = tail.operands[0].owner
    if not isinstance(lead, HasEpilogue):
        return None
    epilogue = _fused_epilogue(tail, epilogue_of(lead))
    return None if epilogue is None else Fusion(lead, tail, epilogue)


def _fused_epilogue(tail: FusesWithProducer, epilogue: Epilogue) -> Epilogue | None:
    """``epilogue`` of the producer of an operator's operand, followed by the operator."""
    if not tail.operands[0].has_one_use() or epilogue.accumulates or rounds_for_good(tail):
        return None
    return tail.fused_onto(epilogue)


def fused_chain(lead: HasEpilogue) -> tuple[Epilogue, Operation | None]:
    """Analysis: the epilogue that an operator gets, and what alone uses its result then."""
    epilogue, value = epilogue_of(lead), lead.results[0]
    while value.has_one_use():
        (use,) = value.uses
        user, longer = use.operation, None
        if isinstance(user, FusesWithProducer) and use.index == 0:
            longer = _fused_epilogue(user, epilogue)
        if longer is None:
            return epilogue, user
        epilogue, value = longer, user.results[0]
    return epilogue, None


def apply_fusion(fusion: Fusion) -> None:
    """Moves the tail into the lead's epilogue; the lead takes over the tail's result."""
    lead, tail = fusion.lead, fusion.tail
    lead.epilogue = EpilogueAttr(fusion.epilogue)
    result = Rewriter.replace_value_with_new_type(lead.results[0], tail.results[0].type)
    result.name_hint = tail.results[0].name_hint or result.name_hint
    tail.results[0].replace_all_uses_with(result)
    Rewriter.erase_op(tail)


def fuse_threadblock(graph: CustomizedOp) -> None:
    """Fuses every unary operator and every plain accumulator of a threadblock graph it can."""
    for op in tuple(graph.body.block.ops):
        fusion = find_fusion(op)
        if fusion is not None:
            apply_fusion(fusion)


class FuseThreadblockPass(GraphPass):
    """Makes unary operators and plain accumulators epilogues of the operator before them.

    A chain is a leading operator and the steps of its epilogue; a binary operator may lead one
    but is never fused into one.  The values between the steps are no longer rounded to their
    storage type; where that has 8 bits, the operator stays as it is.  A ``tb.cast`` becomes the
    type of the result.

    Before::

        %m = tb.matmul %a, %b : ...
        %e = tb.exp %m : ...
        %s = tb.forloop_accum none %e : ...

    After::

        %s = tb.matmul %a, %b then [exp, accum] : ...
    """

    name = "fuse-threadblock"

    def run(self, graph: CustomizedOp) -> None:
        """Fuses in a threadblock graph."""
        fuse_threadblock(graph)
