"""The commands:

    python -m benchmarks.models list
    python -m benchmarks.models run --small [--models llama,bert] [--dtype float32]
    python -m benchmarks.models run --device cuda --output benchmarks/results/models_h200

``run`` builds models from their configurations with seeded weights, checks each against eager
PyTorch in float64, and on a GPU times eager, torch.compile and mugraph.  It needs torch and
transformers.  ``--models`` takes names, or starts of them; names that end in ``-step`` are a step
of generation with a cache.  With ``--output`` it writes OUTPUT.json and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.commands import new_parser
from mugraph.errors import UserError

FORMATS = ("w4a16", "w8a16", "fp8")
DTYPES = ("float32", "bfloat16", "float16")


def chosen(names: str, known: list[str]) -> list[str]:
    """Models by their names, or by starts of names; ``UserError`` for a start of none."""
    taken: set[str] = set()
    for start in names.split(","):
        found = [start] if start in known else [name for name in known if name.startswith(start)]
        if not found:
            raise UserError(f"no model is called {start!r}; there are {', '.join(known)}")
        taken.update(found)
    return [name for name in known if name in taken]


def _arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "benchmarks.models")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (("list", "the models"), ("run", "build, check and, on a GPU, time")):
        added = commands.add_parser(name, help=does)
        added.add_argument("--models", default="", help="their names, or starts of them (all)")
        if name == "run":
            added.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
            added.add_argument("--small", action="store_true", help="sizes for a CPU")
            added.add_argument("--dtype", choices=DTYPES, help="of weights (small: float32)")
            added.add_argument("--seeds", type=int, default=1, help="drawn models to check")
            added.add_argument("--batch", type=int, default=1, help="sequences or images of a call")
            added.add_argument("--layers", type=int, help="so many at full width (the model's own)")
            added.add_argument("--weights", default="", choices=FORMATS, help="of linear layers")
            added.add_argument("--output", type=Path, help="OUTPUT.json and OUTPUT.md")
    return parser


def main() -> int:
    """Runs the command; exits 1 where a model is not right."""
    arguments = _arguments().parse_args()
    try:
        from benchmarks.models.run import run
        from benchmarks.models.zoo import MODELS
    except ImportError as error:
        print(f"error: the models need torch and transformers: {error}", file=sys.stderr)
        return 1
    try:
        names = chosen(arguments.models, [*MODELS])
        if arguments.command == "list":
            print(*names, sep="\n")
            return 0
        if arguments.device == "cpu" and not arguments.small:
            raise UserError("the interpreter takes small sizes alone; add --small, or a GPU")
        for option, what in (
            ("seeds", "drawn models are checked"),
            ("batch", "sequences are a call's"),
            ("layers", "layers a model has"),
        ):
            given = getattr(arguments, option)
            if given is not None and given < 1:
                raise UserError(f"--{option} says how many {what}; give 1 or more")
        dtype = arguments.dtype or ("float32" if arguments.small else "bfloat16")
        records = run(
            names,
            device=arguments.device,
            small=arguments.small,
            dtype=dtype,
            seeds=range(arguments.seeds),
            output=arguments.output,
            batch=arguments.batch,
            weights=arguments.weights,
            layers=arguments.layers or 0,
        )
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if all(record.right for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
