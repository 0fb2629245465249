"""The dialects' own checks, reported at the place in the file where the operator comes from."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from mugraph.tools.import_mirage.document import MirageImportError, Node


def verify_at(op: Operation, operator: Node) -> None:
    """Verify ``op`` without what is in its regions; an error becomes ``MirageImportError``."""
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as error:
        raise MirageImportError(f"{operator.place}: {error}.") from error
