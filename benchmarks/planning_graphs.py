"""µGraphs and packing instances of any size for ``planning.py``, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType, f16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Request

TILE = 64
ITERATIONS = 4
WINDOW = 5
"""How far back an operator looks for its operands: it keeps the peak far below a block's limit."""
UNARY = (tb.ExpOp, tb.SquareOp, tb.SiluOp, tb.SqrtOp)
BINARY = (tb.AddOp, tb.MulOp, tb.SubOp, tb.DivOp)


def _tile(*shape: int) -> tb.STensorType:
    return tb.STensorType(shape, f16)


def _step(random: Random, recent: list[SSAValue], weight: SSAValue) -> Operation:
    """One operator on recent tiles: element-wise mostly, some products and sums."""
    operand, kind = random.choice(recent), random.random()
    if kind < 0.30:
        return random.choice(UNARY)(operand, _tile(TILE, TILE))
    if kind < 0.80:
        return random.choice(BINARY)(operand, random.choice(recent), _tile(TILE, TILE))
    if kind < 0.95:
        other = weight if random.random() < 0.5 else random.choice(recent)
        return tb.MatmulOp(operand, other, _tile(TILE, TILE))
    return tb.ReductionOp(operand, 1, _tile(TILE, 1))


def random_mugraph(operators: int, seed: int) -> ModuleOp:
    """A function with one custom kernel whose loop body has about so many operators."""
    random = Random(seed)
    whole: TensorType[Any] = TensorType(f16, [TILE * ITERATIONS, TILE])
    square: TensorType[Any] = TensorType(f16, [TILE, TILE])
    block = Block(arg_types=[whole, square])
    moving = tb.InputOp(block.args[0], (-1, -1, -1), 0, _tile(TILE, TILE))
    weight = tb.InputOp(block.args[1], (-1, -1, -1), -1, _tile(TILE, TILE))
    block.add_ops([moving, weight])
    recent: list[SSAValue] = [moving.result]
    for _ in range(operators):
        op = _step(random, recent, weight.result)
        block.add_op(op)
        result: SSAValue = op.results[0]
        if isinstance(op, tb.ReductionOp):
            scaled = tb.MulOp(recent[-1], result, _tile(TILE, TILE))
            block.add_op(scaled)
            result = scaled.result
        recent = [*recent, result][-WINDOW:]
    total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, recent[-1], _tile(TILE, TILE))
    block.add_ops([total, tb.OutputOp(total.result, (-1, -1, -1), square)])
    function = FuncOp("random", ((whole, square), (square,)))
    kernel = CustomizedOp(
        list(function.body.block.args), [square], (1, 1, 1), (128, 1, 1), ITERATIONS, block
    )
    function.body.block.add_ops([kernel, ReturnOp(kernel.results[0])])
    module = ModuleOp([function])
    module.verify()
    return module


def random_intervals(buffers: int, seed: int) -> list[Request]:
    """Buffers of 1 to 64 lines whose lifetimes are an eighth of the whole on average."""
    random = Random(seed)
    found: list[Request] = []
    for _ in range(buffers):
        first = random.randrange(buffers)
        length = int(random.expovariate(1 / max(2, buffers / 8)))
        last = min(buffers - 1, first + length)
        found.append(Request(128 * random.randint(1, 64), Lifetime(first, last)))
    return found


def perfect_packing(buffers: int, seed: int) -> tuple[list[Request], int]:
    """A rectangle cut into buffers without waste, and its height: the optimum, all load."""
    random = Random(seed)
    width, height = max(8, buffers), max(64, 2 * buffers)
    pieces = [(0, width, 0, height)]
    while len(pieces) < buffers:
        piece = random.choice(pieces)
        left, right, low, high = piece
        upright = random.random() < 0.5
        if (upright and right - left < 2) or (not upright and high - low < 2):
            continue
        pieces.remove(piece)
        if upright:
            cut = random.randrange(left + 1, right)
            pieces += [(left, cut, low, high), (cut, right, low, high)]
        else:
            cut = random.randrange(low + 1, high)
            pieces += [(left, right, low, cut), (left, right, cut, high)]
    random.shuffle(pieces)
    return (
        [
            Request(128 * (high - low), Lifetime(left, right - 1))
            for left, right, low, high in pieces
        ],
        128 * height,
    )
