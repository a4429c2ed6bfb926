"""`python -m app.cluster`: serve on this machine, or on the Ray cluster that RAY_ADDRESS names, until Ctrl-C."""

from __future__ import annotations

import os
import signal
from threading import Event

import ray
from ray import serve
from ray.serve.config import HTTPOptions

from app.cluster.application import application
from app.cluster.settings import ClusterSettings
from app.settings import AppSettings


def main() -> None:
    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    settings = AppSettings()
    ray.init(address=os.environ.get("RAY_ADDRESS"), ignore_reinit_error=True)
    serve.start(http_options=HTTPOptions(host=settings.host, port=settings.port))
    serve.run(application(settings, ClusterSettings()), name="every-number", route_prefix="/")
    print(f"Every Number: http://{settings.host}:{settings.port}", flush=True)
    stopped.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
