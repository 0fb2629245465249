"""The PTX of instructions: what their atoms say of them."""

from __future__ import annotations

import re

from mugraph.cute.errors import KernelError
from mugraph.dialects.cute.atoms.copy import CopyAtom
from mugraph.dialects.cute.atoms.mma import MmaAtom

_MATRICES = re.compile(r"SM75_U(?:32x(?P<plain>\d)|16x(?P<halves>\d))_LDSM_(?P<kind>[NT])")
_PRODUCTS = re.compile(r"SM(?:75|80|90)_\d+x\d+x\d+_\w+_TN")


def is_async(atom: CopyAtom | None) -> bool:
    """Whether an instruction is ``cp.async``."""
    return atom is not None and "CP_ASYNC" in atom.name


def require_copy(atom: CopyAtom | None) -> None:
    """Raises KernelError for a copy of one thread that kernels do not have."""
    if atom is None or atom.threads > 1 or atom.name.startswith("UniversalCopy"):
        return
    if not is_async(atom):
        raise KernelError(
            f"kernels copy by ordinary instructions, cp.async and ldmatrix, not by {atom.name}"
        )


def ldmatrix(atom: CopyAtom, operands: int) -> str:
    """The text of an ``ldmatrix``, of so many operands of registers and the address of a line.

    Raises KernelError for other instructions.
    """
    found = _MATRICES.fullmatch(atom.name)
    if found is None:
        raise KernelError(
            f"kernels copy by ordinary instructions, cp.async and ldmatrix, not by {atom.name}"
        )
    count = found["plain"] or str(int(found["halves"]) // 2)
    transposed = ".trans" if found["kind"] == "T" else ""
    held = ", ".join(f"%{place}" for place in range(operands))
    # An operand of several registers has braces of its own.
    held = f"{{{held}}}" if operands > 1 or count == "1" else held
    return f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {held}, [%{operands}];"


def mma(atom: MmaAtom) -> str:
    """The text of an ``mma.sync``, of the registers of A, B and C, which is also the result.

    Raises KernelError for other instructions.
    """
    in_halves = all(one in ("f16", "bf16") for one in (atom.a_type, atom.b_type))
    if _PRODUCTS.fullmatch(atom.name) is None or not in_halves:
        raise KernelError(
            f"kernels multiply by mma.sync of f16 and bf16 and by UniversalFMA, not by {atom.name}"
        )
    shape = "m{}n{}k{}".format(*atom.shape_mnk)
    types = ".".join((atom.d_type, atom.a_type, atom.b_type, atom.c_type))
    a, b, c = (
        f"{{%{place}}}" if atom.layout(operand)[1].size() == atom.packed else f"%{place}"
        for place, operand in enumerate("ABC")
    )
    return f"mma.sync.aligned.{shape}.row.col.{types} {c}, {a}, {b}, {c};"
