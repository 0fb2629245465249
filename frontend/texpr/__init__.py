"""The `.te` language: from text to the ``te`` dialect and back.  ``docs/texpr.md`` describes it."""

from typing import TYPE_CHECKING

from mugraph.when_used import imported_when_used

if TYPE_CHECKING:
    from mugraph.texpr.build import build_module
    from mugraph.texpr.printer import texpr_text
    from mugraph.texpr.read import read_operator, read_texpr

__all__ = ["build_module", "read_operator", "read_texpr", "texpr_text"]

__getattr__ = imported_when_used(
    __name__,
    {
        "build_module": "build",
        "read_operator": "read",
        "read_texpr": "read",
        "texpr_text": "printer",
    },
)
