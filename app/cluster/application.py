"""The deployments and how many replicas each has: `python -m app.cluster` runs them on this machine or on a cluster."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator
from typing import Any

from ray import serve
from ray.serve import Application, Deployment
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy

from app.cluster.front import Front
from app.cluster.replica import InProcess, ResponseHead
from app.cluster.routing import ForwardedRequest
from app.cluster.settings import ClusterSettings
from app.main import create_app
from app.services import Services
from app.settings import AppSettings

MOST_HELD = 1000  # names of models or jobs that one replica is known to hold


class Replica:
    """The ordinary app in a process of its own."""

    def __init__(self, settings: AppSettings) -> None:
        app = create_app(settings)
        self.services: Services = app.state.services
        self.services.models.get("")
        self.app = InProcess(app, f"{serve.get_replica_context().replica_id.unique_id}-{os.getpid()}")

    @serve.multiplexed(max_num_models_per_replica=MOST_HELD)
    async def hold(self, name: str) -> str:
        """Tells the cluster that this replica holds that model or job. The app itself keeps and drops them."""
        return name

    async def answer(self, asked: ForwardedRequest) -> AsyncIterator[ResponseHead | bytes]:
        """See `InProcess.answer`."""
        if name := serve.get_multiplexed_model_id():
            await self.hold(name)
        async for piece in self.app.answer(asked):
            yield piece

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What the number of replicas that learn is chosen by."""
        return {"jobs": float(len(self.services.jobs.unfinished))}


def as_jobs_need(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """One replica for every `target_ongoing_requests` jobs that run or wait; the bounds are Ray's to keep."""
    jobs = sum((context.aggregated_metrics or {}).get("jobs", {}).values())
    return max(1, math.ceil(jobs / context.config.target_ongoing_requests)), {}


def application(settings: AppSettings, cluster: ClusterSettings) -> Application:
    """All deployments, bound together."""
    pages = replicas("Pages", cluster, cluster.pages_min, cluster.pages_max, cluster.pages_requests, at_once=64)
    jobs = replicas(
        "Jobs", cluster, cluster.jobs_min, cluster.jobs_max, cluster.jobs_each, at_once=256,
        policy=AutoscalingPolicy(policy_function=as_jobs_need),
    )  # fmt: skip
    front = serve.deployment(
        name="Front", num_replicas=cluster.fronts, ray_actor_options={"num_cpus": 0}, max_ongoing_requests=1000
    )(Front)
    bound: Application = front.bind(settings, pages.bind(settings), jobs.bind(settings))
    return bound


def replicas(
    name: str, cluster: ClusterSettings, least: int, most: int, each: float, *, at_once: int, **policy: Any
) -> Deployment:
    """Replicas of the app by that name: `least` to `most` of them, one for every `each` requests or jobs under way."""
    memory = {"memory": cluster.memory_mb * 2**20} if cluster.memory_mb else {}
    return serve.deployment(
        name=name,
        ray_actor_options={"num_cpus": cluster.cpus} | memory,
        max_ongoing_requests=at_once,
        autoscaling_config=AutoscalingConfig(
            min_replicas=least,
            max_replicas=max(least, most),
            target_ongoing_requests=each,
            upscale_delay_s=cluster.upscale_seconds,
            downscale_delay_s=cluster.downscale_seconds,
            metrics_interval_s=1.0,
            look_back_period_s=3.0,
            **policy,
        ),
    )(Replica)
