"""All live parts by name: whichever modules of this package declare one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import app.parts
from app.parts.base import PARTS

__all__ = ["PARTS"]

for module in iter_modules(app.parts.__path__, "app.parts."):
    import_module(module.name)
