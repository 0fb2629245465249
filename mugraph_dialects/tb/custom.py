"""An operator that a user writes as a tensor expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, SymbolTable
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.interfaces import (
    AdaptsToTiles,
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.tb.operators import AccessesTiles
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.te.accesses import AtomicOp
from mugraph.dialects.te.calls import AsmOp
from mugraph.dialects.te.cutting import Cut, cut_function, find_cuts
from mugraph.dialects.te.functions import input_parameters, is_result, written_parameters
from mugraph.dialects.te.loops import ParOp
from mugraph.dialects.te.types import BufferType, Level, Space
from mugraph.dialects.te.values import AnchorOp, IndexOfOp
from mugraph.dialects.tensor_types import dims, element_type_of, innermost_of, shape_of, value_label


@irdl_op_definition
class CustomOp(IRDLOperation, AccessesTiles, AdaptsToTiles):
    """An operator whose body is a tensor expression: a function of the ``te`` dialect.

    ``%y = tb.custom @rope(%x, %cos, %sin) : (...) -> !tb.stensor<16x64xf16>``.  The function's
    parameters are the operands, which it only reads, in order; those with ``te.result`` are the
    results, of which it writes every element.  A block runs it on its tiles: parallel loops are
    dealt to the block's threads, buffers of the function lie in shared memory, and those of an
    iteration in registers.  See ``docs/texpr.md``.

    Until the function stands in the module (``--load-operators`` brings it from a `.te` file)
    nothing is known of the operator but its types.
    """

    name = "tb.custom"

    callee = prop_def(SymbolRefAttr)
    inputs = var_operand_def(STensorType)
    outputs = var_result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = "$callee `(` $inputs `)` attr-dict `:` functional-type(operands, results)"

    def __init__(
        self, callee: str, inputs: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(result_types)],
            properties={"callee": SymbolRefAttr(callee)},
        )

    @property
    def function_name(self) -> str:
        """The name of the function."""
        return self.callee.string_value()

    @property
    def label(self) -> str:
        """How errors name the operator."""
        return f"'{self.name}' @{self.function_name}"

    def declared_function(self) -> FuncOp | None:
        """The function, if it stands in the module."""
        around = [*ancestors(self)]
        if not around or not around[-1].has_trait(SymbolTable):
            return None
        found = SymbolTable.lookup_symbol(self, self.callee)
        if found is not None and not isinstance(found, FuncOp):
            raise VerifyException(f"{self.label}: @{self.function_name} is a {found.name}")
        return found

    def function(self) -> FuncOp:
        """The function; raises ``VerifyException`` where there is none."""
        function = self.declared_function()
        if function is None:
            raise VerifyException(
                f"{self.label}: there is no function @{self.function_name}; write it in the "
                "module, or bring it from a .te file with --load-operators"
            )
        return function

    def verify_(self) -> None:
        """Checks the function's parameters against operands and results, and its body."""
        if not self.outputs:
            raise VerifyException(f"{self.label} has no result, so that it computes nothing")
        function = self.declared_function()
        if function is not None:
            self._verify_parameters(function)
            self._verify_body(function)

    def _verify_parameters(self, function: FuncOp) -> None:
        types = function.function_type.inputs.data
        arguments = function.body.blocks[0].args if function.body.blocks else ()
        if not all(isinstance(type_, BufferType) for type_ in types) or not arguments:
            raise VerifyException(
                f"{self.label}: @{self.function_name} is no tensor expression; its parameters must "
                "be buffers, and it must have a body"
            )
        inputs = input_parameters(function)
        results = [place for place in range(len(types)) if is_result(function, place)]
        for what, places, values in (
            ("operands", inputs, self.inputs),
            ("results", results, self.outputs),
        ):
            if len(places) != len(values):
                raise VerifyException(
                    f"{self.label}: the function has {len(places)} {what}, got {len(values)}"
                )
            for place, value in zip(places, values, strict=True):
                self._verify_parameter(arguments[place], value)
        for place in written_parameters(function):
            if not is_result(function, place):
                raise VerifyException(
                    f"{self.label}: the function writes its parameter "
                    f"{value_label(arguments[place])}, but operands are values that do not change; "
                    "give it a result, or write a buffer of its own"
                )

    def _verify_parameter(self, parameter: SSAValue, value: SSAValue) -> None:
        type_ = cast(BufferType, parameter.type)
        shape, element = shape_of(value.type), element_type_of(value.type)
        if (type_.get_shape(), type_.element_type) != (shape, element):
            raise VerifyException(
                f"{self.label}: its parameter {value_label(parameter)} has "
                f"{dims(type_.get_shape())} elements of {type_.element_type}, but "
                f"{value_label(value)} has {dims(shape)} of {element}"
            )
        if type_.memory_space not in (None, Space.SHARED):
            raise VerifyException(
                f"{self.label}: its parameter {value_label(parameter)} is in "
                f"{type_.memory_space}, but tiles are in shared memory; leave the space out"
            )

    def _verify_body(self, function: FuncOp) -> None:
        for op in function.walk():
            if isinstance(op, (AsmOp, AnchorOp, AtomicOp, IndexOfOp)):
                raise VerifyException(
                    f"{self.label}: the function has a '{op.name}', of which what a block's "
                    "threads do to its tiles cannot be known"
                )
            if isinstance(op, ParOp):
                if op.is_fully:
                    raise VerifyException(
                        f"{self.label}: the function has a fully parallel loop; in an operator of "
                        "a block which iteration runs on which thread is chosen"
                    )
                if op.scope in (Level.GRID, Level.CLUSTER):
                    raise VerifyException(
                        f"{self.label}: the function has a loop at level {op.scope}, but one block "
                        "runs it on its tiles; leave the level out"
                    )

    def tile_indices(self) -> Sequence[TileIndex]:
        """Those of the function's parallel loops that can be cut; all other dimensions are whole.

        See :mod:`mugraph.dialects.te.cutting`.
        """
        function = self.declared_function()
        found: list[TileIndex] = []
        for cut in [] if function is None else find_cuts(function):
            index = self._tile_index(cut, cast(FuncOp, function))
            if index is not None:
                found.append(index)
        for operand, value in enumerate(self.inputs):
            for dim in range(len(shape_of(value.type))):
                if all(index.operands[operand] != dim for index in found):
                    places = [dim if other == operand else None for other in range(self._arity)]
                    found.append(TileIndex(IndexKind.WHOLE, tuple(places)))
        return found

    @property
    def _arity(self) -> int:
        return len(self.inputs)

    def _tile_index(self, cut: Cut, function: FuncOp) -> TileIndex | None:
        """The index of a cut; ``None`` unless it numbers an operand, and alike all results."""
        results = {
            cut.places.get(place)
            for place in range(len(function.function_type.inputs))
            if is_result(function, place)
        }
        operands = tuple(cut.places.get(place) for place in input_parameters(function))
        if len(results) != 1 or None in results or all(dim is None for dim in operands):
            return None
        return TileIndex(IndexKind.PARALLEL, operands, results.pop())

    def adapt_to_tiles(self) -> None:
        """Calls the function for tiles of the extents that these have now, cut from the one before.

        It is put before that one in the module.
        """
        function = self.declared_function()
        if function is None:
            return
        places = [*input_parameters(function)]
        places += [
            place
            for place in range(len(function.function_type.inputs))
            if is_result(function, place)
        ]
        values = dict(zip(places, (*self.inputs, *self.outputs), strict=True))
        made = function
        for cut in find_cuts(function):
            place, dim = next(iter(cut.places.items()))
            extent = shape_of(values[place].type)[dim]
            if shape_of(function.function_type.inputs.data[place])[dim] != extent:
                made = cut_function(made, cut, extent, self.function_name)
        if made is function:
            return
        shape = "x".join(str(extent) for extent in shape_of(self.outputs[0].type))
        symbol = f"{self.function_name}_{shape}"
        made.sym_name = StringAttr(symbol)
        block = function.parent_block()
        assert block is not None
        known = next(
            (op for op in block.ops if isinstance(op, FuncOp) and op.sym_name.data == symbol), None
        )
        if known is None:
            block.insert_op_before(made, function)
        self.callee = SymbolRefAttr(symbol)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Element by element along what is innermost."""
        accesses: list[SharedAccess] = []
        for value in (*self.inputs, *self.outputs):
            inner = innermost_of(value)
            walk = len(shape_of(value.type)) - 1 if inner is None else inner
            accesses.append(SharedAccess(value, walk, 1))
        return accesses
