"""That the roles of a kernel come to their ends, as a certificate that stands in the IR.

Every wait of a channel names one iteration and no operator chooses between two, so that whether a
kernel gets stuck does not depend on the order in which its roles run: one run of all iterations
decides it (``docs/hazards.md``).  The certificate says what that run was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64

from mugraph.dialects import sched
from mugraph.dialects.tensor_types import value_label
from mugraph.passes.schedule.analysis.hazards.program import Program
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation

PROGRESS_CERTIFICATE = "sched.progress_certificate"
"""The attribute of a kernel with channels that says how they were used to the end."""


class ChannelProgress(NamedTuple):
    """How often a channel, called ``label`` in the text, was used in a run of all iterations."""

    label: str
    stages: int
    published: int
    consumed: int
    released: int

    def __str__(self) -> str:
        return (
            f"{self.label}, {self.stages} stage{'s' if self.stages > 1 else ''}, is published "
            f"{self.published} times, consumed {self.consumed} times and released {self.released} "
            "times, and every wait ends"
        )

    @property
    def attribute(self) -> DictionaryAttr:
        """The numbers, without the name: names are not kept by what reads the text."""
        numbers = {
            "stages": self.stages,
            "published": self.published,
            "consumed": self.consumed,
            "released": self.released,
        }
        return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in numbers.items()})


class Progress(NamedTuple):
    """A run of a kernel with channels, all iterations of all roles, to the end."""

    channels: tuple[ChannelProgress, ...]
    roles: tuple[tuple[str, int], ...]
    """Their names and warps."""
    iterations: int
    """Of the longest loop of a role, for one block of the grid."""
    steps: int
    """Steps of channels, and of order barriers, that ran, each to its end."""
    blocks: int = 1
    """How many blocks of the grid the block takes, one after the other: the most that one does."""

    def lines(self) -> list[str]:
        """What was seen of each channel, and for how many blocks of the grid."""
        lines = [str(channel) for channel in self.channels]
        if self.blocks > 1:
            lines.append(f"in a block that takes {self.blocks} blocks of the grid, the most of all")
        return lines

    @property
    def certificate(self) -> DictionaryAttr:
        """``{channels, iterations, roles, steps}``, and ``blocks`` where there are several."""
        roles = {role: IntegerAttr(warps, i64) for role, warps in self.roles}
        several = {"blocks": IntegerAttr(self.blocks, i64)} if self.blocks > 1 else {}
        return DictionaryAttr(
            {
                **several,
                "channels": ArrayAttr([channel.attribute for channel in self.channels]),
                "iterations": IntegerAttr(self.iterations, i64),
                "roles": DictionaryAttr(roles),
                "steps": IntegerAttr(self.steps, i64),
            }
        )


def progress_of(program: Program) -> Progress | None:
    """Follows all roles; ``None`` where there are no channels or not all roles end.

    Of persistent blocks one that has the most work tiles, to the end.  Iterations
    that begin in a state of channels that has been before are counted and not followed again.
    """
    if not program.channels:
        return None
    run = Simulation(program, synchronisation_only=True)
    if run.run():
        return None
    counts = run.protocol.ran
    channels = tuple(
        ChannelProgress(
            label,
            channel.stage_count,
            *(
                counts[channel, step]
                for step in (sched.PublishOp, sched.ConsumeOp, sched.ReleaseOp)
            ),
        )
        for label, channel in zip(channel_labels(program.channels), program.channels, strict=True)
    )
    roles = [strand.role for strand in program.strands if strand.role is not None]
    loops = [
        segment.iterations or 0
        for strand in program.strands
        if strand.role is not None
        for segment in strand.segments
    ]
    return Progress(
        channels,
        tuple((role.role.data, role.warp_count) for role in roles),
        max(loops, default=0),
        counts.total(),
        program.lengths[0],
    )


def channel_labels(channels: Sequence[sched.ChannelOp]) -> list[str]:
    """How the channels are called; those of one name are numbered as in the text: ``%ring_1``."""
    seen: Counter[str] = Counter()
    labels: list[str] = []
    for channel in channels:
        label = value_label(channel.result)
        labels.append(f"{label}_{seen[label]}" if seen[label] else label)
        seen[label] += 1
    return labels


def differences(stated: object, found: Progress) -> list[str]:
    """In what a certificate says something else than the run; nothing where it is right."""
    right = found.certificate
    if not isinstance(stated, DictionaryAttr):
        return [f"it is no dictionary such as {right}"]
    names = sorted({*stated.data, *right.data})
    return [
        f"'{name}' is {_text(stated, name)}, and a run of the kernel has {_text(right, name)}"
        for name in names
        if stated.data.get(name) != right.data.get(name)
    ]


def _text(certificate: DictionaryAttr, name: str) -> str:
    value = certificate.data.get(name, StringAttr("nothing"))
    return value.data if isinstance(value, StringAttr) else str(value)
