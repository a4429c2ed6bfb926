"""JSON for programs: a text continued, every choice in numbers."""

from __future__ import annotations

from fastapi import APIRouter

from app.api import ERRORS

router = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["Every Number"])
