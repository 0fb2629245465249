"""Where operations come from: a line of a text or of a Python program, kept through passes.

An operation's place is its ``location``, which xDSL has in every operation, clones, and prints with
``--print-debuginfo``.  What a pass makes in place of an operation, or beside it, inherits its
location through :class:`Rewriter`, or through :func:`inherit_location` where blocks are built
afresh.  What has none of its own is said to be where the operation around it is.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl import rewriter
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import op_label


class SourcePlace(str):
    """``file:line:column``, as a note of an error that says which operation it is about."""


def file_location(file: str, line: int, column: int) -> FileLineColLoc:
    """The location of a place in a text; lines and columns count from 1."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def _in_file(location: Attribute) -> FileLineColLoc | None:
    """The first place in a file that a location names."""
    match location:
        case FileLineColLoc():
            return location
        case NameLoc():
            return _in_file(location.location)
        case CallSiteLoc():
            return _in_file(location.callee)
        case FusedLoc(locations=ArrayAttr() as parts):
            found = (_in_file(part) for part in parts)
            return next(filter(None, found), None)
        case _:
            return None


def location_of(op: Operation | None) -> FileLineColLoc | None:
    """Where an operation comes from, or the nearest operation around it of which that is known."""
    while op is not None:
        location = _in_file(op.location)
        if location is not None:
            return location
        op = op.parent_op()
    return None


def place_of(op: Operation | None) -> SourcePlace | None:
    """:func:`location_of` as ``file:line:column``."""
    location = location_of(op)
    if location is None:
        return None
    return SourcePlace(f"{location.filename.data}:{location.line.data}:{location.column.data}")


def inherit_location(made: Operation | Sequence[Operation], source: Operation) -> None:
    """Gives operations, and those in their regions, a location where they have none."""
    if isinstance(source.location, UnknownLoc):
        return
    for root in (made,) if isinstance(made, Operation) else made:
        for op in root.walk():
            if isinstance(op.location, UnknownLoc):
                op.location = source.location


class Rewriter(rewriter.Rewriter):
    """xDSL's rewriter; new operations inherit the location of what they replace or stand beside."""

    @staticmethod
    def replace_op(
        op: Operation,
        new_ops: Operation | Sequence[Operation],
        new_results: Sequence[SSAValue | None] | None = None,
        safe_erase: bool = True,
    ) -> None:
        """Replaces an operation with others; see xDSL's."""
        inherit_location(new_ops, op)
        rewriter.Rewriter.replace_op(op, new_ops, new_results, safe_erase)

    @staticmethod
    def insert_op(
        op_or_ops: Operation | Sequence[Operation], insertion_point: rewriter.InsertPoint
    ) -> None:
        """Inserts operations in a block; see xDSL's."""
        if insertion_point.insert_before is not None:
            inherit_location(op_or_ops, insertion_point.insert_before)
        rewriter.Rewriter.insert_op(op_or_ops, insertion_point)

    @staticmethod
    def insert_op_after(op_or_ops: Operation | Sequence[Operation], op: Operation) -> None:
        """Inserts operations behind one, from which they come; another may stand behind it."""
        inherit_location(op_or_ops, op)
        rewriter.Rewriter.insert_op(op_or_ops, rewriter.InsertPoint.after(op))


def place_in(error: BaseException) -> SourcePlace | None:
    """The place that an error was reported at, if it was."""
    notes: Sequence[object] = getattr(error, "__notes__", ())
    return next((note for note in notes if isinstance(note, SourcePlace)), None)


def note_place(error: BaseException, op: Operation | None) -> None:
    """Notes the place of the operation that an error is about, unless it has one."""
    place = place_of(op)
    if place is not None and place_in(error) is None:
        error.add_note(place)


@contextmanager
def reported_within(root: Operation) -> Generator[None]:
    """Errors that leave the block get the place of the operation in ``root`` that they are about.

    That is the one that does not verify, or else the first that the message names, by its
    :func:`~mugraph.dialects.tensor_types.op_label`.  An error that has a place keeps it.
    """
    try:
        yield
    except Exception as error:
        if place_in(error) is None:
            message = str(error)
            note_place(error, _invalid_operation(root, message) or _named_operation(root, message))
        raise


def _invalid_operation(root: Operation, message: str) -> Operation | None:
    """The operation of which the verifier says so."""
    for op in root.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            if str(error) == message:
                return op
        except ValueError:  # of values that are erased, in a module that a pass left half done
            continue
    return None


def _named_operation(root: Operation, message: str) -> Operation | None:
    """The operation that a message names first; none where several of that name are apart."""
    found: dict[str, list[Operation]] = {}
    for op in root.walk():
        label = op_label(op)
        if re.search(rf"{re.escape(label)}(?!\w)", message):
            found.setdefault(label, []).append(op)
    if not found:
        return None
    first, *others = found[min(found, key=lambda label: (message.index(label), -len(label)))]
    return first if all(place_of(op) == place_of(first) for op in others) else None
