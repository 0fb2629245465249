"""The kernel-graph dialect: whole-GPU kernels on DTensors, in ordinary functions.

DTensors are builtin tensors with a ``#cute.layout`` as encoding, so that ``func.func`` and any
xDSL pipeline can hold them.  Arguments and results of the function are the µGraph's inputs and
outputs; a layout written in the signature is the user's and stays.
"""

from mugraph.dialects.definition import dialect_of
from mugraph.dialects.kn.collective import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    CollectiveOp,
    CombiningOp,
    ReduceScatterOp,
    bytes_sent,
)
from mugraph.dialects.kn.composite import CompositeOp
from mugraph.dialects.kn.compute import (
    BINARY_OPERATORS,
    ELEMENTWISE_OPERATORS,
    UNARY_OPERATORS,
    BinaryOp,
    CastOp,
    Computation,
    ComputationAttr,
    ElementwiseOp,
    MatmulOp,
)
from mugraph.dialects.kn.constants import Constants, constants_behind, may_be_empty
from mugraph.dialects.kn.customized import CERTIFICATE, CustomizedOp
from mugraph.dialects.kn.extent import ExtentOp
from mugraph.dialects.kn.gather import GatherOp, count_of_rows, must_be_distinct
from mugraph.dialects.kn.groups import GroupTilesOp, InvertPlacesOp, SortGroupsOp
from mugraph.dialects.kn.kernel import KernelOp, MovesElements
from mugraph.dialects.kn.mask import MaskOp
from mugraph.dialects.kn.matmul_add import MatmulAddOp
from mugraph.dialects.kn.norm import LayerNormOp, RmsNormOp
from mugraph.dialects.kn.peer import AllSliceOp, PeerOp
from mugraph.dialects.kn.phases import (
    Phase,
    accumulates,
    loop_invariant_tiles,
    phases_of,
    running_maxima,
    used_after_the_loop,
)
from mugraph.dialects.kn.random import Distribution, DistributionAttr, RandomOp
from mugraph.dialects.kn.rearrange import ChunkOp, ConcatOp, CopyOp, PartsOp, SliceOp, SplitOp
from mugraph.dialects.kn.recurrence import RecurrenceOp
from mugraph.dialects.kn.reduce import ArgMaxOp, ReductionOp, RunOperator
from mugraph.dialects.kn.reshape import (
    BroadcastOp,
    RegroupOp,
    ReshapeOp,
    TransposeOp,
    have_same_places,
    is_reshape,
    lay_out,
    lay_out_row_major,
    may_be_row_major,
    regrouped,
)
from mugraph.dialects.kn.rotary import RotaryOp
from mugraph.dialects.kn.row_windows import RowWindowsOp
from mugraph.dialects.kn.scan import ScanOp
from mugraph.dialects.kn.scatter import ScatterOp
from mugraph.dialects.kn.statistics import LogSumExpOp, MeanOp, SoftmaxOp, VarianceOp
from mugraph.dialects.kn.top_k import TopKOp
from mugraph.dialects.kn.view import ViewOp
from mugraph.dialects.kn.windows import WindowsOp
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE
from mugraph.dialects.plan import PlanAttr
from mugraph.dialects.sharding import ShardingAttr

COMPOSITE_OPERATORS: tuple[type[CompositeOp], ...] = (
    MeanOp,
    VarianceOp,
    SoftmaxOp,
    LogSumExpOp,
    RmsNormOp,
    LayerNormOp,
    RotaryOp,
    ReshapeOp,
    TransposeOp,
    BroadcastOp,
    RowWindowsOp,
    RecurrenceOp,
    MatmulAddOp,
)
"""Operators that are made of others."""

Kn = dialect_of("kn", vars())

__all__ = [
    "BINARY_OPERATORS",
    "CERTIFICATE",
    "COMPOSITE_OPERATORS",
    "ELEMENTWISE_OPERATORS",
    "NOT_IN_WORKSPACE",
    "UNARY_OPERATORS",
    "AllGatherOp",
    "AllReduceOp",
    "AllSliceOp",
    "AllToAllOp",
    "ArgMaxOp",
    "BinaryOp",
    "BroadcastOp",
    "CastOp",
    "ChunkOp",
    "CollectiveOp",
    "CombiningOp",
    "CompositeOp",
    "Computation",
    "ComputationAttr",
    "ConcatOp",
    "Constants",
    "CopyOp",
    "CustomizedOp",
    "Distribution",
    "DistributionAttr",
    "ElementwiseOp",
    "ExtentOp",
    "GatherOp",
    "GroupTilesOp",
    "InvertPlacesOp",
    "KernelOp",
    "Kn",
    "LayerNormOp",
    "LogSumExpOp",
    "MaskOp",
    "MatmulAddOp",
    "MatmulOp",
    "MeanOp",
    "MovesElements",
    "PartsOp",
    "PeerOp",
    "Phase",
    "PlanAttr",
    "RandomOp",
    "RecurrenceOp",
    "ReduceScatterOp",
    "ReductionOp",
    "RegroupOp",
    "ReshapeOp",
    "RmsNormOp",
    "RotaryOp",
    "RowWindowsOp",
    "RunOperator",
    "ScanOp",
    "ScatterOp",
    "ShardingAttr",
    "SliceOp",
    "SoftmaxOp",
    "SortGroupsOp",
    "SplitOp",
    "TopKOp",
    "TransposeOp",
    "VarianceOp",
    "ViewOp",
    "WindowsOp",
    "accumulates",
    "bytes_sent",
    "constants_behind",
    "count_of_rows",
    "have_same_places",
    "is_reshape",
    "lay_out",
    "lay_out_row_major",
    "loop_invariant_tiles",
    "may_be_empty",
    "may_be_row_major",
    "must_be_distinct",
    "phases_of",
    "regrouped",
    "running_maxima",
    "used_after_the_loop",
]
