"""Plans: what the compiler may choose for a kernel, and what has been chosen.

``#kn.plan<loads = tma, stages = [2, 3]>`` on a kernel holds the parts of its plan that are decided.
A part that is not written is free: ``--plan`` fills it, or the pass that applies it does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Tiles = Literal["written"]
Loads = Literal["tma", "cp_async"]
Stores = Literal["tma", "threads"]
LaunchNext = Literal["none", "early", "late", "end"]
PartialSums = Literal["f32", "f16"]

AnyPlan = TypeVar("AnyPlan", bound="Plan")

Part = str | int | bool | tuple[int, ...] | tuple[str, ...]
"""The value of one part."""


@dataclass(frozen=True)
class Plan:
    """The parts of a plan; ``None`` where a part is free.

    Every field is an option of ``--plan`` of the same name, too.
    """

    tiles: Tiles | None = None
    """``written`` keeps the grid, the for-loop and the block that the µGraph has."""
    merge: bool | None = None
    """Whether it becomes one kernel with the one that adds up what its blocks have stored."""
    inline: bool | None = None
    """Whether it computes tiles of a ``kn.matmul`` that it loads, where nothing else uses them."""
    outline: bool | None = None
    """Whether what several blocks compute alike, such as a norm, gets a kernel of its own."""
    grid: tuple[int, ...] | None = None
    """Blocks along x, y and z."""
    along: tuple[int, ...] | None = None
    """For each axis of the grid, the dimension of the first result that it cuts; -1 as it is."""
    forloop: int | None = None
    """Iterations of the for-loop, those of all blocks that share it."""
    tile: tuple[int, ...] | None = None
    """Elements of a tile along each dimension of the first result; 0 where they divide it evenly.

    The last tiles are smaller where a tensor ends.  ``grid`` follows from it where it is free.
    """
    loop_tile: int | None = None
    """Elements of a tile along what the for-loop cuts; ``forloop`` follows from it."""
    block: tuple[int, ...] | None = None
    """Threads of a block, without those of the producer."""
    split_k: int | None = None
    """Over how many blocks the for-loop is divided; a second kernel adds up their sums.

    1 only keeps it from being divided: how the kernel is cut stays free.
    """
    partial_sums: PartialSums | None = None
    """The type in which the blocks of a divided for-loop store their sums; ``f32`` where free."""
    online_softmax: bool | None = None
    """Whether exponentials that are normalised keep a running maximum."""
    loads: Loads | None = None
    """Who loads in the loop: a producer warp by ``tma``, or all threads by ``cp_async``."""
    stages: tuple[int, ...] | None = None
    """Stages of the rings, or of all tiles of the loop; the last one counts for the others."""
    swap_ab: bool | None = None
    """Whether products with few rows are those of the transposed matrices, by warp groups."""
    promote: bool | None = None
    """Whether sums of each iteration that an instruction adds with few bits are added up in f32."""
    persistent: bool | None = None
    """Whether as many blocks as run at once take several work tiles each."""
    ping_pong: int | None = None
    """How many ping-pong consumers share the work tiles of a persistent block."""
    stores: Stores | None = None
    """Whether results leave by ``tma``, through shared memory, or are written by ``threads``."""
    clusters: bool | None = None
    """Whether blocks that compute parts of rows are clusters, of which each block goes on with its
    own part of the rows, in the same launch.

    Written on the kernel that goes on, which has as many blocks.
    """
    pdl: LaunchNext | None = None
    """When the next kernel of the stream may start; ``none`` leaves out the dependent launch."""
    tasks: bool | None = None
    """Whether its blocks are tasks of one persistent kernel, with those of launches around it."""
    preferred: tuple[str, ...] | None = None
    """The parts without which a kernel may be left; it must have each other part that is said."""

    def __post_init__(self) -> None:
        """A list is taken for a tuple, as plans are written with brackets in the text."""
        for name in (field.name for field in fields(self)):
            part: Any = getattr(self, name)
            if isinstance(part, list):
                object.__setattr__(self, name, tuple(cast(list[Any], part)))

    def requires(self, part: str) -> bool:
        """Whether a part is decided and the kernel must have it."""
        return part in self.parts() and part not in (self.preferred or ())

    def parts(self) -> dict[str, Part]:
        """The parts that are decided, by name, in the order of the fields."""
        named = {field.name: getattr(self, field.name) for field in fields(Plan)}
        return {name: part for name, part in named.items() if part is not None}

    def text_of(self, part: str) -> str:
        """A decided part as it is written: ``stages = [2, 3]``."""
        return f"{part} = {_written(self.parts()[part])}"

    def demands(self) -> dict[str, Part]:
        """The decided parts that a kernel does not have where nothing is done for them."""
        return (self.without("split_k") if self.split_k == 1 else self).parts()

    def cuts(self) -> tuple[str, ...]:
        """The names of the decided parts that say how the kernel is cut into blocks and tiles."""
        return tuple(name for name in TILE_PARTS if name in self.demands())

    def regroups(self) -> bool:
        """Whether a decided part moves operators from one kernel to another."""
        return bool(self.merge or self.inline or self.outline)

    def needs_producer(self) -> bool:
        """Whether a decided part can only be where a producer loads."""
        return bool(self.swap_ab or self.persistent or (self.ping_pong or 1) > 1)

    def over(self, other: AnyPlan) -> AnyPlan:
        """This plan, with what it leaves free as in another, whose type the result has."""
        parts: dict[str, Any] = dict(self.parts())
        taken = tuple(name for name in other.preferred or () if name not in parts)
        parts["preferred"] = (*(self.preferred or ()), *taken) or None
        return replace(other, **parts)

    def without(self, *names: str) -> Plan:
        """The same with some parts free."""
        free: dict[str, Any] = dict.fromkeys(names)
        preferred = tuple(name for name in self.preferred or () if name not in names)
        return replace(self, **free | {"preferred": preferred or None})


KERNEL_PARTS = ("merge", "inline", "outline")
"""The parts that say which operators its kernel has; they are gone once ``--retile`` did so."""
TILE_PARTS = (
    "grid",
    "along",
    "forloop",
    "tile",
    "loop_tile",
    "block",
    "split_k",
    "partial_sums",
)
"""The parts that say how a kernel is cut; they are gone once ``--retile`` has cut it so."""

_KINDS: dict[str, Any] = {name: get_args(kind)[0] for name, kind in get_type_hints(Plan).items()}
"""What each part is: a ``Literal`` of words, ``bool``, ``int``, or a tuple."""


def problem_of(plan: Plan) -> str | None:
    """What is wrong with a plan by itself, as a sentence; ``None`` where nothing is."""
    parts = plan.parts()
    for name, part in parts.items():
        kind = _KINDS[name]
        if get_origin(kind) is tuple:
            if not isinstance(part, tuple):
                return f"{name} = {part} must be a list, as {name} = [{part}]"
            unlike = [each for each in part if type(each) is not get_args(kind)[0]]
            if unlike:
                expected = "integers" if get_args(kind)[0] is int else "names of parts"
                return f"{plan.text_of(name)} has {unlike[0]!r}; expected {expected}"
        elif get_origin(kind) is Literal:
            if part not in get_args(kind):
                known = ", ".join(get_args(kind))
                return f"{name} = {part} is unknown; expected one of {known}"
        elif kind is bool:
            if not isinstance(part, bool):
                return f"{name} = {part} is no truth value; write true or false"
        elif not isinstance(part, int) or isinstance(part, bool):
            return f"{name} = {part} must be an integer"
        elif part < 1:
            return f"{name} = {part} must be at least 1"
    for name, extents in (("grid", plan.grid), ("block", plan.block)):
        if extents is not None and (not 1 <= len(extents) <= 3 or min(extents) < 1):
            return f"{plan.text_of(name)} must be one to three extents of at least 1"
    if plan.along is not None and (len(plan.along) > 3 or min(plan.along, default=0) < -1):
        return f"{plan.text_of('along')} must name a dimension, or -1, for up to three axes"
    if plan.tile is not None and min(plan.tile, default=0) < 0:
        return f"{plan.text_of('tile')} must have an extent, or 0, for each dimension"
    if plan.stages is not None and min(plan.stages, default=0) < 1:
        return f"{plan.text_of('stages')} cannot be; write numbers of at least 1"
    free = [name for name in plan.preferred or () if name not in parts]
    if free:
        return f"{plan.text_of('preferred')}: the plan leaves {free[0]} free"
    return None


@irdl_attr_definition
class PlanAttr(Data[Plan]):
    """What is decided for a kernel: ``#kn.plan<forloop = 32, loads = tma, stages = [2, 3]>``."""

    name = "kn.plan"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Plan:
        """Parses the part in angle brackets."""
        known = list(_KINDS)
        found: dict[str, Any] = {}

        def integer() -> int:
            return parser.parse_integer(allow_boolean=False)

        def parse_part() -> None:
            position = parser.pos
            name = parser.parse_identifier()
            if name in found:
                parser.raise_error(f"{name} is written twice; leave one out", position)
            if name not in known:
                parts = ", ".join(known)
                parser.raise_error(f"{name} is no part of a plan; it has {parts}", position)
            parser.parse_punctuation("=")
            kind = _KINDS[name]
            if get_origin(kind) is tuple:
                parse = integer if get_args(kind)[0] is int else parser.parse_identifier
                if parser.lexer.input.at(parser.pos) != "[":
                    parser.raise_error(f"{name} is a list: expected {name} = [...]")
                found[name] = tuple(
                    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse)
                )
            elif get_origin(kind) is Literal:
                found[name] = parser.parse_identifier()
            else:
                found[name] = parser.parse_boolean() if kind is bool else integer()

        position = parser.pos
        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_part)
        plan = Plan(**found)
        problem = problem_of(plan)
        if problem is not None:
            parser.raise_error(f"#kn.plan: {problem}", position, parser.pos)
        return plan

    def print_parameter(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            printer.print_string(", ".join(self.data.text_of(part) for part in self.data.parts()))


def plan_attribute(plan: Plan | None) -> PlanAttr | None:
    """The attribute of a plan; ``None`` where all of it is free."""
    return PlanAttr(plan) if plan is not None and plan.parts() else None


def _written(part: Part) -> str:
    if isinstance(part, bool):
        return "true" if part else "false"
    return f"[{', '.join(map(str, part))}]" if isinstance(part, tuple) else str(part)
