"""Settings, each from an environment variable `EVERYNUMBER_…`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The defaults run the embedded model for one reader on this machine."""

    model_config = SettingsConfigDict(env_prefix="EVERYNUMBER_")

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    model: str = Field("embedded", description="The default checkpoint: embedded, toy, or a directory.")
    run_memory_mb: int = Field(512, ge=1, description="Memory for runs kept in the cache, in MiB.")
