"""Whether the last of some blocks reads only what these have written, and counts alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.clusters import elements_of
from mugraph.passes.schedule.analysis.hazards.tasks import find_misplaced_counters


def read_of_others(producer: sched.LaunchOp, consumer: sched.LaunchOp) -> SSAValue | None:
    """The first tensor of which a block reads more than the blocks wrote that it is the last of.

    Those of block i are blocks i, i + c, i + 2 c... of the producer, if the consumer has c blocks.
    Other blocks may not have ended, or not even begun.
    """
    writer, reader, blocks = producer.resolve(), consumer.resolve(), consumer.task_count()
    for output, index in consumer.consumed(producer):
        written = elements_of(writer.body.block.args[output], writer)
        read = elements_of(reader.body.block.args[index], reader)
        if written is None or read is None:
            return consumer.arguments[index]
        for block in range(blocks):
            if not np.isin(read[block], written[block::blocks]).all():
                return consumer.arguments[index]
    return None


def find_last_block_hazards(function: FuncOp) -> Iterator[Finding]:
    """Each kernel in last blocks that reads what others write, or whose counters are not its own.

    Nobody waits for a counter, so that none waits for ever.
    """
    for launch in launches_of(function.walk()):
        counted: sched.LaunchOp | None = None
        for op in launch:
            if not isinstance(op, sched.LaunchOp) or op.last is None:
                continue
            producer, size = op.prev_op, op.last.value.data
            assert isinstance(producer, sched.LaunchOp)  # as verified
            value = read_of_others(producer, op)
            if value is not None:
                message = (
                    f"{op_label(op)} reads parts of {value_label(value)} that the {size} blocks "
                    "that it runs in the last of do not write"
                )
                yield Finding(HazardKind.READ_AFTER_WRITE, (op, producer), message)
            counters = op.counter_bytes
            if counters is None or counted is not None:
                what = "has no counters" if counters is None else "shares its counters"
                message = f"{op_label(op)}, which runs in last blocks, {what}"
                yield Finding(HazardKind.PROTOCOL, (op, counted or producer), message)
                continue
            counted = op
            yield from find_misplaced_counters(function, op, counters, op_label(op))
