"""Settings, each from an environment variable `EVERYNUMBER_…`."""

from __future__ import annotations

import re
from typing import Literal

from limits import parse
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class AppSettings(BaseSettings):
    """The defaults run the embedded model for one reader on this machine."""

    model_config = SettingsConfigDict(env_prefix="EVERYNUMBER_")

    host: str = Field("127.0.0.1", description="Where to listen: a name or an address; 0.0.0.0 is every IPv4 address.")
    port: int = Field(8000, ge=0, le=65535, description="The port; 0: any that is free.")
    workers: int = Field(1, ge=1, le=64, description="Processes that serve, each with models and runs of its own.")
    root_path: str = Field("", description="The path under which a proxy shows the app, such as /every-number.")
    public_url: str = Field(
        "", description="Scheme and host that readers use, such as https://example.org; empty: as the request says."
    )
    trusted_hops: int = Field(
        0, ge=0, le=16, description="How many proxies in front are trusted to say who asks and for which host."
    )
    frame_ancestors: str = Field(
        "*", description="Sites that may frame the pages under /embed, as in https://moodle.example.org; *: any."
    )
    model: str = Field(
        "embedded", description="The default checkpoint: embedded, toy, gpt2 (or another size), or a directory."
    )
    models: str = Field("", description="More checkpoints: directories that are one or hold some, joined by “:”.")
    model_memory_mb: int = Field(0, ge=0, description="Memory for loaded models, in MiB; 0: half of the machine's.")
    downloads: Literal["local", "admin", "off"] = Field(
        "local",
        description="Who may fetch published models from the hub: whoever sits at this machine or has the admin token "
        "(local), only who has the token (admin), nobody (off).",
    )
    admin_token: SecretStr = Field(SecretStr(""), description="The word that lets others fetch models; empty: none.")
    run_memory_mb: int = Field(768, ge=1, description="Memory for runs kept in the cache, in MiB.")
    long_run_mb: int = Field(
        200,
        ge=0,
        description="A run whose captured numbers would take more than this, in MiB, keeps its residual stream alone; "
        "the inside of a block is computed again when it is looked at. GPT-2 small reaches 200 at 165 tokens.",
    )
    run_threads: int = Field(2, ge=1, le=64, description="How many runs are computed at the same time.")
    threads: int = Field(0, ge=0, le=256, description="PyTorch's threads; 0: one for a small default model, else all.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where networks run: auto (a GPU where PyTorch has one), cpu, cuda."
    )
    run_queue: int = Field(64, ge=1, description="How many different runs may wait; one more is told to come back.")
    generate_seconds: float = Field(
        0.8, ge=0, le=60, description="How long one request makes tokens before it shows what there is (one at least)."
    )
    generation_memory_mb: int = Field(256, ge=1, description="Memory for texts being made, in MiB.")
    job_workers: int = Field(1, ge=1, le=16, description="How many jobs (learning steps) run at the same time.")
    job_queue: int = Field(8, ge=1, description="How many different jobs may wait; one more is told to come back.")
    job_memory_mb: int = Field(64, ge=1, description="Memory for the results of jobs, in MiB.")
    max_numbers: int = Field(1_000_000, ge=1, description="Most numbers in one JSON or CSV answer.")
    max_file_numbers: int = Field(100_000_000, ge=1, description="Most numbers in one NPY file.")

    max_text: int = Field(50_000, ge=1, description="Most characters of a text.")
    max_body_kb: int = Field(256, ge=1, description="Most kB of a request's body.")
    rate: str = Field("6000/minute", description="Requests that one client may make, as in 6000/minute; empty: any.")
    rate_costly: str = Field(
        "600/minute", description="Those of them that compute: new runs, tokens, jobs, files; empty: any number."
    )
    jobs_per_client: int = Field(6, ge=1, description="Jobs of one client that may wait or run.")
    max_connections: int = Field(4000, ge=0, description="Connections at the same time; 0: any number.")
    client_seconds: float = Field(
        60, gt=0, description="How long a client may take for its request, or take nothing of the answer."
    )
    keep_alive_seconds: int = Field(30, ge=1, description="How long a connection may idle between two requests.")
    stop_seconds: int = Field(20, ge=0, description="How long running requests may go on when the server is stopped.")
    metrics: Literal["local", "on", "off"] = Field(
        "local", description="Who may read /metrics: private networks and who has the admin token, all, or nobody."
    )
    log: Literal["text", "json"] = Field("text", description="How logs are written, a line each.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="What is logged; info: every request."
    )
    log_readers: bool = Field(False, description="Also log what readers write and their addresses.")

    @field_validator("rate", "rate_costly")
    @classmethod
    def readable(cls, given: str) -> str:
        """One limit in the notation of the package `limits`."""
        try:
            if given.strip():
                parse(given)
        except ValueError:
            raise ValueError("write a number and a time, as in 600/minute, 20/second or 1000/2 hours") from None
        return given.strip()

    @field_validator("frame_ancestors")
    @classmethod
    def sources(cls, given: str) -> str:
        """What may stand in that part of a content security policy, and nothing that would begin another."""
        names = given.split()
        if not names or not all(re.fullmatch(r"'self'|'none'|\*|(https?://)?[A-Za-z0-9*.:-]+", name) for name in names):
            raise ValueError("write hosts with spaces between, as in https://moodle.example.org; * is any, 'none' none")
        return " ".join(names)

    @field_validator("root_path")
    @classmethod
    def prefix(cls, given: str) -> str:
        """“every-number/” and “/every-number” mean the same; “/” means none."""
        path = "/" + given.strip("/") if given.strip("/") else ""
        if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", path) or "/." in path:
            raise ValueError("write a path of letters, digits and - . _ ~, as in /every-number")
        return path

    @field_validator("public_url")
    @classmethod
    def origin(cls, given: str) -> str:
        """Scheme, host and port; the path is `root_path`'s."""
        if given and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+/?", given):
            raise ValueError("write a scheme and a host, as in https://example.org; the path goes to ROOT_PATH")
        return given.rstrip("/")
