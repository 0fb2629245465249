"""``mg-check``: are two µGraphs the same function?"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.locations import Rewriter
from mugraph.reading import make_context, parse_text, read_module, read_text
from mugraph.tools.diagnostics import ArgumentParser, ToolError, run_tool
from mugraph.tools.mugraph_files import read_mugraphs

EXIT_EQUAL, EXIT_DIFFERENT, EXIT_UNDECIDED = 0, 1, 2


def read_sums_as_contiguous(module: ModuleOp) -> None:
    """Gives every strided sum to dimx the contiguous meaning, to see what a µGraph would compute.

    The meanings: ``tb.forloop_accum_sum_to_dimx_strided`` and ``..._contiguous``.
    """
    from mugraph.dialects import tb

    for op in list(module.walk()):
        if isinstance(op, tb.ForloopAccumSumToDimxStridedOp):
            Rewriter.replace_op(op, tb.ForloopAccumSumToDimxContiguousOp(op.input, op.result.type))
        elif isinstance(op, tb.ReductionToDimxStridedOp):
            new = tb.ReductionToDimxContiguousOp(op.input, op.reduced_dim, op.result.type)
            if op.epilogue is not None:
                new.epilogue = op.epilogue
            Rewriter.replace_op(op, new)


def _chosen_indices(options: argparse.Namespace, count: int) -> list[int | None]:
    """The graphs to check; ``None`` stands for the only one."""
    if options.index == "all":
        return list(range(count))
    if options.index is None and count > 1:
        raise ToolError(
            f"{options.of_file} holds {count} graphs; say which one with --index 0 to "
            f"{count - 1}, or --index all."
        )
    try:
        return [None if options.index is None else int(options.index)]
    except ValueError:
        raise ToolError(f"--index is {options.index!r}; expected a number or 'all'.") from None


def _mugraphs(name: str, context: Context) -> ModuleOp:
    return read_mugraphs(
        name,
        context,
        "mg-check compares µGraphs. mg-run --check compares a tensor expression with its "
        "evaluation in float64.",
    )


def _subjects(options: argparse.Namespace, context: Context) -> list[tuple[str, ModuleOp]]:
    """The modules to check, each with how to call it; and the module of the reference last."""
    if options.of_file is None:
        if len(options.files) != 2 or options.against is not None or options.index is not None:
            raise ToolError(
                "give two files to compare, or --of-file GRAPHS.json --against REFERENCE.mlir."
            )
        names = list(options.files)
        modules = [(name, _mugraphs(name, context)) for name in names]
    else:
        if options.files or options.against is None:
            raise ToolError("--of-file needs --against REFERENCE.mlir, and no other file.")
        from mugraph.tools.import_mirage import graphs_of, import_mirage

        text = read_text(options.of_file)
        count = len(graphs_of(text, options.of_file))
        symbol = os.path.splitext(os.path.basename(options.of_file))[0]
        modules: list[tuple[str, ModuleOp]] = []
        for index in _chosen_indices(options, count):
            module, _ = import_mirage(
                text,
                index,
                options.generation,
                file_name=options.of_file,
                symbol=symbol,
            )
            modules.append((f"graph {index or 0}", module))
        modules.append((options.against, _mugraphs(options.against, context)))
    if options.sum_to_dimx == "contiguous":
        for _, module in modules[:-1]:
            read_sums_as_contiguous(module)
            module.verify()
    return modules


def _write_counterexample(folder: str, arrays: dict[str, Any]) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, array in arrays.items():
        np.save(os.path.join(folder, f"{name}.npy"), array)


def _primes(text: str) -> tuple[int, int]:
    try:
        p, q = (int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no pair of primes, such as 227,113"
        ) from None
    from mugraph.runtime.interpreter.fields import FieldPair

    try:
        FieldPair(p, q, 0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return p, q


def _evidence(text: str) -> list[str]:
    known = ("proof", "float64", "finite-field")
    chosen = text.split(",")
    for name in chosen:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return chosen


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, such as 60")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="mg-check",
        description="Says whether two µGraphs are the same function over the real numbers, and "
        "what that rests on. Exit code 0: equal (proved, or tested); 1: different, or an error; "
        "2: undecided.",
        usage="%(prog)s [options] A.mlir B.mlir\n"
        "       %(prog)s [options] --of-file GRAPHS.json [--index N|all] --against B.mlir\n"
        "       %(prog)s --certificates FUSED.mlir",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="IR text, at any stage (- is stdin)"
    )
    parser.add_argument(
        "--certificates",
        metavar="FUSED.mlir",
        help="compare each kernel of one file with its certificate, what "
        "--fuse-kernels=certificates=true found it for",
    )
    parser.add_argument("--of-file", metavar="GRAPHS.json", help="check µGraphs that Mirage saved")
    parser.add_argument("--index", metavar="N|all", help="which graphs of a list, counted from 0")
    parser.add_argument("--against", metavar="B.mlir", help="what --of-file is compared with")
    parser.add_argument(
        "--generation", type=int, choices=(1, 2, 3), help="of the JSON (see mg-translate)"
    )
    parser.add_argument(
        "--evidence",
        type=_evidence,
        default=["proof", "float64", "finite-field"],
        metavar="E[,E...]",
        help="what to try, of proof, float64, finite-field (default: all; a proof is enough)",
    )
    parser.add_argument("--thorough", action="store_true", help="test also what has been proved")
    parser.add_argument(
        "--seeds", type=_positive, default=3, help="random evaluations of each kind (default 3)"
    )
    parser.add_argument(
        "--budget",
        type=_seconds,
        metavar="S",
        help="seconds of processor time for each kind of evidence; what is not done by then is "
        "undecided (default 10)",
    )
    parser.add_argument(
        "--primes",
        type=_primes,
        metavar="P,Q",
        help="the finite fields (default: a pair below 2^19 for each seed; Mirage's paper has "
        "227,113)",
    )
    parser.add_argument(
        "--sum-to-dimx",
        choices=("strided", "contiguous"),
        default="strided",
        help="contiguous: read strided sums to dimx of the first file as contiguous ones",
    )
    parser.add_argument(
        "--counterexample",
        metavar="DIR",
        help="where they differ, write the inputs and results there as .npy files",
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="print the processor time that each check took, and the memory",
    )
    return parser


def _check_certificates(file: str) -> int:
    """Says of each kernel of a file whether it is what its certificate says."""
    from mugraph.runtime.equivalence import Answer
    from mugraph.runtime.equivalence.certificates import check_certificates

    context = make_context()

    def read(text: str) -> ModuleOp:
        module = parse_text(context, text, "certificate")
        module.verify()
        return module

    answers = Counter[Answer]()
    for name, verdict in check_certificates(read_module(file, context), read):
        answers[verdict.answer] += 1
        print(f"{name}: {verdict}")
    if not answers:
        raise ToolError(
            f"{file} has no kernel with a certificate; make them with "
            "mg-opt --fuse-kernels=certificates=true."
        )
    if answers[Answer.DIFFERENT]:
        return EXIT_DIFFERENT
    return EXIT_UNDECIDED if answers[Answer.UNDECIDED] else EXIT_EQUAL


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.certificates is not None:
        if options.files or options.of_file is not None or options.against is not None:
            raise ToolError("--certificates takes one file, and no other to compare it with.")
        return _check_certificates(options.certificates)
    modules = _subjects(options, make_context())

    # After the arguments are known to be right: numpy and the dialects take a while to load.
    from mugraph.runtime.equivalence import Answer, Checker, Evidence, Subject
    from mugraph.runtime.equivalence.extents import static_pairs

    reference = modules.pop()[1]
    checkers: dict[str, Checker] = {}
    answers = Counter[Answer]()
    for name, module in modules:
        for at, subject, against in static_pairs(module, reference):
            if at not in checkers:
                checkers[at] = Checker(
                    Subject.of(against),
                    range(options.seeds),
                    [Evidence(evidence) for evidence in options.evidence],
                    options.thorough,
                    **({} if options.primes is None else {"primes": [options.primes]}),
                    **({} if options.budget is None else {"budget": options.budget}),
                )
            verdict = checkers[at].check(Subject.of(subject))
            answers[verdict.answer] += 1
            print(f"{name}{at}: {verdict}")
            if options.time:
                times = ", ".join(
                    f"{kind} {seconds:.3f} s" for kind, seconds in verdict.seconds.items()
                )
                print(f"{name}{at}: processor time: {times}")
            if verdict.difference is not None and options.counterexample is not None:
                folder = options.counterexample
                if len(modules) > 1:
                    folder = os.path.join(folder, name.replace(" ", ""))
                _write_counterexample(folder, verdict.difference.arrays)
            sys.stdout.flush()
    if len(modules) > 1:
        counts = ", ".join(f"{answers[answer]} {answer}" for answer in Answer if answers[answer])
        print(f"{len(modules)} graphs: {counts}")
    if options.time:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"memory: {peak:.0f} MiB at most")
    if answers[Answer.DIFFERENT]:
        return EXIT_DIFFERENT
    return EXIT_UNDECIDED if answers[Answer.UNDECIDED] else EXIT_EQUAL


def main() -> int:
    """The ``mg-check`` command; returns its exit code."""
    return run_tool("mg-check", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
