"""Sequences of passes verify what changed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr, f16, f32
from xdsl.dialects.test import TestOp as Op
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from mugraph.passes.sequence import VerifiedChanges, verifying

Change = Callable[[ModuleOp, Op, Op], object]


def change_attribute(_module: ModuleOp, first: Op, _second: Op) -> None:
    first.attributes["changed"] = UnitAttr()


def change_property(_module: ModuleOp, _first: Op, second: Op) -> None:
    second.properties["prop1"] = f16


def change_operand(_module: ModuleOp, first: Op, second: Op) -> None:
    second.operands[0] = first.results[1]


def change_result(_module: ModuleOp, first: Op, _second: Op) -> None:
    first.results[0]._type = f16


def change_argument(_module: ModuleOp, first: Op, _second: Op) -> None:
    first.regions[0].block.args[0]._type = f16


def add_block(_module: ModuleOp, first: Op, _second: Op) -> None:
    first.regions[0].add_block(Block())


def erase(_module: ModuleOp, _first: Op, second: Op) -> None:
    second.detach()


def move(module: ModuleOp, first: Op, second: Op) -> None:
    second.detach()
    first.regions[0].block.add_op(second)


def replace(module: ModuleOp, _first: Op, second: Op) -> None:
    module.body.block.add_op(second.clone())
    second.detach()


CHANGES: tuple[Change, ...] = (
    *(change_attribute, change_property, change_operand, change_result, change_argument),
    *(add_block, erase, move, replace),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_module_is_verified_when_it_has_changed(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[ModuleOp] = []
    monkeypatch.setattr(ModuleOp, "verify", lambda module: verified.append(module))
    first = Op(result_types=[f32, f32], regions=[Region(Block(arg_types=[f32]))])
    second = Op(operands=[first.results[0]])
    module = ModuleOp([first, second])
    changes = VerifiedChanges()
    for expected in (1, 1):
        changes.verify(module)
        assert len(verified) == expected
    change(module, first, second)
    for expected in (2, 2):
        changes.verify(module)
        assert len(verified) == expected


class Appending(ModulePass):
    """Adds an operator."""

    name = "appending"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.add_op(Op())


class Last(Appending):
    """Ends a level."""


@pytest.mark.parametrize(("kinds", "sizes"), [((ModulePass,), [1, 2, 3]), ((Last,), [2])])
def test_what_some_kinds_of_passes_leave_is_verified(
    kinds: tuple[type[ModulePass], ...], sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(ModuleOp, "verify", lambda module: seen.append(len(module.ops)))
    verifying((Appending(), Last(), Appending()), kinds).apply(Context(), ModuleOp([]))
    assert seen == sizes
