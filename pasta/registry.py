"""Registries of stages, tools, importers and collectors, filled by decorators."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from pasta.errors import PastaError, did_you_mean

ENTRY_POINT_GROUP = "pasta"

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind.

    The first look-up imports every module of `package`, whose decorators register what they
    define, and then loads the entry points of group "pasta" from installed distributions.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self._package = package
        self._items: dict[str, T] = {}
        self._loaded = package is None

    def add(self, name: str, item: T) -> T:
        """Register `item` under `name`, and return it, as decorators do.

        Raises:
            PastaError: there is one of that name.
        """
        if name in self._items:
            raise PastaError(f"there is already a {self.kind} named '{name}'; choose another name")
        self._items[name] = item
        return item

    def get(self, name: str) -> T:
        """Return the item called `name`.

        Raises:
            PastaError: there is none; with the nearest name that exists.
        """
        self._load()
        if name not in self._items:
            raise PastaError(f"no {self.kind} '{name}'.{did_you_mean(name, self._items)}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._items))

    def _load(self) -> None:
        if self._loaded or self._package is None:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
            importlib.import_module(module.name)
        for point in entry_points(group=ENTRY_POINT_GROUP):
            _load_plugin(point)


def _load_plugin(point: EntryPoint) -> None:
    try:
        point.load()
    except PastaError:
        raise
    except Exception as error:
        owner = point.dist.name if point.dist is not None else point.name
        raise PastaError(
            f"the plugin {owner} cannot be loaded: its module {point.module} fails with {error!r};"
            f" mend it, or pip uninstall {owner}"
        ) from error
