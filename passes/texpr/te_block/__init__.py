"""A tensor expression as a program of one block: a list of parallel bands, one after another.

The operators that users write (``tb.custom``) become steps of a schedule by it: each band is dealt
to the threads of the block by the mappings of ``--te-map``, and barriers stand between steps where
the accesses of their threads need them, as between any two operators of a schedule.
"""

from mugraph.passes.texpr.te_block.distribute import Reduction
from mugraph.passes.texpr.te_block.program import Program, block_program
from mugraph.passes.texpr.te_block.steps import Step, choose_mapping, lay_out, make_step, spaces_of

__all__ = [
    "Program",
    "Reduction",
    "Step",
    "block_program",
    "choose_mapping",
    "lay_out",
    "make_step",
    "spaces_of",
]
