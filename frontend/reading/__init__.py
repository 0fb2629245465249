"""Reading modules: from the text of a file to verified IR, with every installed dialect at hand."""

from mugraph.reading.modules import (
    make_context,
    multiverse,
    parse_sizes,
    parse_text,
    read_module,
    read_te,
    read_text,
    refuse_sizes,
)

__all__ = [
    "make_context",
    "multiverse",
    "parse_sizes",
    "parse_text",
    "read_module",
    "read_te",
    "read_text",
    "refuse_sizes",
]
