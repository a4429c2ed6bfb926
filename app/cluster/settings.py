"""How many replicas, and what they reserve."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ClusterSettings(BaseSettings):
    """How many replicas, each from an environment variable `EVERYNUMBER_CLUSTER_…`."""

    model_config = SettingsConfigDict(env_prefix="EVERYNUMBER_CLUSTER_")

    pages_min: int = Field(1, ge=1, description="Fewest replicas that answer pages and the API.")
    pages_max: int = Field(4, ge=1, description="Most of them.")
    pages_requests: float = Field(8, gt=0, description="Requests under way or waiting for which one of them is meant.")
    jobs_min: int = Field(1, ge=1, description="Fewest replicas that take learning steps.")
    jobs_max: int = Field(2, ge=1, description="Most of them.")
    jobs_each: float = Field(2, gt=0, description="Jobs running or waiting for which one of them is meant.")
    fronts: int = Field(1, ge=1, description="Replicas that pass requests on to the others.")
    cpus: float = Field(0.5, ge=0, description="Cores that one replica reserves: more than there are hold it back.")
    memory_mb: int = Field(0, ge=0, description="Memory that one replica reserves, in MiB; 0: none.")
    upscale_seconds: float = Field(5, ge=0, description="How long there must be too few before one is added.")
    downscale_seconds: float = Field(120, ge=0, description="How long there must be too many before one ends.")
