"""The map: every site can be reached from everywhere, at the reader's place; any depth stays small."""

from __future__ import annotations

from functools import cache
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag

from app.panels.map.view import map_view
from app.render.numbers import compact
from app.render.places import moved
from app.render.templating import Templates
from app.request.state import DEFAULT_TEXT, State
from model import Run
from model.address.parser import parse
from model.arch.gpt2.config import GPT2Config
from model.runtime.language_model import LanguageModel
from model.toy import toy
from tests.model.models import byte_tokenizer, random_model, random_network

TEXT = "When Mary"


@cache
def run_of(name: str) -> Run:
    if name == "toy":
        return toy().run("the cat sat on the mat")
    if name == "deep":  # GPT-2 XL's blocks and heads
        config = GPT2Config(n_layer=48, n_head=25, d_model=50, d_mlp=60, d_vocab=300, n_ctx=32)
        return LanguageModel("deep", random_network(config, 4.0), byte_tokenizer(300)).run(TEXT)
    return random_model(name).run(TEXT)


def html_of(run: Run, at: str, text: str = DEFAULT_TEXT, model: str = "") -> str:
    return Templates().render("map/_map.html", map=map_view(run, State(model=model, text=text, at=at)))


def page_of(run: Run, at: str, text: str = DEFAULT_TEXT) -> BeautifulSoup:
    return BeautifulSoup(html_of(run, at, text), "lxml")


def address_of(link: Tag) -> str:
    if link.name == "button":
        assert link["form"] == "go" and link["name"] == "at"
        return str(link["value"])
    return parse_qs(urlsplit(str(link["href"])).query)["at"][0]


def addresses(page: BeautifulSoup, selector: str = "a, button") -> list[str]:
    return [address_of(link) for link in page.select(selector)]


PLACES = (
    "blocks.0.attn.qk[0,3,2] blocks.0.attn.v[2,0,1] blocks.0.mlp.W_in[3,2] blocks.0.ln1.b W_pos[7,1] logits[2,:] loss"
)


@pytest.mark.parametrize("name", ["toy", "small", "one head", "gpt2", "deep"])
@pytest.mark.parametrize("at", [*PLACES.split(), "calc(probs[1,2]-probs[1,3])"])
def test_every_link_leads_somewhere(name: str, at: str):
    run = run_of(name)
    found = addresses(page_of(run, at))
    assert len(found) > 20
    for address in found:
        run.check(parse(address))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["toy", "small", "deep"])
def test_every_site_is_on_the_map(name: str):
    run = run_of(name)
    seen: set[str] = set()
    for n in range(run.model.config.n_layer):
        seen |= {address.split("[")[0] for address in addresses(page_of(run, f"blocks.{n}.resid_mid[1,2]"))}
    assert seen == set(run.model.graph.nodes)


@pytest.mark.parametrize(
    "at", ["blocks.1.attn.pattern[1,3,2]", "blocks.1.ln2.out[3,1]", "blocks.1.attn.b_K[1,2]", "tokens[2]"]
)
def test_it_shows_where_you_are(at: str):
    page = page_of(run_of("small"), at)
    assert addresses(page, ".site[aria-current]") == [at]
    blocks = page.select(".block")
    is_open = [bool(block.select(".site")) for block in blocks]
    assert is_open == ([False, True] if at.startswith("blocks") else [False, False])
    assert bool(page.select("details.weights[open]")) == at.startswith("blocks.1.attn.b_K")


def test_heads_show_their_weights_at_the_query_and_key():
    run = run_of("small")
    for site in ("qk", "scores", "exp", "pattern"):
        page = page_of(run, f"blocks.1.attn.{site}[1,3,2]")
        for n in range(2):
            cells = page.select(".block")[n].select(".heads-of .cell")
            assert [address_of(cell) for cell in cells] == [f"blocks.{n}.attn.pattern[{h},3,2]" for h in range(2)]
            for h, cell in enumerate(cells):
                weight = float(run[f"blocks.{n}.attn.pattern[{h},3,2]"])
                assert cell.text == compact(weight, is_narrow=False)
                assert cell["class"][1:] == ([f"pos-{round(8 * weight)}"] if round(8 * weight) else [])
                assert (cell.get("aria-current") == "true") == ((n, h) == (1, 1))
        assert "its weight from" in page.select_one(".note").text


def test_elsewhere_heads_show_their_numbers_and_keep_the_site():
    run = run_of("small")
    cells = page_of(run, "blocks.1.attn.q[3,1,5]").select(".heads-of .cell")
    assert [cell.text for cell in cells] == ["0", "1"] * 2
    wanted = [f"blocks.{n}.attn.q[3,{h},5]" for n in range(2) for h in range(2)]
    assert [address_of(cell) for cell in cells] == wanted
    cells = page_of(run, "blocks.1.mlp.post[3,9]").select(".heads-of .cell")
    assert address_of(cells[-1]) == "blocks.1.attn.pattern[1,3,:]"


def test_a_block_opens_at_the_same_site():
    page = page_of(run_of("small"), "blocks.1.attn.q[3,1,5]")
    assert addresses(page, ".block > .name") == ["blocks.0.attn.q[3,1,5]", "blocks.1.attn.q[3,1,5]"]
    page = page_of(run_of("small"), "logits[3,7]")
    assert addresses(page, ".block > .name") == ["blocks.0.resid_pre[3,:]", "blocks.1.resid_pre[3,:]"]


@pytest.mark.parametrize(
    ("here", "site", "wanted"),
    [
        ("blocks.1.resid_pre[3,9]", "blocks.1.ln1.out", "[3,9]"),
        ("blocks.1.resid_pre[3,9]", "blocks.1.ln1.mean", "[3]"),
        ("blocks.1.attn.pattern[1,4,2]", "blocks.0.attn.qk", "[1,4,2]"),
        ("blocks.1.attn.pattern[1,4,2]", "blocks.1.attn.q", "[4,1,:]"),
        ("blocks.1.attn.pattern[1,4,2]", "blocks.1.attn.k", "[2,1,:]"),
        ("blocks.1.attn.pattern[1,4,2]", "blocks.1.attn.v", "[2,1,:]"),
        ("blocks.1.attn.pattern[1,4,2]", "blocks.1.attn.z", "[4,1,:]"),
        ("blocks.1.attn.pattern[1,4,2]", "blocks.1.attn.W_Q", "[1,:,:]"),
        ("blocks.1.attn.k[2,1,5]", "blocks.1.attn.qk", "[1,:,2]"),
        ("blocks.1.attn.k[2,1,5]", "blocks.1.attn.v", "[2,1,5]"),
        ("blocks.1.attn.q[4,1,5]", "blocks.1.attn.qk", "[1,4,:]"),
        ("blocks.1.attn.q[4,1,5]", "blocks.1.attn.W_Q", "[1,:,5]"),
        ("blocks.1.resid_mid[3,9]", "blocks.1.mlp.pre", "[3,:]"),
        ("blocks.1.resid_mid[3,9]", "blocks.1.attn.pattern", "[0,3,:]"),
        ("blocks.1.resid_mid[3,9]", "blocks.1.attn.result", "[3,0,9]"),
        ("loss", "blocks.1.attn.pattern", ""),
        ("blocks.1.mlp.pre[3,60]", "blocks.1.mlp.W_out", "[60,:]"),
        ("blocks.1.mlp.pre[3,60]", "loss", ""),
        ("logits[3,7]", "W_E", "[7,:]"),
        ("embed[0,9]", "W_E", "[0,9]"),
        ("embed[3,9]", "W_pos", "[3,9]"),
        ("W_pos[3,9]", "pos_embed", "[3,9]"),
        ("W_pos[31,9]", "pos_embed", "[:,9]"),
        ("loss", "logits", ""),
        ("blocks.1.ln1.w", "logits", ""),
        ("blocks.1.resid_pre[:,9]", "blocks.1.ln1.mean", ""),
    ],
)
def test_the_place_goes_along(here: str, site: str, wanted: str):
    run = run_of("small")
    assert moved(run, run.check(parse(here)), site) == site + wanted  # type: ignore[arg-type]


def test_slopes_lead_to_slopes():
    run = run_of("small")
    here = parse("blocks.1.attn.q[4,1,5].grad")
    assert moved(run, here, "blocks.1.attn.qk") == "blocks.1.attn.qk[1,4,:].grad"  # type: ignore[arg-type]
    assert moved(run, here, "tokens") == "tokens[4]"  # type: ignore[arg-type]


@pytest.mark.parametrize("at", ["blocks.5.attn.pattern[7,3,1]", "blocks.11.mlp.W_out[5,7]", "logits[3,17]"])
def test_size_at_gpt2_small(at: str):
    html = html_of(run_of("gpt2"), at)
    assert len(html.encode()) <= 30 * 1024
    assert len(BeautifulSoup(html, "lxml").select(".heads-of .cell")) == 144


@pytest.mark.parametrize("at", ["blocks.5.attn.pattern[7,3,1]", "logits[3,17]"])
def test_deep_networks_draw_closed_blocks_as_one_link(at: str):
    html = html_of(run_of("deep"), at)
    page = BeautifulSoup(html, "lxml")
    assert len(html.encode()) <= 30 * 1024
    assert len(page.select(".block > .name")) == 48
    assert len(page.select(".block.shut a, .block.shut button")) == 48 - len(page.select(".block.open"))
    assert len(page.select(".block.shut svg")) == (47 if "pattern" in at else 0)


def test_long_texts_make_buttons():
    html = html_of(run_of("small"), "blocks.1.attn.pattern[1,3,2]", text="a tale that does not end " * 20)
    assert "tale" not in html
    assert not BeautifulSoup(html, "lxml").select("a")


def test_weights_in_little_room():
    assert [compact(x, is_narrow=False) for x in (0.0, 0.054, 0.996, 1.0)] == [".00", ".05", "1.00", "1.00"]
    assert [compact(x, is_narrow=True) for x in (0.0, 0.054, 0.996, 1.0)] == ["0", "5", "100", "100"]
