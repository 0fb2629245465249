"""The `.te` language: from text to the ``te`` dialect and back.  ``docs/texpr.md`` describes it."""

from mugraph.texpr.build import build_module
from mugraph.texpr.printer import texpr_text
from mugraph.texpr.read import read_operator, read_texpr

__all__ = ["build_module", "read_operator", "read_texpr", "texpr_text"]
