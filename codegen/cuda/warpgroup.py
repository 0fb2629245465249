"""Products of warp groups, and the instructions that a file uses, as classes.

There are hundreds of them, which differ in the number of registers that the assembler text lists;
so a generated file defines those it uses, and no header has to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mugraph.codegen.cuda.channels import iteration_of
from mugraph.codegen.cuda.cpp import CodegenError, Writer, epilogue_type
from mugraph.codegen.cuda.operations import (
    KernelPrinter,
    fragment_type_of,
    matrix_type,
    print_operation,
    scope_of,
)
from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import MmaAtom, mma_atom
from mugraph.dialects.cute.atoms.mma import ELEMENT_BITS
from mugraph.dialects.cute.matrix_descriptor import TRANSPOSED_BYTES, SharedMatrix
from mugraph.dialects.element_types import DESCRIPTIONS
from mugraph.dialects.interfaces import written_by
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import shape_of

_OPERANDS = {type_.instruction: type_.cuda for type_ in DESCRIPTIONS.values()}
_SUMS = {"f32": ("float", "f"), "s32": ("int32_t", "r")}
"""Types of sums, and how assembler text constrains them."""
_REGISTERS_A = 4
"""32-bit registers of A, 64 rows of 32 bytes over 128 threads."""


WHOLE = (False,)
"""How an instruction's sums lie in a file where all of them are in one array."""


def print_warpgroup_atom(atom: MmaAtom, writer: Writer, halves: Sequence[bool] = WHOLE) -> None:
    """Prints the class of one instruction; raises :class:`CodegenError` for types it lacks.

    It has a function for each of ``halves``: of sums in one array, or in two arrays, the first
    half of the columns and the second.
    """
    types = (atom.a_type, atom.b_type)
    if not _OPERANDS.keys() >= {*types} or atom.c_type not in _SUMS:
        raise CodegenError(
            "the CUDA target's warp-group products are of f16, bf16 or f8 added up in f32, or of "
            f"i8 added up in i32; it cannot print {atom.name} yet"
        )
    classes = ", ".join([*(_OPERANDS[type_] for type_ in types), _SUMS[atom.c_type][0]])
    base, length = "OfWarpgroup", atom.shape_mnk[1]
    if atom.swaps_operands:
        base, length = "OfSwappedWarpgroup", atom.shape_mnk[0]
    writer.open(f"struct {atom.name} : atoms::{base}<{classes}, {length}> {{")
    for in_halves in halves:
        _print_product(atom, writer, halves=in_halves)
    writer.close("};")


def _print_product(atom: MmaAtom, writer: Writer, *, halves: bool) -> None:
    """Prints the function that issues an instruction, its sums in one array or in two.

    Its operands in assembler text, by their numbers: the sums, the matrices as registers or
    descriptors, for each descriptor whether lines are neighbours, and whether it adds.
    """
    rows, columns, depth = atom.shape_mnk
    in_registers = "registers" in (atom.a_space, atom.b_space)
    matrices = [("a", "A", atom.a_type), ("b", "B", atom.b_type)]
    if atom.swaps_operands:
        rows, columns = columns, rows
        matrices.reverse()
    count, (sum_type, constraint) = atom.values_of_c, _SUMS[atom.c_type]
    listed = ", ".join(f"%{i}" for i in range(count))
    passed: list[str] = []

    def operand(text: str) -> str:
        passed.append(text)
        return f"%{count + len(passed) - 1}"

    operands = [f"{{{listed}}}"]
    held = matrices[0][0] if in_registers else ""
    for name, _, _ in matrices:
        if name == held:
            registers = [operand(f'"r"({name}[{i}])') for i in range(_REGISTERS_A)]
            operands.append("{" + ", ".join(registers) + "}")
        else:
            operands.append(operand(f'"l"({name}.descriptor())'))
    operands.append("adds")
    if atom.c_type == "f32":
        operands += ["1", "1"]  # the sign of each matrix
    if ELEMENT_BITS[atom.a_type] == 8 * TRANSPOSED_BYTES:
        in_shared = [class_ for name, class_, _ in matrices if name != held]
        operands += [operand(f'"n"(int({class_}::kTransposed))') for class_ in in_shared]
    adds = operand('"r"(adds)')
    types = ".".join(type_ for _, _, type_ in matrices)
    name = f"wgmma.mma_async.sync.aligned.m{rows}n{columns}k{depth}.{atom.c_type}.{types}"
    half = count // 2 if halves else count
    places = [f"d[{i}]" for i in range(half)] + [f"e[{i}]" for i in range(count - half)]
    parameters = ", ".join(
        f"uint32_t const (&{name})[{_REGISTERS_A}]" if name == held else f"{class_} const& {name}"
        for name, class_, _ in sorted(matrices)
    )
    classes = ", ".join(f"class {class_}" for name, class_, _ in sorted(matrices) if name != held)
    sums = f"{sum_type}* d, {sum_type}* e" if halves else f"{sum_type}* d"
    writer.line(f"template <{classes}>")
    writer.open(
        f"static __device__ __forceinline__ void mma({sums}, {parameters}, "
        "[[maybe_unused]] int thread, [[maybe_unused]] uint32_t adds = 1) {"
    )
    writer.line("#if defined(__CUDA_ARCH__)")
    writer.line(f'asm volatile("{{\\n.reg .pred adds;\\nsetp.ne.u32 adds, {adds}, 0;\\n{name} "')
    writer.line(f'    "{", ".join(operands)};\\n}}\\n"')
    writer.line("    : " + ", ".join(f'"+{constraint}"({place})' for place in places))
    writer.line(f"    : {', '.join(passed)});")
    writer.line("#else")
    writer.line(f"emulate({'d, e' if halves else 'd'}, a, b, thread);")
    writer.line("#endif")
    writer.close()


def shared_matrix_type(matrix: SharedMatrix, element: str) -> str:
    """The C++ type of a matrix in shared memory as an instruction reads it."""
    transposed = "true" if matrix.transposed else "false"
    return (
        f"mugraph::SharedMatrix<{element}, {transposed}, {matrix.swizzle_bits}, "
        f"{matrix.group_bytes}, {matrix.side_bytes}>"
    )


def print_warpgroup_atoms(kernels: Iterable[sched.KernelOp], writer: Writer) -> None:
    """Prints every instruction of warp groups that kernels hold fragments of, once."""
    atoms: dict[str, MmaAtom] = {}
    for kernel in kernels:
        for op in kernel.body.walk():
            for type_ in (value.type for value in (*op.operands, *op.results)):
                mma = type_.tiled_mma if isinstance(type_, sched.TileType) else None
                if mma is not None and is_of_warpgroups(mma_atom(mma.atom)):
                    atoms[mma.atom] = mma_atom(mma.atom)
    products = [
        op for kernel in kernels for op in kernel.walk() if isinstance(op, sched.WarpgroupMmaOp)
    ]
    for op in products:
        atoms[op.atom.name] = op.atom
    halves: dict[str, set[bool]] = {}
    for op in products:
        halves.setdefault(op.atom.name, set()).add(len(op.accumulators) > 1)
    for name in sorted(atoms):
        print_warpgroup_atom(atoms[name], writer, sorted(halves.get(name, WHOLE)))
        writer.line()


@print_operation.register
def _(op: sched.WarpgroupMmaOp, printer: KernelPrinter) -> None:
    mma = op.tiled_mma
    groups_m, groups_n, _ = mma.thr_layout
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    for index, matrix in op.matrices().items():
        writer.line(f"using {'AB'[index]} = {matrix_type(matrix)};")
    atom = op.atom.name
    # Groups that are issued by some threads only are nothing that ptxas can count.
    if groups_m * groups_n * mma_atom(mma.atom).threads == sched.enclosing_threads(op):
        atom += ", true"
    product = f"tb::WarpgroupMatmul<{groups_m}, {groups_n}, A, B, {atom}>"
    if op.lhs_in_registers:
        rows = shape_of(op.accumulator.type)[-2]
        product = f"tb::RegisterWarpgroupMatmul<{groups_m}, {rows}, B, {atom}>"
    if op.through is not None:
        product = (
            f"tb::ConvertingWarpgroupMatmul<{groups_n}, A, B, atoms::{op.warp_atom.name}, "
            f"{epilogue_type(op.through.data)}, {atom}>"
        )
    iteration = iteration_of(op, printer)
    lhs, rhs = (
        printer.names.of(value)
        if isinstance(value.type, sched.TileType)
        else printer.pointer(value, iteration)
        for value in (op.lhs, op.rhs)
    )
    if op.lhs_offset:
        lhs = f"{lhs} + {op.lhs_offset}"
    sums = ", ".join(printer.names.of(value) for value in op.accumulators)
    method = "issue" if op.is_async else "mma"
    if op.is_fresh:
        method += "<true>"
    call = f"{product}::{method}({sums}, {lhs}, {rhs}, thread);"
    nothing = "mugraph::commit_products();  // an empty group, which waits count"
    loop = sched.enclosing_loop(op)
    if op.ahead_of >= 0:
        writer.line(call)
    elif loop is not None and loop.is_peeled:
        is_first = not printer.iteration.start
        writer.line(nothing if is_first else call)
    else:
        writer.open(scope_of(op, iteration, op.ahead_of, printer))
        writer.line(call)
        writer.close()
        writer.line(f"else {nothing}")
    writer.close()


def computed_meanwhile(wait: sched.WarpgroupWaitOp) -> list[SSAValue]:
    """The fp32 fragments written while the products that a wait covers run, which later ones read.

    The compiler sees no reason to compute them before the wait.
    """
    block = wait.parent_block()
    before = [] if block is None else list(block.ops)
    before = before[: before.index(wait)]
    written: dict[SSAValue, None] = {}
    for op in reversed(before):
        if isinstance(op, sched.WarpgroupWaitOp | sched.WarpgroupMmaOp):
            break
        if sched.computes_on_product(op):
            written |= dict.fromkeys(map(sched.registers_of, written_by(op)))
    return [value for value in reversed(written) if fragment_type_of(value).element_type == f32]


@print_operation.register
def _(op: sched.WarpgroupWaitOp, printer: KernelPrinter) -> None:
    for value in computed_meanwhile(op):
        printer.writer.line(f"mugraph::pin({printer.names.of(value)});  // before the wait")
    printer.writer.line(f"mugraph::wait_products<{op.pending_products}>();  // {op.name}")
    for product in op.finished():
        for value in product.op.accumulators:
            printer.writer.line(f"mugraph::pin({printer.names.of(value)});")
