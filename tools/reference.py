"""Reference pages of the dialects and passes, generated from their docstrings.

``python -m mugraph.tools.reference docs`` writes ``docs/dialects/*.md`` and ``docs/passes.md``; a
test checks that they are what is generated.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass

from mugraph.passes.options import options_in_words
from mugraph.tools.universe import DIALECTS, PASSES


def _load(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _docstring(value: object) -> str:
    """The docstring in Markdown: RST's double backquotes become single ones, ``::`` a block."""
    text = re.sub(r":\w+:`", "`", (inspect.getdoc(value) or "").replace("``", "`"))
    lines: list[str] = []
    in_block = False
    for line in text.splitlines():
        if in_block and line and not line.startswith(" "):
            lines += ["```", ""]
            in_block = False
        if line.endswith("::"):
            lines += [line[:-1], "", "```mlir"]
            in_block = True
        elif not (in_block and not line):
            lines.append(line.removeprefix("    ") if in_block else line)
    if in_block:
        lines.append("```")
    return "\n".join(lines)


def _assembly(operation: type[Operation]) -> str:
    """The assembly format as one reads it: names of operands and attributes without quotes."""
    format_ = getattr(operation, "assembly_format", None)
    return "" if format_ is None else f"{operation.name} {format_}".replace("`", "")


def _operation(operation: type[Operation]) -> Iterator[str]:
    yield f"### `{operation.name}`"
    yield ""
    yield _docstring(operation)
    yield ""
    assembly = _assembly(operation)
    if assembly:
        yield from ["```", assembly, "```", ""]
    if issubclass(operation, IRDLOperation):
        definition = operation.get_irdl_definition()
        parts = {
            "operands": [name for name, _ in definition.operands],
            "properties": [*definition.properties],
            "results": [name for name, _ in definition.results],
            "regions": [name for name, _ in definition.regions],
        }
        for kind, names in parts.items():
            if names:
                yield f"- {kind}: " + ", ".join(f"`{name}`" for name in names)
        yield ""


def _attribute(attribute: type[Attribute]) -> Iterator[str]:
    sigil = "!" if issubclass(attribute, TypeAttribute) else "#"
    yield f"### `{sigil}{attribute.name}`"
    yield ""
    yield _docstring(attribute)
    yield ""


def dialect_page(dialect: Dialect) -> str:
    """The reference page of a dialect."""
    first = next(iter([*dialect.operations, *dialect.attributes]))
    module = import_module(first.__module__)
    package = import_module(module.__name__.rpartition(".")[0])
    lines = [f"# The `{dialect.name}` dialect", "", _docstring(package), ""]
    attributes = [*dialect.attributes]
    if attributes:
        lines += ["## Types and attributes", ""]
        for attribute in attributes:
            lines += _attribute(attribute)
    if [*dialect.operations]:
        lines += ["## Operators", ""]
        for operation in dialect.operations:
            lines += _operation(operation)
    return "\n".join(lines).rstrip() + "\n"


def passes_page() -> str:
    """The reference page of the passes, in the order of ``--transpile``."""
    lines = ["# The passes", ""]
    for name, place in PASSES.items():
        pass_ = _load(place)
        if not (isinstance(pass_, type) and issubclass(pass_, ModulePass)):
            raise TypeError(f"{place} is not a pass")
        lines += [f"## `--{name}`", "", _docstring(pass_), ""]
        options = options_in_words(pass_)
        lines += [f"- option `{option}`: {values}" for option, values in options]
        if options:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[str, str]:
    """Every generated page by its path below ``docs``."""
    result: dict[str, str] = {}
    for name, place in DIALECTS.items():
        dialect = _load(place)
        if isinstance(dialect, Dialect):
            result[f"dialects/{name}.md"] = dialect_page(dialect)
    result["passes.md"] = passes_page()
    return result


def main() -> int:
    """Writes the pages below the folder given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"), help="(docs)")
    folder: Path = parser.parse_args().folder
    for path, text in pages().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
