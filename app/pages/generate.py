"""Generation: a text continued token by token, every choice laid open."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)
