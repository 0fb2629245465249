"""The ``cute`` dialect: attributes only."""

from xdsl.ir import Dialect

from mugraph.dialects.cute.attributes import (
    CopyAtomAttr,
    LayoutAttr,
    MmaAtomAttr,
    TiledMmaAttr,
)

CuteDialect = Dialect("cute", [], [LayoutAttr, MmaAtomAttr, CopyAtomAttr, TiledMmaAttr])
