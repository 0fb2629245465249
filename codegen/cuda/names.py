"""C++ identifiers for symbols and values of the IR.

Nothing of the input reaches C++ as it is: names keep letters, digits and single underscores only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.ir import SSAValue

_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    """.split()  # noqa: SIM905
)
_TAKEN = frozenset(
    """
    buf cute dim3 gridDim blockDim blockIdx threadIdx warpSize std size_t int64_t uint32_t
    input_tensors output_tensors stream smem warp_smem thread it kn tb ops mugraph atoms half_t
    bfloat16_t
    float_e4m3_t float_e5m2_t int8_t int32_t Layout
    Shape Stride Int Swizzle ComposedLayout main errno unix linux
    A B Target Tile Source Source0 Source1 Source2 i0 i1 i2 i3 i4 i5 i6 i7
    """.split()  # noqa: SIM905
)
"""What generated code and its headers call things: types, macros, namespaces and variables."""


def sanitize(name: str) -> str:
    """``name`` as a C++ identifier; different names may come out the same."""
    identifier = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_")
    if not identifier or identifier[0].isdigit():
        identifier = f"v{identifier}"
    # Names in capitals may be macros of some header.
    may_be_macro = identifier.isupper() and len(identifier) > 1
    taken = identifier in _KEYWORDS or identifier in _TAKEN or may_be_macro
    return f"{identifier}_v" if taken else identifier


class Names:
    """Hands out identifiers, each once, and remembers those of values."""

    def __init__(self, root: Callable[[SSAValue], SSAValue] = lambda value: value) -> None:
        """Values of one ``root`` share an identifier."""
        self._root = root
        self._used: set[str] = set()
        self._of_value: dict[SSAValue, str] = {}

    def beside(self) -> Names:
        """Identifiers for other uses of the same values; none is handed out twice."""
        others = Names(self._root)
        others._used = self._used
        return others

    def fresh(self, wish: str) -> str:
        """An identifier like ``wish`` that has not been handed out."""
        base = sanitize(wish)
        name, count = base, 0
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        return name

    def reserve(self, name: str) -> None:
        """Keeps an identifier from being handed out."""
        self._used.add(name)

    def of(self, value: SSAValue) -> str:
        """The identifier of a value."""
        value = self._root(value)
        if value not in self._of_value:
            self._of_value[value] = self.fresh(value.name_hint or "v")
        return self._of_value[value]
