"""The URL is the whole state: written, read back, and the same."""

from __future__ import annotations

from html import unescape
from urllib.parse import parse_qsl, urlsplit

from bs4 import BeautifulSoup
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.dependencies import StateDep
from app.main import create_app
from app.render.links import Links
from app.request.state import LONG_QUERY, MAX_TRAIL, State
from app.server.prefix import AppPath
from app.settings import AppSettings
from model.address.patch import MOST_CHANGES
from model.runtime.learn import MOST_STEPS

# What a URL and a form can carry: no lone surrogates, one kind of line end.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=60).map(lambda s: s.replace("\r\n", "\n"))
addresses = st.sampled_from(
    ["loss", "logits[3,17]", "blocks.0.attn.q", "probs[2,:]", "calc(logits[0,1]-logits[0,2])", "calc(1+2*3/4)"]
)
states = st.builds(
    State,
    model=st.sampled_from(["", "toy", "embedded"]),
    text=texts,
    target=texts,
    bos=st.booleans(),
    at=st.one_of(st.just(""), addresses),
    row=st.one_of(st.none(), st.integers(0, 10**6)),
    col=st.one_of(st.none(), st.integers(0, 10**6)),
    order=st.sampled_from(["size", "index"]),
    offset=st.integers(0, 10**6),
    trail=st.lists(addresses, max_size=MAX_TRAIL).map(tuple),
    eta=st.one_of(st.none(), st.floats(0, 1e6)),
    optimizer=st.sampled_from(["sgd", "adamw"]),
    steps=st.integers(1, MOST_STEPS),
    changes=st.lists(st.sampled_from(["blocks.1.attn.z[:,2,:]=0", "embed[0,1]+=-1e-05"]), max_size=MOST_CHANGES).map(
        tuple
    ),
    nudge=st.one_of(st.none(), st.floats(1e-9, 1000)),
)


def reader() -> tuple[TestClient, list[State]]:
    """An app with one more page, which only reads the state."""
    app: FastAPI = create_app(AppSettings())
    seen: list[State] = []

    def read(state: StateDep) -> str:
        seen.append(state)
        return "read"

    app.add_api_route("/read", read)
    return TestClient(app), seen


CLIENT, SEEN = reader()


def read(url: str) -> State:
    answer = CLIENT.get(url)
    assert answer.status_code == 200, answer.text
    return SEEN[-1]


@given(states)
def test_a_state_survives_its_url(state: State):
    assert read(state.url(AppPath("/read"))) == state


@given(states)
def test_a_url_is_plain_ascii_and_written_once(state: State):
    url = state.url()
    assert url.isascii() and " " not in url
    assert state.url() == state.replace().url()


@given(states, addresses)
def test_a_cell_leads_where_the_state_says(state: State, at: str):
    state = state.replace(text=state.text[:20], target="", changes=state.changes[:3])
    link = BeautifulSoup(Links(state).number(at, "1.5"), "html.parser")
    chosen = state.select(at)
    expected = chosen.replace(order="size")
    assert link.a is not None and read(str(link.a["href"]).replace("/explore", "/read")) == expected


@given(states, st.lists(addresses, max_size=12))
def test_the_trail_never_repeats_and_never_grows_past_its_length(state: State, path: list[str]):
    state = state.select("loss")
    for at in path:
        state = state.follow(at) if at != state.at else state
        assert len(state.trail) <= MAX_TRAIL
        assert len({*state.trail, state.at}) == len(state.trail) + 1
        assert state.at == at
    for n, at in enumerate(state.trail):
        assert state.back(n).at == at and state.back(n).trail == state.trail[:n]


def test_defaults_are_left_out():
    assert State(text="hi").url() == "/explore?text=hi"
    assert State(text="hi", model="toy", target=" a", bos=False).query() == "model=toy&text=hi&target=%20a&bos=0"


def test_each_model_starts_with_a_text_it_can_read():
    assert read("/read").text.startswith("When Mary")
    assert read("/read?model=toy").text == "the cat sat on the"
    assert read("/read?model=toy&text=").text == ""


def test_line_ends_of_a_form_are_one_character():
    assert read("/read?text=a%0D%0Ab").text == "a\nb"


def test_cells_of_a_long_text_are_buttons_of_the_form():
    cells = Links(State(text="x" * LONG_QUERY))
    cell = BeautifulSoup(cells.number('a"<b', "1 < 2"), "html.parser").button
    assert cell is not None
    assert cell["form"] == "go" and cell["name"] == "at" and cell["value"] == 'a"<b' and cell.text == "1 < 2"


def test_a_cell_escapes_what_it_shows_and_where_it_leads():
    html = Links(State(text='"><script>&')).number("logits[1,2]", "<&>", label='"x"')
    assert "<script>" not in html and "&lt;&amp;&gt;" in html and 'aria-label="&quot;x&quot;"' in html
    href = unescape(html.split('href="')[1].split('"')[0])
    assert dict(parse_qsl(urlsplit(href).query)) == {"text": '"><script>&', "at": "logits[1,2]"}


def test_a_target_leaves_what_was_looked_at():
    state = State(at="loss", trail=("probs[0,1]",), offset=20, row=3).aim(" Mary")
    assert (state.target, state.at, state.trail, state.offset, state.row) == (" Mary", "", (), 0, None)
