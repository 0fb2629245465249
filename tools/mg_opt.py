"""``mg-opt``: reads IR, runs passes over it, and prints the result.

It is xDSL's driver with three additions.  Each pass is also a flag of its own, so that
``mg-opt --resolve-layout --plan-swizzle="method=xor" input.mlir`` says the same as
``-p 'resolve-layout,plan-swizzle{method=xor}'``, in the order of the command line; every error is
one message and exit code 1; and an output file appears only when everything went well.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from typing import IO, Any, ClassVar, NoReturn, cast, get_args, get_type_hints

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline, parse_spec
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from mugraph.reading import (
    multiverse,
    parse_text,
    read_te,
    refuse_sizes,
)
from mugraph.tools.diagnostics import ToolError, add_size_argument, atomic_output, run_tool
from mugraph.tools.universe import PASSES
from mugraph.version import __version__

_FLAGS_WITH_VALUE = {"-t": "--target", "-o": "--output-file", "-f": "--frontend"}
"""The driver's own flags whose next argument is their value, short and long (``-p`` is ours)."""

_OPTION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# What xDSL's pipeline lexer reads as one number or identifier; all else needs quotes.
_PLAIN_VALUE = re.compile(
    r"[0-9]+[A-Za-z_-]+[A-Za-z0-9_-]*"
    r"|[-+]?[0-9]+(\.[0-9]*([eE][-+]?[0-9]+)?)?"
    r"|[A-Za-z_][A-Za-z0-9_-]*"
)
# A float that the lexer would take for an identifier: it wants a point before the exponent.
_EXPONENT_WITHOUT_POINT = re.compile(r"([-+]?[0-9]+)([eE][-+]?[0-9]+)")


def pass_flags_to_pipeline(arguments: Sequence[str], pass_names: Collection[str]) -> list[str]:
    """The arguments with every pass flag and every ``-p`` gathered into one ``-p`` pipeline.

    ``pass_names`` are the flags to take as passes, without their dashes.  The passes run in the
    order of the command line, whichever way they were written.  Other arguments are left as they
    are, in their order.  Raises ``ToolError`` for options of a pass that cannot be read.
    """
    rest: list[str] = []
    pipeline: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        flag, equals, value = argument.partition("=")
        if argument == "--":
            rest += arguments[position - 1 :]
            break
        if flag in ("-p", "--passes") or (argument.startswith("-p") and argument[1] != "-"):
            if flag == "--passes" and equals:
                passes = value
            elif argument in ("-p", "--passes"):
                if position == len(arguments):
                    raise ToolError(f"{argument} needs a pipeline: {argument} pass-one,pass-two")
                passes = arguments[position]
                position += 1
            else:
                passes = argument.removeprefix("-p").removeprefix("=")
            if passes:
                pipeline.append(passes)
        elif flag.startswith("--") and flag[2:] in pass_names:
            pipeline.append(flag[2:] + _pipeline_options(flag, value))
        else:
            rest.append(argument)
            if argument in _FLAGS_WITH_VALUE or argument in _FLAGS_WITH_VALUE.values():
                rest += arguments[position : position + 1]
                position += 1
    return ["-p", ",".join(pipeline), *rest] if pipeline else rest


def _pipeline_options(flag: str, text: str) -> str:
    """``a=1 b`` as pipeline text ``{a=1 b=true}``, odd values quoted; nothing for no options."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    options: dict[str, str] = {}
    try:
        words = [word for word in _split_outside_quotes(text, " \t\n") if word]
    except ValueError as error:
        raise ToolError(f"{flag}: {error}.") from error
    for word in words:
        name, equals, value = word.partition("=")
        if _OPTION_NAME.fullmatch(name) is None:
            raise ToolError(
                f"{flag}: cannot read the option {word!r}; options are written "
                f'{flag}="name=value other-name=value".'
            )
        if equals and not value:
            raise ToolError(f"{flag}: the option {name!r} has no value after its equals sign.")
        name = name.replace("_", "-")
        if name in options:
            raise ToolError(f"{flag}: the option {name!r} is written twice; leave one out.")
        values = _split_outside_quotes(value, ",") if equals else ["true"]
        options[name] = ",".join(map(_quoted, values))
    given = " ".join(f"{name}={values}" for name, values in options.items())
    return f"{{{given}}}" if given else ""


def _split_outside_quotes(text: str, separators: str) -> list[str]:
    """Split at any of the separators, but not inside quotes; ``ValueError`` for an open quote."""
    parts = [""]
    quote = ""
    for character in text:
        if character in separators and not quote:
            parts.append("")
            continue
        if character == quote:
            quote = ""
        elif character in "\"'" and not quote:
            quote = character
        parts[-1] += character
    if quote:
        raise ValueError(f"the quote {quote} is not closed in {text!r}")
    return parts


def _quoted(value: str) -> str:
    """A value as the pipeline syntax wants it: as it is if that reads back, in quotes if not."""
    if (match := _EXPONENT_WITHOUT_POINT.fullmatch(value)) is not None:
        return f"{match.group(1)}.0{match.group(2)}"
    if _PLAIN_VALUE.fullmatch(value):
        return value
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def check_options(what: str, spec: ArgSpec, kind: type[ArgSpecConvertible]) -> None:
    """Raise ``ToolError`` unless ``kind`` (a pass or target class) can be made from ``spec``.

    ``what`` is how the user wrote it.  Unknown options, missing ones and values of a wrong type are
    named as the user writes them, with dashes.
    """
    fields = {field.name.replace("_", "-"): field for field in dataclasses.fields(kind)}
    given = {name.replace("_", "-"): value for name, value in spec.parameters.items()}
    for name in given:
        if name not in fields:
            known = ", ".join(fields) if fields else "none"
            raise ToolError(
                f"{what} has no option {name!r}{_suggestion(name, fields)}. Its options: {known}."
            )
    types = get_type_hints(kind)
    required = kind.required_fields()
    for name, field in fields.items():
        if field.name in required and name not in given:
            raise ToolError(f"{what} needs its option {name!r} ({_in_words(types[field.name])}).")
    for name, value in given.items():
        type_ = types[fields[name].name]
        # Without a value it is a truth, which is an integer, too, to xDSL.
        if (not value or value[0] is True) and bool not in (type_, *get_args(type_)):
            raise ToolError(
                f"{what}: the option {name!r} needs a value: write {name}=..., {_in_words(type_)}."
            )
        # One option at a time, beside the required ones, to know which one is wrong.
        one = {name: value} | {n: v for n, v in given.items() if fields[n].name in required}
        try:
            kind.from_spec(ArgSpec(spec.name, one))
        except ValueError as error:
            shown = ",".join(map(str, value))
            if "Incompatible types" not in str(error):
                raise ToolError(f"{what}: {error}") from error
            raise ToolError(
                f"{what}: the option {name!r} is {shown!r}; expected {_in_words(type_)}."
            ) from error


def _in_words(type_: Any) -> str:
    from mugraph.passes.options import values_in_words

    return values_in_words(type_)


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f" (is {close[0]!r} meant?)" if close else ""


def _pass_help() -> str:
    from mugraph.passes.options import options_in_words

    lines = ["mugraph's passes, each a flag of its own, run in the order given:", ""]
    for name in PASSES:
        kind = multiverse().all_passes[name]()
        summary = (kind.__doc__ or "").strip().partition("\n")[0]
        lines += [f"  --{name}", f"      {summary}"]
        lines += [f"      {option}: {values}" for option, values in options_in_words(kind)]
    lines += [
        "",
        'Options of a pass follow an equals sign: --transpile="arch=sm_90a".',
        "Every pass of xDSL is a flag in the same way (--canonicalize, --cse, …).",
    ]
    return "\n".join(lines)


class MgOptMain(xDSLOptMain):
    """xDSL's driver, with pass flags, one message an error and output files that are whole."""

    version_format: ClassVar[str] = (
        f"mg-opt of mugraph {__version__}, on xdsl version {{xdsl_version}}"
    )

    def __init__(self, arguments: Sequence[str]):
        self._wants_help = any(argument in ("-h", "--help") for argument in arguments)
        super().__init__(
            description="Reads µGraph IR, runs passes over it and prints it, or prints CUDA.",
            args=pass_flags_to_pipeline(arguments, multiverse().all_passes),
        )

    def register_all_dialects(self) -> None:
        """Register what the universes hold, without loading it."""
        for name, factory in multiverse().all_dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        """Register what the universes hold, without loading it."""
        self.available_passes.update(multiverse().all_passes)

    def register_all_targets(self) -> None:
        """Register what the universes hold, without loading it."""
        self.available_targets.update(multiverse().all_targets)

    def register_all_frontends(self) -> None:
        """MLIR text, and `.te` text with the sizes of the command line."""
        super().register_all_frontends()

        def parse_mlir(stream: IO[bytes]) -> ModuleOp:
            return parse_text(
                self.ctx,
                stream.read().decode(),
                self.get_input_name(),
                allow_implicit_module=not self.args.no_implicit_module,
                lines_before=self._lines_before,
            )

        self.available_frontends["mlir"] = parse_mlir

        def parse_te(stream: IO[bytes]) -> ModuleOp:
            return read_te(stream.read().decode(), self.get_input_name(), self.args.size)

        self.available_frontends["te"] = parse_te

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """xDSL's arguments; a wrong one raises ``ToolError`` in place of printing the usage."""
        super().register_all_arguments(arg_parser)
        known = [name for name in arg_parser._option_string_actions]  # pyright: ignore[reportPrivateUsage]

        def error(message: str) -> NoReturn:
            match = re.match(r"unrecognized arguments: (--?[\w-]+)", message)
            if match is not None:
                flag = match.group(1)
                candidates = [*known, *(f"--{name}" for name in self.available_passes)]
                raise ToolError(
                    f"unknown pass or option {flag!r}{_suggestion(flag, candidates)}; "
                    "mg-opt --help lists them."
                )
            raise ToolError(message)

        arg_parser.add_argument(
            "--verify-semantics",
            action="store_true",
            help="run the interpreter on random inputs before and after each pass; name the first "
            "pass that changes what a function computes, and stop there",
        )
        add_size_argument(arg_parser)
        arg_parser.error = error
        arg_parser.allow_abbrev = False
        arg_parser.prog = "mg-opt"
        arg_parser.usage = '%(prog)s [--PASS[="OPTION=VALUE ..."]] ... [-t TARGET] [-o FILE] [FILE]'
        if self._wants_help:
            arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
            arg_parser.description = f"{arg_parser.description}\n\n{_pass_help()}"

    def setup_pipeline(self) -> None:
        """Check the passes, the target and their options, then build the pipeline."""
        for spec in parse_pipeline(self.args.passes):
            if spec.name not in self.available_passes:
                raise ToolError(
                    f"unknown pass {spec.name!r}{_suggestion(spec.name, self.available_passes)}; "
                    "mg-opt --help lists them."
                )
            check_options(f"--{spec.name}", spec, self.available_passes[spec.name]())
        target = parse_spec(self.args.target)
        factory = self.available_targets[target.name]
        if not inspect.signature(factory).parameters:  # a target of the old kind has no options
            kind = cast(Callable[[], type[Target]], factory)()
            check_options(f"-t {target.name}", target, kind)
        super().setup_pipeline()

    def apply_passes(self, prog: ModuleOp) -> None:
        """Apply the passes in order; with ``--verify-semantics`` run the module after each."""
        from mugraph.dialects.locations import reported_within

        with reported_within(prog):
            if self.args.verify_semantics:
                self._apply_and_run(prog)
            else:
                super().apply_passes(prog)

    def _apply_and_run(self, prog: ModuleOp) -> None:

        from mugraph.passes.sequence import flattened
        from mugraph.runtime.equivalence.stages import SemanticsWatch

        print_and_verify = self.pipeline.callback
        watch: SemanticsWatch | None = None

        def callback(
            previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
        ) -> None:
            nonlocal watch
            if print_and_verify is not None:
                print_and_verify(previous, module, following)
            if watch is None:
                watch = SemanticsWatch.begin(module)
            if previous is not None:
                watch.check(module, previous.name)

        PassPipeline(flattened(self.pipeline.passes), callback).apply(self.ctx, prog)
        if watch is not None:
            for line in watch.summary():
                print(f"mg-opt: note: {line}", file=sys.stderr)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        """The module as the target prints it."""
        from mugraph.dialects.locations import reported_within

        with reported_within(prog):
            return super().output_resulting_program(prog)

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """The input file, or stdin when there is none or it is ``-``."""
        if self.args.input_file == "-":
            self.args.input_file = None
        return super().get_input_stream()

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        """Open the input and split it if asked to; a strange file name raises ``ToolError``."""
        path = self.args.input_file
        if path not in (None, "-") and not self.args.frontend:
            extension = os.path.splitext(path)[1].removeprefix(".")
            if os.path.isdir(path):
                raise ToolError(f"{path} is a folder, not a file.")
            if os.path.exists(path) and extension not in self.available_frontends:
                known = ", ".join(f".{name}" for name in self.available_frontends)
                raise ToolError(
                    f"{path}: the file's extension says nothing of its format (known: {known}); "
                    "say -f mlir to read it as MLIR text."
                )
        return super().prepare_input()

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        """Parse one chunk of the input; bytes that are no text raise ``ToolError``."""
        if file_extension != "te":
            refuse_sizes(self.args.size)
        self._lines_before = start_offset
        try:
            return super().parse_chunk(chunk, file_extension, start_offset)
        except UnicodeDecodeError as error:
            raise ToolError(f"{self.get_input_name()} is not UTF-8 text: {error}.") from error

    def prepare_output(self) -> IO[str]:
        """Where the result goes: stdout, or the stream that ``run`` opened."""
        return self._output or sys.stdout

    _output: IO[str] | None = None
    _lines_before = 0

    def run(self) -> None:
        """Read, run the passes, print; the output file appears when all of it succeeded."""
        path: str | None = self.args.output_file
        if path is None or path == "-":
            super().run()
            return
        with atomic_output(path) as self._output:
            super().run()


def _main(arguments: Sequence[str]) -> int:
    if "--verify-semantics" not in arguments:
        # Passes multiply no matrices; BLAS would start a thread a core, and each waits busily.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    MgOptMain(arguments).run()
    return 0


def main() -> int:
    """The ``mg-opt`` command; returns its exit code."""
    return run_tool("mg-opt", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
