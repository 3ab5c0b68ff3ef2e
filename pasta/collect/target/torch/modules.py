"""Names of modules: where they stand in the model that was called."""

from __future__ import annotations

import weakref
from typing import Any


class ModuleNames:
    """Paths of modules below the outermost ones that were called."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._roots: dict[int, weakref.ref[Any]] = {}

    def adopt(self, root: Any) -> bool:
        """Learn the paths of all modules in `root`; `False` where they are known already."""
        known = self._roots.get(id(root))
        if known is not None and known() is root:
            return False
        self._roots[id(root)] = weakref.ref(root)
        for path, module in root.named_modules():
            self._paths[id(module)] = (weakref.ref(module), path)
        return True

    def name(self, module: Any) -> str:
        """Return `blocks.0.attention (Attention)`; for a root or a stranger, the class alone."""
        kind = type(module).__name__
        reference, path = self._paths.get(id(module), (None, ""))
        if reference is None or reference() is not module or not path:
            return kind
        return f"{path} ({kind})"
