"""What one app holds: its settings, models, runs and templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from app.render.templating import Templates
from app.request.state import State
from app.settings import AppSettings
from app.stores.cards import CardStore
from app.stores.generations import Generations
from app.stores.jobs import JobStore
from app.stores.models import ModelStore
from app.stores.runs import RunStore
from model import Run


@dataclass(frozen=True)
class Services:
    """Made once by `create_app`, reached by every route."""

    settings: AppSettings
    models: ModelStore
    runs: RunStore
    jobs: JobStore
    generations: Generations
    templates: Templates
    cards: CardStore = field(default_factory=CardStore)

    def page(self, template: str, state: State, run: Run | None = None, /, **context: Any) -> str:
        """HTML of a template that sees the state, the models and the run."""
        of_run = {"run": run, "model": run.model} if run else {}
        return self.templates.render(template, state=state, models=self.models, **of_run, **context)

    @classmethod
    def of(cls, settings: AppSettings) -> Services:
        """Raises a ReaderError where the settings name a model that is not there."""
        models = ModelStore(settings)
        runs = RunStore(models, settings)
        return cls(settings, models, runs, JobStore(runs, settings), Generations(models, settings), Templates())

    def close(self) -> None:
        """End the work: jobs and what waits are cancelled."""
        self.jobs.close()
        self.generations.close()
        self.runs.close()
        self.models.close()


def services_of(request: Request) -> Services:
    """The services of the app that answers a request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
