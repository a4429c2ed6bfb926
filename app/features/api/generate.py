"""JSON for programs: a text continued, every choice and every step of the cache in numbers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from app.dependencies import generation_of
from app.features.api.routes import ERRORS, Limit
from app.panels import schemas
from app.request import answers
from app.request.generation import GenerationQuery, GenerationState
from app.services import ServicesDep
from app.stores.generations import Generation, key_of, spelled
from model import LanguageModel
from model.runtime.choice_address import ChoiceAddress
from model.runtime.generate import Step

router = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["Every Number"])

PATIENCE = 4  # times as long as a page makes tokens before it answers


class GenerateQuery(GenerationQuery):
    """What `/generate` takes. What is out of range answers 400 and names the part."""

    limit: Limit = Field(5, ge=0, le=100, description="How many candidates of each choice are listed.")


class Candidate(schemas.Schema):
    """One token of the ranking. Probabilities add up to 1 over the vocabulary at each stage."""

    rank: int = Field(description="0 for the largest logit; of equal logits the lowest id comes first.")
    id: int = Field(validation_alias="token")
    text: str | None = Field(description="Null where its bytes are not whole UTF-8.")
    logit: float
    prob: float = Field(description="The model's own probability.")
    after_temperature: float = Field(validation_alias="tempered")
    after_top_k: float = Field(validation_alias="after_k", description="Rescaled to 1; 0 for what was cut.")
    running_total: float = Field(
        validation_alias="running", description="Of after_top_k down to this rank: what top-p looks at."
    )
    after_top_p: float = Field(validation_alias="odds", description="The odds that the draw uses.")
    low: float = Field(description="The token's interval on [0, 1): from here …")
    high: float = Field(description="… to below here; empty for what was cut.")


class Addresses(schemas.Schema):
    """Addresses of the chosen token's numbers in the run of `read`, for /api/v1/explain."""

    logit: str = Field(examples=["logits[9,812]"])
    prob: str
    after_temperature: str
    after_top_k: str
    after_top_p: str
    low: str
    high: str
    removed_by_top_k: str = Field(validation_alias="removed_by_k")
    removed_by_top_p: str = Field(validation_alias="removed_by_p")
    kept_mass: str


class Choice(schemas.Schema):
    """One choice: temperature first, then top-k, then top-p, then the draw."""

    n_vocab: int
    kept_by_top_k: int = Field(validation_alias="kept_by_k")
    removed_by_top_k: float = Field(
        validation_alias="removed_by_k", description="The share of after_temperature that top-k took away."
    )
    kept: int = Field(description="How many tokens stay after top-p too; the one that crosses p stays.")
    removed_by_top_p: float = Field(
        validation_alias="removed_by_p", description="The share of after_top_k that top-p took away."
    )
    kept_mass: float = Field(description="The share of after_temperature that both cuts left.")
    drawn: float | None = Field(description="The random number, from seed and position; null where nothing is drawn.")
    drawn_id: int = Field(validation_alias="token", description="The token whose interval holds it.")
    chosen: Candidate = Field(description="The token that was appended: the draw's, or the one picked.")
    candidates: list[Candidate] = Field(description="The first of the ranking.")
    addresses: Addresses


class Cache(schemas.Schema):
    """What one step computed. Without a cache, every row and every pair would be computed."""

    reused: int = Field(description="Rows of keys and values kept.")
    new: int = Field(description="Rows computed in this step.")
    pairs: int = Field(description="Query-key products of one head.")
    pairs_without: int = Field(description="The same without the cache: t(t+1)/2.")
    dropped: int = Field(description="Oldest tokens of the text that no longer fit the context.")
    rebuilt: bool = Field(description="Whether the cache was thrown away because tokens were just dropped.")
    seconds: float = Field(description="Measured as the token was made; varies.")
    seconds_without: float | None
    difference: float | None = Field(description="The largest between the two ways' logits.")
    scale: float | None = Field(description="The largest logit, which says how much that is.")


class Read(schemas.Schema):
    """What the network read before the choice, to be given as `text` and `bos` of a run."""

    text: str
    bos: bool
    n_tokens: int


class MadeToken(schemas.Schema):
    """One token made."""

    step: int = Field(validation_alias="index")
    position: int = Field(description="Its place in the whole text.")
    id: int = Field(validation_alias="token")
    text: str | None
    bytes: str
    picked: bool = Field(validation_alias="forced", description="Whether it was put in place of the draw's.")
    prob: float = Field(description="The probability that the model itself gave it.")
    end: str = Field(description='"end token" or "stop text" where the text ended with it.')
    read: Read
    choice: Choice
    cache: Cache


class Generated(schemas.Schema):
    """A text continued."""

    model: str
    text: str = Field(description="The whole text.")
    complete: bool = Field(description="False where time ran out before all tokens: ask the same again to go on.")
    tokens: list[MadeToken]


@router.get("/generate", response_model=Generated, summary="Continue a text, every choice laid open")
async def generate(query: Annotated[GenerateQuery, Query()], services: ServicesDep) -> Response:
    """The same parameters give the same tokens on every machine; times vary. A request works for a bounded time."""
    ask = generation_of(services.models, query)
    seconds = PATIENCE * services.settings.generate_seconds
    generation = await services.generations.advance(key_of(services.models, ask), ask.n, seconds)
    return await services.runs.in_thread(lambda: answers.json(generated(generation, ask, query.limit)))


def generated(generation: Generation, ask: GenerationState, limit: int) -> Generated:
    made, model = generation.made[: ask.n], generation.model
    return Generated(
        model=model.name,
        text=model.tokenizer.decode([*generation.prompt, *(one.step.token for one in made)]),
        complete=generation.complete(ask.n),
        tokens=[made_token(model, one.step, one.prob, limit) for one in made],
    )


def made_token(model: LanguageModel, step: Step, prob: float, limit: int) -> MadeToken:
    text, bos = spelled(model, step.read)
    other = step.comparison
    return MadeToken.of(
        step,
        position=step.choice.position,
        text=model.tokenizer.text(step.token),
        bytes=model.tokenizer.bytes(step.token).hex(),
        prob=prob,
        end="" if step.end == "length" else step.end,
        read=Read(text=text, bos=bos, n_tokens=len(step.read)),
        choice=choice_of(model, step, limit),
        cache=Cache.of(
            step.rows, dropped=step.dropped, rebuilt=step.rebuilt, seconds=step.seconds,
            seconds_without=other and other.seconds, difference=other and other.difference, scale=other and other.scale,
        ),
    )  # fmt: skip


def choice_of(model: LanguageModel, step: Step, limit: int) -> Choice:
    c, token = step.choice, step.token
    at = ChoiceAddress(c)
    rank = c.rank_of(token)
    low, high = at.interval(rank)
    return Choice.of(
        c,
        n_vocab=len(c.logits),
        drawn=None if c.settings.greedy else c.drawn,
        chosen=candidates(model, step, rank, 1)[0],
        candidates=candidates(model, step, 0, limit),
        addresses=Addresses.of(
            at, logit=at.logit(token), prob=at.prob(token), after_temperature=at.tempered(token),
            after_top_k=at.after_k(token), after_top_p=at.odds(token), low=low, high=high,
        ),
    )  # fmt: skip


def candidates(model: LanguageModel, step: Step, offset: int, limit: int) -> list[Candidate]:
    return [Candidate.of(r, text=model.tokenizer.text(r.token)) for r in step.choice.candidates(offset, limit)]
