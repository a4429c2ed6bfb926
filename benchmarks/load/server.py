"""A server in a process of its own, to be loaded, watched and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """`python -m app`, or another module that says `Every Number: http…` when it serves. A context manager."""

    def __init__(self, module: str = "app", **settings: str) -> None:
        """`settings` are environment variables."""
        self.module, self.port = module, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = Path(tempfile.mkstemp(suffix=".log")[1])
        self.environment = os.environ | {"EVERYNUMBER_PORT": str(self.port), "EVERYNUMBER_TRUSTED_HOPS": "1"} | settings
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 120) -> float:
        """Begin, and wait until it is ready; how long that took. Raises RuntimeError with the log's end."""
        began = time.monotonic()
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module], cwd=ROOT, env=self.environment, stdout=out, stderr=out
            )
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() - began > seconds:
                raise RuntimeError(self.log.read_text("utf-8", "replace")[-3000:])
            time.sleep(0.05)
        return time.monotonic() - began

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except (URLError, OSError):
            return False

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        try:
            with urlopen(self.url + path, timeout=60) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    def memory(self) -> dict[str, float]:
        """MiB: resident now, and the most so far (Linux)."""
        assert self.process
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        return {name: int(found[key].split()[0]) / 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}

    def kill(self) -> None:
        """kill −9."""
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit status; killed where that takes more than a minute."""
        assert self.process
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process and self.process.poll() is None:
            self.stop()
        self.log.unlink(missing_ok=True)
