"""The PTX of instructions: what their atoms say of them."""

from __future__ import annotations

import re

from mugraph.cute.errors import KernelError
from mugraph.dialects.cute.atoms.copy import CopyAtom
from mugraph.dialects.cute.atoms.mma import MmaAtom

_MATRICES = re.compile(
    r"SM\d\d_U(?:32x(?P<plain>\d)|16x(?P<halves>\d))_(?P<way>LD|ST)SM_(?P<kind>[NT])"
)
WAY = ("loads from shared memory to registers", "stores from registers to shared memory")
"""What instructions of matrices do: ``ldmatrix`` and ``stmatrix``."""
_PRODUCTS = re.compile(r"SM(?:75|80|90)_\d+x\d+x\d+_\w+_TN")


def is_async(atom: CopyAtom | None) -> bool:
    """Whether an instruction is ``cp.async``."""
    return atom is not None and "CP_ASYNC" in atom.name


def require_copy(atom: CopyAtom | None) -> None:
    """Raises KernelError for a copy of one thread that kernels do not have."""
    if atom is None or atom.threads > 1 or atom.name.startswith("UniversalCopy"):
        return
    if not is_async(atom):
        raise _unknown_copy(atom)


def _matrices_of(atom: CopyAtom) -> tuple[bool, int, bool]:
    """Whether an instruction of a warp is a store, of how many matrices, and of transposed ones.

    Raises KernelError for one that is neither ``ldmatrix`` nor ``stmatrix``.
    """
    found = _MATRICES.fullmatch(atom.name)
    if found is None:
        raise _unknown_copy(atom)
    count = int(found["plain"] or int(found["halves"]) // 2)
    return found["way"] == "ST", count, found["kind"] == "T"


def _unknown_copy(atom: CopyAtom) -> KernelError:
    return KernelError(
        "kernels copy by ordinary instructions, cp.async, ldmatrix and stmatrix, not by "
        f"{atom.name}"
    )


def stores_matrices(atom: CopyAtom) -> bool:
    """Whether an instruction of a warp is ``stmatrix``, and not ``ldmatrix``.

    Raises KernelError for one that is neither, and for a store of fewer than four matrices, which
    several threads would give one address.
    """
    stores, count, _transposed = _matrices_of(atom)
    if stores and count != 4:
        raise KernelError(f"kernels store four matrices at once by stmatrix, not by {atom.name}")
    return stores


def matrices(atom: CopyAtom, operands: int) -> str:
    """The text of an ``ldmatrix`` or ``stmatrix``, of so many operands of registers and a line.

    A store has the line's address first.
    """
    stores, count, is_transposed = _matrices_of(atom)
    held = ", ".join(f"%{place + stores}" for place in range(operands))
    # An operand of several registers has braces of its own.
    held = f"{{{held}}}" if operands > 1 or count == 1 else held
    ends = f"[%0], {held}" if stores else f"{held}, [%{operands}]"
    name, transposed = "stmatrix" if stores else "ldmatrix", ".trans" if is_transposed else ""
    return f"{name}.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {ends};"


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
