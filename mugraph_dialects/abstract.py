"""The base of abstract classes of the dialects."""

from __future__ import annotations

from abc import ABCMeta


class NominalMeta(ABCMeta):
    """The type of abstract classes whose instances inherit from them.

    No class is registered with one.  So ``isinstance`` need not look for registered classes, as
    ``ABCMeta`` does: passes ask nothing as often.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class Abstract(metaclass=NominalMeta):
    """A base in place of ``abc.ABC``."""

    __slots__ = ()
