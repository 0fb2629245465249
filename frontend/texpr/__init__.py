"""The `.te` language: from text to the ``te`` dialect and back.  ``docs/texpr.md`` describes it."""

from mugraph.texpr.build import build_module

__all__ = ["build_module"]
