"""The ``cute`` dialect: attributes only."""

from xdsl.ir import Dialect

from mugraph.dialects.cute.attributes import LayoutAttr, TiledMmaAttr

CuteDialect = Dialect("cute", [], [LayoutAttr, TiledMmaAttr])
