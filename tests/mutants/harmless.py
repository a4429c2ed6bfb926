"""Mutants that change nothing a reader or a test could see, each with the reason: see docs/testing.md."""

from __future__ import annotations

# A mutant's key -> why it is harmless. Such mutants are not run.
HARMLESS: dict[str, str] = {}
