"""The algebra of layouts: its laws, and coalesce, filter and composition.

Complements and inverses are in :mod:`mugraph.dialects.cute.inverses`.

Write ``A(c)`` for the index of ``c`` and ``A ≃ B`` for layouts that are equal as functions of a
1-D coordinate.

coalesce
    ``coalesce(A) ≃ A``, with the fewest modes.

composition
    ``(A ∘ B)(c) = A(B(c))`` for every coordinate ``c`` of B, and ``shape(B) ⪯ shape(A ∘ B)``.
    Identities ``I ∘ B = B`` and ``A ∘ I_A = A``; associative (where C stays in B's domain,
    ``(A ∘ B) ∘ C = A ∘ (B ∘ C)``); and ``A ∘ (B1, B2) = (A ∘ B1, A ∘ B2)``.

    Not every pair composes to a layout.  Coalesce A to ``(n0,n1,...):(d0,d1,...)``.  For each leaf
    ``s:d`` of B, going through A's modes from the left with the rest ``s:d``:

    - *stride divisibility*: if the leaf steps over mode k (``d >= nk``), ``nk`` divides ``d``;
    - *shape divisibility*: if it runs out of mode k into the next, ``d`` divides ``nk``, and
      ``nk / d`` divides ``s``;
    - *no carry*: the leaves of B together never reach past the end of any mode of A but the last,
      and B's strides are all of one sign if A has several modes.  Without this the sum of two
      leaves' indices would carry into A's next mode, and A is not linear there.  (CuTe does not
      check it, and returns a layout that is not the composition.)

    Then the result is exact, for every coordinate; A is continued along its last mode, so an index
    past the end of A is no error.

complement
    ``A* = complement(A, M)``: ordered (its strides increase), disjoint from A (the only index they
    share is 0), and such that ``(A, A*)`` is a bijection onto its range ``[0, M')``, M' >= M, when
    A is injective and its strides nest.

right_inverse, left_inverse
    ``A(A‡(i)) = i`` for all ``i < size(A‡)``, as large as a prefix of the integers that A covers;
    ``A†(A(c)) = c`` for all coordinates of an injective A.

divide and product
    ``logical_divide(A, B) = A ∘ (B, B*)``: a layout of Bs from A.
    ``logical_product(A, B) = (A, A* ∘ B)``: a layout of As, placed by B.

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slides "CuTe in a Slide", "Layout
Composition"; NVIDIA's CuTe for the forms of the results, which are its own wherever its result
satisfies the definition.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast, overload

from mugraph.dialects.cute.basis import ScaledBasis
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.f2 import bit_images
from mugraph.dialects.cute.int_tuple import (
    IntTuple,
    Nested,
    is_tuple,
    to_text,
)
from mugraph.dialects.cute.layout import (
    Layout,
    Tiler,
    is_layout,
    make_flat,
    make_layout,
    make_unchecked,
)
from mugraph.dialects.cute.swizzle import ComposedLayout, Swizzle, make_swizzle

L = TypeVar("L", bound="Layout[Any] | ComposedLayout")
"""A layout or a swizzled layout: what goes in comes out."""


def keep_swizzle(layout: ComposedLayout, inner: Layout[int]) -> Any:
    """``layout`` with another inner layout."""
    return ComposedLayout(layout.swizzle, layout.offset, inner)


# --- coalesce and filter ---


def coalesce_flat(shape: tuple[int, ...], stride: tuple[Any, ...]) -> Layout[Any]:
    """The layout of fewest modes with the same indices, extents of 1 dropped."""
    extents: list[int] = []
    steps: list[Any] = []
    following: Any = None
    for extent, step in zip(shape, stride, strict=True):
        if extent == 1:
            continue
        if following is not None and following == step:
            extents[-1] *= extent
        else:
            extents.append(extent)
            steps.append(step)
        following = step * extent
    if not extents:
        return make_flat((1,), (0,))
    return make_flat(tuple(extents), tuple(steps))


def _by_mode(operation: Any, layout: Any, profile: IntTuple) -> Any:
    """``operation`` applied where ``profile`` has a leaf; modes beyond the profile stay."""
    if not isinstance(profile, tuple):
        return operation(layout)
    if len(profile) > layout.rank:
        raise LayoutError(
            f"The profile {to_text(profile)} has {len(profile)} modes, the layout {layout} only "
            f"{layout.rank}."
        )
    modes = list(layout)
    for mode, part in enumerate(profile):
        modes[mode] = _by_mode(operation, modes[mode], part)
    return make_layout(*modes)


def coalesce(layout: L, profile: IntTuple = 0) -> L:
    """The same function of a 1-D coordinate with the fewest modes.

    With a tuple for ``profile``, by mode: ``coalesce(A, (0, 0))`` keeps A's first two modes apart.
    ``(2,(1,6)):(1,(6,2))`` gives ``12:1``.
    """
    if isinstance(layout, ComposedLayout):
        return keep_swizzle(layout, coalesce(layout.layout, profile))
    plain: Layout[Any] = layout
    if isinstance(profile, tuple):
        return _by_mode(coalesce, plain, profile)
    return cast("L", coalesce_flat(plain.flat_shape, plain.flat_stride))


def coalesced_modes(layout: Layout[int]) -> tuple[tuple[int, int], ...]:
    """Extents and strides in order: extents of 1 vanish, modes that continue each other merge."""
    modes: list[tuple[int, int]] = []
    for extent, stride in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if extent == 1:
            continue
        if modes and stride == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * extent, modes[-1][1])
        else:
            modes.append((extent, stride))
    return tuple(modes)


def filter_zeros(layout: L) -> L:
    """The layout with the extent of every mode of stride 0 set to 1: same nesting, same image."""
    if isinstance(layout, ComposedLayout):
        return keep_swizzle(layout, filter_zeros(layout.layout))

    def extents(shape: IntTuple, stride: Nested[Any]) -> IntTuple:
        if isinstance(shape, tuple):
            return tuple(extents(s, d) for s, d in zip(shape, cast("Any", stride), strict=True))
        return 1 if stride == 0 else shape

    return cast("L", make_unchecked(extents(layout.shape, layout.stride), layout.stride))


def filter_layout(layout: L, profile: IntTuple = 0) -> L:
    """CuTe's ``filter``: modes of stride 0 and extent 1 removed, the rest coalesced."""
    if isinstance(layout, ComposedLayout):
        return keep_swizzle(layout, filter_layout(layout.layout, profile))
    if isinstance(profile, tuple):
        return _by_mode(filter_layout, layout, profile)
    return coalesce(filter_zeros(layout))


# --- composition ---


class _Modes:
    """The modes of a coalesced left operand, and how far the right operand's leaves reach in each.

    The last mode keeps its stride even at extent 1, because indices past the end run along it.
    """

    __slots__ = ("down", "extents", "falls", "last", "owner", "rises", "steps", "up")

    def __init__(self, layout: Layout[Any]):
        shape, stride = layout.flat_shape, layout.flat_stride
        if shape and shape[-1] == 1:
            shape = (*shape[:-1], 2)
        flat = coalesce_flat(shape, stride)
        self.owner = layout
        self.extents = flat.flat_shape
        self.steps = flat.flat_stride
        self.last = len(self.extents) - 1
        self.up: list[int] = [0] * self.last
        self.down: list[int] = [0] * self.last
        self.rises = self.falls = False

    def compose_leaf(self, extent: int, step: int, right: Layout[Any]) -> tuple[Any, Any]:
        """The shape and stride of ``owner ∘ extent:step``, ``right`` being named in errors."""
        last = self.last
        if last == 0:
            return extent, step * self.steps[0]
        if step == 0:
            return extent, 0
        if extent == 1:
            return 1, 0
        rest = extent
        if step > 0:
            sign, rest_step, reach = 1, step, self.up
            self.rises = True
        else:
            sign, rest_step, reach = -1, -step, self.down
            self.falls = True
        shapes: list[int] = []
        strides: list[Any] = []
        for mode in range(last):
            bound = self.extents[mode]
            if rest_step >= bound:
                if rest_step % bound:
                    raise self._indivisible(mode, rest_step, extent, step, right)
                rest_step //= bound
                continue
            inside = -(-bound // rest_step)
            if rest > inside:
                if bound % rest_step or rest % inside:
                    raise self._runs_out(mode, rest, rest_step, extent, step, right)
                taken = inside
            else:
                taken = rest
            shapes.append(taken)
            strides.append(self.steps[mode] * (sign * rest_step))
            reach[mode] += (taken - 1) * rest_step
            rest //= taken
            rest_step = 1
            if rest == 1:
                break
        else:
            shapes.append(rest)
            strides.append(self.steps[last] * (sign * rest_step))
        if len(shapes) == 1:
            return shapes[0], strides[0]
        return tuple(shapes), tuple(strides)

    def check_no_carry(self, right: Layout[Any]) -> None:
        """Raise LayoutError if indices of the right operand would carry from mode to mode."""
        if self.last and self.rises and self.falls:
            raise LayoutError(
                f"composition({self.owner}, {right}): strides of both signs would borrow from mode "
                f"to mode of the left layout, coalesced {make_flat(self.extents, self.steps)}. "
                "Compose with a left layout of one mode, or split the right one."
            )
        for mode in range(self.last):
            reach = max(self.up[mode], self.down[mode])
            if reach >= self.extents[mode]:
                raise LayoutError(
                    f"composition({self.owner}, {right}): together the modes of {right} reach "
                    f"{reach} in {self._described(mode)}, whose extent is {self.extents[mode]}; "
                    "their sum would carry into the next mode. Compose the modes one at a time, or "
                    "use strides that do not overlap."
                )

    def _described(self, mode: int) -> str:
        coalesced = make_flat(self.extents, self.steps)
        return f"mode {mode} of the left layout, coalesced {coalesced}"

    def _indivisible(
        self, mode: int, rest_step: int, extent: int, step: int, right: Layout[Any]
    ) -> LayoutError:
        return LayoutError(
            f"composition({self.owner}, {right}): the stride of the mode {extent}:{step} cannot "
            f"step over {self._described(mode)}: its extent {self.extents[mode]} does not divide "
            f"{rest_step} (stride divisibility)."
        )

    def _runs_out(
        self, mode: int, rest: int, rest_step: int, extent: int, step: int, right: Layout[Any]
    ) -> LayoutError:
        bound = self.extents[mode]
        if bound % rest_step:
            reason = f"the stride {rest_step} does not divide the extent {bound}"
        else:
            reason = f"{bound // rest_step} elements a row do not divide the extent {rest}"
        return LayoutError(
            f"composition({self.owner}, {right}): the mode {extent}:{step} runs out of "
            f"{self._described(mode)}, and {reason} (shape divisibility)."
        )


def _compose_layouts(left: Layout[Any], right: Layout[Any]) -> Layout[Any]:
    whole: _Modes | None = None
    parts: dict[tuple[int, ...], _Modes] = {}
    leaves_shape: list[Any] = []
    leaves_stride: list[Any] = []
    for extent, step in zip(right.flat_shape, right.flat_stride, strict=True):
        if isinstance(step, ScaledBasis):
            modes = parts.get(step.modes)
            if modes is None:
                try:
                    modes = parts[step.modes] = _Modes(left.get(*step.modes))
                except IndexError as error:
                    raise LayoutError(f"composition({left}, {right}): {error}") from None
            step = step.value
        else:
            if whole is None:
                whole = _Modes(left)
            modes = whole
        leaf_shape, leaf_stride = modes.compose_leaf(extent, step, right)
        leaves_shape.append(leaf_shape)
        leaves_stride.append(leaf_stride)
    if whole is not None:
        whole.check_no_carry(right)
    for modes in parts.values():
        modes.check_no_carry(right)
    if not isinstance(right.shape, tuple):
        return make_unchecked(leaves_shape[0], leaves_stride[0])
    if right.shape == right.flat_shape:
        return make_unchecked(tuple(leaves_shape), tuple(leaves_stride))
    return make_unchecked(
        _refill(right.shape, iter(leaves_shape)), _refill(right.shape, iter(leaves_stride))
    )


def _refill(profile: IntTuple, leaves: Any) -> Any:
    """``profile`` with its leaves replaced, in order."""
    if isinstance(profile, tuple):
        return tuple([_refill(item, leaves) for item in profile])
    return next(leaves)


@overload
def composition(left: Swizzle, right: Layout[int] | ComposedLayout) -> ComposedLayout: ...
@overload
def composition(left: Swizzle, right: Swizzle) -> Swizzle: ...
@overload
def composition(
    left: Layout[int] | ComposedLayout, right: ComposedLayout | Swizzle
) -> ComposedLayout: ...
@overload
def composition(left: L, right: Tiler) -> L: ...


def composition(left: Any, right: Any) -> Any:
    """``left ∘ right``: the layout ``c -> left(right(c))``, whose shape refines ``right``'s.

    ``right`` may be a layout, a swizzled layout (if its swizzle can be moved to the left of
    ``left``), or a tiler, which composes by mode: ``composition(A, (4, B, _))`` is A's first mode
    cut to 4 elements, its second composed with B, and its third.
    ``left`` may be a swizzle, and so may ``right``, where it can be moved.  Basis strides in
    ``right`` pick modes of ``left``.

    Raises LayoutError naming the modes where the pair is not admissible (see the module's text).
    """
    return _compose(left, right)


def _compose(left: Any, right: Any) -> Any:
    if is_layout(left):
        if is_layout(right):
            return _compose_layouts(left, right)
        if isinstance(right, ComposedLayout):
            return _compose_swizzled(left, right)
        if isinstance(right, Swizzle):
            return ComposedLayout(move_swizzle_left(left, right), 0, left)
        if right is None:
            return left
        if isinstance(right, int):
            return _compose_layouts(left, Layout(right, 1))
        if is_tuple(right):
            if len(right) > left.rank:
                raise LayoutError(
                    f"composition: a tiler of {len(right)} modes does not fit the layout {left} "
                    f"of {left.rank}."
                )
            return make_layout(*[_compose(left[m], tiler) for m, tiler in enumerate(right)])
    elif isinstance(left, ComposedLayout):
        if isinstance(right, (ComposedLayout, Swizzle)):
            moved: ComposedLayout = _compose(left.layout, right)
            if left.offset:
                raise LayoutError(
                    f"composition({left}, {right}): the offset {left.offset} stands between two "
                    "swizzles, which cannot be merged."
                )
            return _compose(left.swizzle, moved)
        return keep_swizzle(left, _compose(left.layout, right))
    elif isinstance(left, Swizzle):
        if isinstance(right, Swizzle):
            return merge_swizzles(left, right)
        if isinstance(right, ComposedLayout):
            merged = merge_swizzles(left, right.swizzle)
            return ComposedLayout(merged, right.offset, right.layout)
        if is_layout(right):
            return ComposedLayout(left, 0, right)
    raise LayoutError(f"composition({left}, {right}): these two do not compose.")


def merge_swizzles(outer: Swizzle, inner: Swizzle) -> Swizzle:
    """``outer ∘ inner`` as one swizzle.

    Raises LayoutError where the composition is not a swizzle: different shifts, or bits that the
    inner one changes and the outer one reads, or bits that do not join up.
    """
    if not outer.bits:
        return inner
    if not inner.bits:
        return outer
    if outer.shift != inner.shift or outer.source_mask & inner.target_mask:
        raise LayoutError(
            f"{outer} after {inner} is not a swizzle: their shifts must be equal, and the bits the "
            "first changes must not be read by the second. Keep them as F2 linear maps instead."
        )
    source = outer.source_mask ^ inner.source_mask
    target = outer.target_mask ^ inner.target_mask
    merged = make_swizzle(source, target)
    return merged if merged.bits else Swizzle(0, outer.base, outer.shift)


def move_swizzle_left(layout: Layout[int], swizzle: Swizzle) -> Swizzle:
    """The swizzle S' with ``layout ∘ swizzle = S' ∘ layout`` on the whole domain of ``layout``.

    Exists when the layout is linear over F2, maps the bits the swizzle reads and those it changes
    to runs of single bits, and is not read in those bits by anything else.
    Raises LayoutError otherwise; :class:`mugraph.dialects.cute.f2.LinearMap` can still compose.
    """
    if not swizzle.bits:
        return swizzle
    explanation = f"The swizzle {swizzle} cannot be moved to the left of {layout}: "
    images = bit_images(layout)
    if images is None:
        raise LayoutError(
            explanation + "the layout is not linear over F2 (extents that are powers of two, "
            "strides whose multiples share no bits)."
        )
    source = target = 0
    for bit in range(swizzle.bits):
        read = swizzle.base + max(0, swizzle.shift) + bit
        changed = swizzle.base - min(0, swizzle.shift) + bit
        if read >= len(images):
            continue
        if changed >= len(images):
            raise LayoutError(explanation + f"it leaves the domain of {layout.size()} coordinates.")
        if images[changed]:
            source |= images[read]
            target |= images[changed]
    try:
        moved = make_swizzle(source, target)
    except LayoutError as error:
        raise LayoutError(explanation + str(error)) from None
    for bit in range(len(images)):
        if moved(images[bit]) != layout(swizzle(1 << bit)):
            raise LayoutError(explanation + "the layout reorders the bits it works on.")
    return moved


def _compose_swizzled(left: Layout[int], right: ComposedLayout) -> ComposedLayout:
    if right.offset:
        raise LayoutError(
            f"composition({left}, {right}): a swizzled layout with an offset cannot be the right "
            "operand; add the offset to the coordinates first."
        )
    reach = 1 << max(0, (right.layout.cosize() - 1).bit_length())
    if reach > left.size():
        raise LayoutError(
            f"composition({left}, {right}): the right layout reaches index "
            f"{right.layout.cosize() - 1}, but the left one has only {left.size()} coordinates."
        )
    moved = move_swizzle_left(left, right.swizzle)
    return ComposedLayout(moved, 0, _compose_layouts(left, right.layout))
