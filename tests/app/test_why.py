"""The why panel: every number has one, small and well-formed; its links lead somewhere, its numbers are true."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup

from app.panels.why import names as why_names
from app.panels.why import slopes as why_slopes
from app.panels.why.check import check, compared
from app.panels.why.panel import WhyView
from app.panels.why.pictures import MOST_TOKENS
from app.panels.why.terms import PAGE
from app.panels.why.view import why_view
from app.render.templating import Templates
from app.request.state import State
from model import load
from model.address.parser import Address, parse
from model.arch.gpt2.config import GPT2Config
from model.errors import AddressError
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run
from tests.model.models import byte_tokenizer, random_model, random_network

MODELS = ["toy", "embedded", "relu", "one head"]
LIMIT = 40_000  # bytes of one panel
STORE = "When Mary and John went to the store, John gave a drink to"
WIDE = GPT2Config(n_layer=1, n_head=12, d_model=768, d_mlp=3072, d_vocab=50257, n_ctx=256)
LONG = "When Mary and John went to the store, " * 16
TEMPLATES = Templates()


@cache
def run_of(name: str) -> Run:
    text = {"toy": "the cat sat on the mat", "long": LONG, "wide gpt2": "Two words, 🙂"}.get(name, "Mary and John, 🙂")
    if name in ("toy", "embedded", "long"):
        return load("embedded" if name == "long" else name).run(text)
    if name == "wide gpt2":
        return LanguageModel(name, random_network(WIDE), byte_tokenizer(WIDE.d_vocab)).run(text)
    return random_model(name).run(text)


def state_of(run: Run, at: str, **view: object) -> State:
    return State(model=run.model.name, text=run.text, at=at, **view)  # type: ignore[arg-type]


def panel(run: Run, state: State) -> tuple[WhyView, str, BeautifulSoup]:
    why = why_view(run, state)
    html = TEMPLATES.render("why/_why.html", why=why, state=state, run=run)
    return why, html, BeautifulSoup(html, "lxml")


def places(run: Run, site: str, n_random: int = 1) -> list[str]:
    """Addresses of a site: its first and last number, a masked one, random ones."""
    shape = run.shape(site)
    found = [tuple(0 for _ in shape), tuple(size - 1 for size in shape)]
    if site.endswith((".scores", ".pattern", ".exp", ".qk")):
        found.append((0, 0, shape[2] - 1))
    found += [tuple(random.randrange(size) for size in shape) for _ in range(n_random)]
    return list(dict.fromkeys(str(Address(site, place)) for place in found))


def slopes(run: Run, site: str) -> list[str]:
    """The address of one gradient of a site, if it has any."""
    return [] if site == "tokens" else [f"{places(run, site)[-1]}.grad"]


def sites(run: Run) -> list[str]:
    """Every site and parameter, of the blocks only the first and the last."""
    return [node.name for node in run.model.graph if node.block in (None, 0, run.model.config.n_layer - 1)]


def addresses(soup: BeautifulSoup) -> Iterator[str]:
    """Where the panel's links and buttons lead."""
    for link in soup.find_all("a", href=True):
        yield from parse_qs(urlsplit(link["href"]).query).get("at", [])
    for button in soup.select("button:not(.go)"):
        assert button["name"] == "at" and button["form"] == "follow"
        yield button["value"]


def number_in(text: str) -> float:
    """A number as the panel writes it."""
    plain = text.strip().replace("−", "-").replace(",", "").removesuffix(" %")
    match = re.fullmatch(r"(-?[\d.]+)×10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", plain)
    if match:
        power = match[2].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        return float(f"{match[1]}e{power}")
    return float(plain.replace("∞", "inf"))


def last_digit(text: str) -> float:
    """What one unit of the last digit shown is worth."""
    plain = text.strip().replace("−", "-").replace(",", "").removesuffix(" %")
    mantissa, _, power = plain.partition("×10")
    exponent = int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
    return float(10.0 ** (exponent - len(mantissa.partition(".")[2])))


# -- every number


@pytest.mark.parametrize("name", MODELS)
def test_every_site_has_a_panel(name: str):
    run = run_of(name)
    for site in sites(run):
        for n, at in enumerate([*places(run, site), *slopes(run, site)]):
            view = {"order": "index", "trail": ("loss", "tokens[0]")} if n % 2 else {"order": "size"}
            _, html, soup = panel(run, state_of(run, at, **view))
            check_panel(html, soup, at)


def check_panel(html: str, soup: BeautifulSoup, at: str) -> None:
    assert len(html.encode()) <= LIMIT, at
    section = soup.body.find(recursive=False)
    assert section.name == "section" and section["id"] == "why"
    assert section["aria-labelledby"] == soup.h2["id"] and soup.h2["tabindex"] == "-1"
    assert soup.find("code", class_="addr").string == at
    assert not [
        tag for tag in soup.find_all(True) if "style" in tag.attrs or any(a.startswith("on") for a in tag.attrs)
    ]
    ids = [tag["id"] for tag in soup.find_all(id=True)]
    assert len(ids) == len(set(ids))
    assert not [link for maths in soup.find_all("math") for link in maths.find_all("a")]
    assert "{{" not in html and "None" not in html and "nan" not in html.lower().replace("NaN", "")
    for row in soup.select("table.terms tbody tr"):
        spans = sum(int(cell.get("colspan", 1)) for cell in row.find_all(["th", "td"]))
        assert spans == len(soup.select("table.terms thead tr > *")), at


@pytest.mark.parametrize("name", MODELS)
def test_links_lead_to_numbers(name: str):
    run = run_of(name)
    for site in sites(run):
        for at in (places(run, site)[-1], *slopes(run, site)):
            _, _, soup = panel(run, state_of(run, at, order="index", trail=("loss",)))
            found = set(addresses(soup))
            assert found, at
            for address in found:
                assert run.values(address).size > 0, f"{at} links to {address}"


def test_links_join_the_trail():
    run = run_of("toy")
    state = state_of(run, "logits[2,3]", trail=("loss", "probs[2,3]"))
    _, _, soup = panel(run, state)
    link = soup.select_one("table.terms a.num")
    query = parse_qs(urlsplit(link["href"]).query)
    assert query["trail"] == ["loss~probs[2,3]~logits[2,3]"]
    assert link["href"] == state.follow(query["at"][0]).url()


def test_following_an_address_on_the_trail_goes_back():
    run = run_of("toy")
    state = state_of(run, "probs[2,3]", trail=("loss_per_token[5]", "logits[2,3]"))
    _, _, soup = panel(run, state)
    leads = {a["href"]: parse_qs(urlsplit(a["href"]).query).get("at") for a in soup.find_all("a", href=True)}
    back = [href for href, at in leads.items() if at == ["logits[2,3]"]]
    assert set(back) == {state.back(1).url()}


def test_buttons_carry_the_run_where_links_would_be_long():
    run = run_of("long")
    state = state_of(run, "blocks.2.attn.qk[1,9,3]", trail=("loss",), order="index")
    _, _, soup = panel(run, state)
    form = soup.find("form", id="follow")
    button = soup.select_one("table.terms button")
    fields = {field["name"]: field["value"] for field in form.find_all("input")} | {"at": button["value"]}
    want = state.follow(button["value"]).url()
    got = {k: v[0] for k, v in parse_qs(urlsplit(want).query).items()}
    assert fields == got and form["action"] == urlsplit(want).path and form["method"] == "get"


# -- size


@pytest.mark.parametrize(
    "site",
    [
        "blocks.0.attn.q",
        "blocks.0.attn_out",
        "blocks.0.mlp_out",
        "blocks.0.mlp.pre",
        "blocks.0.ln1.mean",
        "logits",
        "probs",
    ],
)
@pytest.mark.parametrize("order", ["size", "index"])
def test_panels_of_long_sums_are_small(site: str, order: str):
    run = run_of("wide gpt2")
    trail = tuple(f"blocks.0.resid_mid[2,{n}]" for n in range(8))
    for steps in ((), trail):
        _, html, soup = panel(run, state_of(run, places(run, site)[1], order=order, trail=steps, offset=10))
        check_panel(html, soup, places(run, site)[1])


def test_sums_over_the_vocabulary_are_small():
    run = run_of("wide gpt2")
    why, html, _ = panel(run, state_of(run, "calc(sum(probs[1,:]))"))
    assert len(html.encode()) <= LIMIT and "50,257 terms" in why.figure.caption  # type: ignore[union-attr]


@pytest.mark.parametrize("site", ["blocks.2.attn.pattern", "blocks.2.attn.z", "blocks.2.attn_out", "probs", "loss"])
def test_panels_of_long_texts_are_small(site: str):
    run = run_of("long")
    assert len(run.text) > 600
    trail = ("loss", "probs[3,5]", "logits[3,5]", *(f"blocks.3.resid_post[90,{n}]" for n in range(5)))
    for at in places(run, site):
        _, html, soup = panel(run, state_of(run, at, order="index", trail=trail))
        check_panel(html, soup, at)
        assert len(soup.select(".token-row .tinted")) <= MOST_TOKENS


# -- the numbers


@pytest.mark.parametrize("name", ["toy", "embedded", "relu"])
@pytest.mark.parametrize("order", ["size", "index"])
def test_numbers_shown_are_those_of_their_addresses(name: str, order: str):
    """Every linked number says what the run holds at its address."""
    run, checked = run_of(name), 0
    for at in (at for site in sites(run) for at in (places(run, site)[-1], *slopes(run, site))):
        _, _, soup = panel(run, state_of(run, at, order=order))
        for link in soup.select("table.terms a.num, .norm a.num, table.steps a.num, table.parts a.num"):
            address = parse_qs(urlsplit(link["href"]).query)["at"][0]
            shown, value = link.get_text(), run.values(address)
            if not re.match(r"[−\d∞]", shown) or shown.endswith("numbers"):
                continue
            is_percent = shown.endswith("%")
            want = float(value) * (100 if is_percent else 1)
            assert number_in(shown) == pytest.approx(want, abs=0.51 * last_digit(shown) + 1e-6 * abs(want)), at
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("order", ["size", "index"])
@pytest.mark.parametrize(
    "at", ["logits[3,5]", "blocks.1.attn_out[3,7]", "blocks.2.ln1.mean[1]", "blocks.0.mlp_out[2,2]"]
)
def test_rows_are_the_terms(at: str, order: str):
    run = run_of("embedded")
    e = run.explain(at, limit=PAGE, order=order)  # type: ignore[arg-type]
    _, _, soup = panel(run, state_of(run, at, order=order))
    rows = soup.select("table.terms tbody tr:not(.rest):not(.total)")
    assert len(rows) == PAGE
    running = 0.0
    for row, term in zip(rows, e.terms, strict=True):
        cells = [cell.get_text() for cell in row.find_all("td")]
        running += term.product
        assert number_in(cells[-2]) == pytest.approx(term.product, abs=0.51 * last_digit(cells[-2]))
        assert number_in(cells[-1]) == pytest.approx(running, abs=0.51 * last_digit(cells[-1]))
    rest = soup.select_one("tr.rest").get_text(" ", strip=True)
    assert f"the other {e.n_terms - PAGE} terms" in rest
    total = soup.select_one("tr.total td:last-child").get_text()
    assert number_in(total) == pytest.approx(e.total, abs=0.51 * last_digit(total))


def test_running_totals_go_on_where_the_page_before_ended():
    run = run_of("embedded")
    at = "logits[3,5]"
    e = run.explain(at)
    _, _, soup = panel(run, state_of(run, at, order="index", offset=30))
    last = soup.select("table.terms tbody tr:not(.rest):not(.total)")[-1].find_all("td")[-1]
    address = parse_qs(urlsplit(last.a["href"]).query)["at"][0]
    assert address == f"calc(partial({at},0:40))"
    assert number_in(last.get_text()) == pytest.approx(
        float(e.products[:40].sum()), abs=0.51 * last_digit(last.get_text())
    )


def test_softmax_rows_add_up():
    run = run_of("embedded")
    for at in ("blocks.2.attn.pattern[1,4,2]", "probs[4,17]", "blocks.0.attn.pattern[0,3,5]"):
        _, _, soup = panel(run, state_of(run, at))
        rows = soup.select("table.terms tbody tr:not(.total)")
        shares = [number_in(row.find_all("td")[-1].get_text()) for row in rows]
        assert sum(shares) == pytest.approx(100, abs=1.0)
        assert len(soup.select("tr.here")) == 1
        here = soup.select_one("tr.here td:last-child").get_text()
        assert number_in(here) == pytest.approx(100 * float(run.values(at)), abs=0.51 * last_digit(here))


@pytest.mark.parametrize("at", ["blocks.1.attn.pattern[1,14,2]", "blocks.1.attn.pattern[1,14,2].step(1)", "probs[3,5]"])
@pytest.mark.parametrize("offset", [0, PAGE])
def test_a_softmax_counts_the_number_on_top_once(at: str, offset: int):
    run = load("embedded").run(STORE)
    _, _, soup = panel(run, state_of(run, at, offset=offset))
    rows = soup.select("table.terms tbody tr:not(.rest):not(.total)")
    others = soup.select_one("table.terms tr.rest").find("th").get_text(strip=True)
    total = soup.select_one("table.terms tr.total").find("th").get_text(strip=True)
    assert len(rows) + number_in(others.removeprefix("the other ")) == number_in(total.removeprefix("all "))
    shares = [number_in(row.find_all("td")[-1].get_text()) for row in [*rows, soup.select_one("tr.rest")]]
    assert sum(shares) == pytest.approx(100, abs=0.15)


def test_heads_and_bias_make_attention_s_update():
    run = run_of("embedded")
    at = "blocks.1.attn_out[3,7]"
    _, _, soup = panel(run, state_of(run, at))
    rows = soup.select("table.parts tr")
    assert len(rows) == run.model.config.n_head + 1
    assert sum(number_in(row.find_all("td")[-1].get_text()) for row in rows) == pytest.approx(
        float(run.values(at)), abs=1e-3
    )


# -- the check


def test_check_shows_where_the_digits_part():
    ours, theirs = compared(4.044442594837, 4.044441699982)
    assert ours.same == "4.04444"
    assert theirs.same == ours.same and theirs.beyond[0] != ours.beyond[0]
    assert number_in(ours.same + ours.beyond) == pytest.approx(4.044442594837)


@pytest.mark.parametrize(
    ("a", "b"), [(0.0, 0.0), (1.0, 1.0), (2.5e-9, 2.4e-9), (3e12, 3e12), (-1.0, 1.0), (9.9999, 10.0)]
)
def test_check_writes_any_two_numbers(a: float, b: float):
    for digits, x in zip(compared(a, b), (a, b), strict=True):
        assert number_in(digits.same + digits.beyond) == pytest.approx(x, rel=1e-9)


def test_what_is_not_finite_is_not_said_to_agree():
    run = run_of("toy")
    _, _, soup = panel(run, state_of(run, "calc(1/0)"))
    assert soup.select_one(".verdict").get_text().strip().startswith("Neither is a finite number.")


def test_a_fault_is_said_in_words(monkeypatch: pytest.MonkeyPatch):
    run = run_of("toy")
    monkeypatch.setattr("model.explain.terms.TOLERANCE", 1e-30)
    monkeypatch.setattr("model.explain.terms.FLOOR", 1e-30)
    at = next(at for at in places(run, "logits", 30) if run.explain(at).fault)
    assert check(run.explain(at))["fault"]
    _, _, soup = panel(run, state_of(run, at))
    assert "fault" in soup.select_one(".check")["class"]
    assert "They do not agree" in soup.select_one(".verdict").get_text()


def test_not_a_number_is_said(monkeypatch: pytest.MonkeyPatch):
    run = load("toy").run("the cat")
    run.tensor("blocks.0.mlp_out")[1, 2] = float("nan")
    _, html, soup = panel(run, state_of(run, "blocks.0.mlp_out[1,2]"))
    assert "Why NaN?" in soup.h2.get_text()
    assert "fault" in soup.select_one(".check")["class"]
    assert "first site of the run that holds one is blocks.0.mlp_out" in html


@pytest.mark.parametrize("at", ["tokens[1]", "W_E[3,2]", "blocks.0.mlp.W_in[1,2]", "blocks.0.ln1.b[0]"])
def test_the_chain_ends(at: str):
    run = run_of("embedded")
    why, _, soup = panel(run, state_of(run, at))
    assert why.check is None and why.table is None
    assert "the chain ends here" in soup.get_text()


def test_tabs():
    run = run_of("embedded")
    state = state_of(run, "blocks.1.attn.q[2,1,3]", trail=("loss",), order="index")
    _, _, soup = panel(run, state)
    current, slope, step = soup.select(".tabs a")
    assert (current.get_text(), current["aria-current"]) == ("Value", "true")
    assert slope["href"] == state_of(run, "blocks.1.attn.q[2,1,3].grad", trail=("loss",), order="index").url()
    assert step["href"] == state_of(run, "blocks.1.attn.q[2,1,3].step", trail=("loss",), order="index").url()
    _, _, soup = panel(run, state_of(run, "blocks.1.attn.q[2,1,3].grad", trail=("loss",), order="index"))
    assert soup.select(".tabs a")[0]["href"] == state.url()
    assert soup.h2.get_text() == f"Why {soup.find(class_='it').string}?"
    _, _, soup = panel(run, state_of(run, "tokens[1]"))
    assert all("has no slope" in tab["title"] for tab in soup.select(".tabs a")[1:])


@pytest.mark.parametrize(
    ("at", "end"),
    [
        ("blocks.1.attn.pattern[1,14,2].grad", "the heads’ mixes of values at 32 places, most at entry 14."),
        ("blocks.1.attn.z[14,1,5].grad", "attention’s output at 128 places, most at entry 63."),
        ("blocks.1.mlp.post[14,46].grad", "the feed-forward output at 128 places, most at entry 67."),
        ("blocks.0.ln2.out[14,3].grad", "the neurons at 512 places, most at neuron 56."),
        ("ln_final.scale[14].grad", "its LayerNorm’s normalised number at 128 places, most at entry 125."),
        ("blocks.1.mlp.pre[9,46].grad", "through the neuron’s output."),
        ("blocks.1.attn.scores[1,14,3].grad", "the attention weights at 15 places, most at {t3} (position 3)."),
        ("blocks.1.attn.exp[1,14,3].grad", "the attention weights at 15 places, most at {t3} (position 3)."),
        ("blocks.1.attn.v[3,1,5].grad", "the heads’ mixes of values at 15 places, most at {t14} (position 14)."),
    ],
)
@pytest.mark.parametrize("order", ["size", "index"])
def test_a_slope_s_sentence_counts_places_and_names_their_axis(at: str, end: str, order: str):
    run = load("embedded").run(STORE)
    address = parse(at)
    node = run.model.graph[address.site]  # type: ignore[union-attr]
    e = run.explain(at, limit=PAGE, order=order)  # type: ignore[arg-type]
    assert why_slopes.sentence(run, e, node, address.index).endswith(end)  # type: ignore[union-attr, arg-type]


def test_the_slope_s_chain_ends_at_the_loss():
    run = run_of("embedded")
    why, _, _ = panel(run, state_of(run, "loss.grad"))
    assert why.value == "1" and why.end is not None and why.check is None


# -- what else is shown


def test_trail():
    run = run_of("embedded")
    state = state_of(
        run, "blocks.2.attn.qk[1,4,2]", trail=("loss", "blocks.2.attn.pattern[1,4,2]", "blocks.2.attn.q[4,1,:]")
    )
    why, _, soup = panel(run, state)
    assert [crumb["name"] for crumb in why.trail] == ["loss", "weight", "q[4,1,:]", "q·k"]
    links = soup.select(".trail a")
    assert [a["href"] for a in links] == [state.back(n).url() for n in range(3)]
    assert soup.select_one(".trail [aria-current]").get_text().startswith("q·k")
    weight = number_in(links[1].get_text().split()[1])
    assert weight == pytest.approx(float(run.values("blocks.2.attn.pattern[1,4,2]")), abs=6e-4)


def test_trail_of_a_long_text_shows_its_last_steps():
    run = run_of("long")
    state = state_of(run, "loss", trail=tuple(f"logits[3,{n}]" for n in range(8)))
    _, _, soup = panel(run, state)
    assert [a["href"] for a in soup.select(".trail a")] == [state.back(n).url() for n in range(3, 8)]


def test_no_trail_where_nothing_was_followed():
    _, _, soup = panel(run_of("toy"), state_of(run_of("toy"), "loss"))
    assert soup.select(".trail") == []


@pytest.mark.parametrize(("offset", "window"), [(0, "1–9 of 2,304"), (10, "10–19 of 2,304")])
def test_a_softmax_counts_the_terms_below_the_line(offset: int, window: str):
    run = run_of("embedded")
    _, html, soup = panel(run, state_of(run, "probs[3,5]", offset=offset))
    assert window in html and "2,305" not in html
    assert "All 2,304 terms and the one on top" in [span.get_text() for span in soup.select(".download span")]


def test_pages_of_terms():
    run = run_of("embedded")
    state = state_of(run, "logits[3,5]", offset=20)
    _, _, soup = panel(run, state)
    links = {a.get_text(): a for a in soup.select(".links a")}
    assert links["‹ previous"]["href"] == state.terms(offset=10).url()
    assert links["next ›"]["href"] == state.terms(offset=30).url()
    assert links["by index"]["href"] == state.terms(order="index").url()
    assert "21–30 of 128" in soup.select_one(".links").get_text()
    listed = soup.select_one(".links")
    assert not soup.select("[data-hx-target] .terms")  # a term takes the whole page along
    assert listed["data-hx-target"] == "#why" and listed["data-hx-swap"] == "outerHTML show:none"


@pytest.mark.parametrize("offset", [120, 128, 1_000_000])
def test_an_offset_past_the_end(offset: int):
    run = run_of("embedded")
    _, html, soup = panel(run, state_of(run, "logits[3,5]", offset=offset))
    check_panel(html, soup, "logits[3,5]")
    assert "next ›" not in soup.get_text()


def test_made_from_names_whole_rows():
    run = run_of("embedded")
    last = run.n_pos - 1
    cases = {
        f"blocks.2.attn.qk[1,{last},2]": [f"q[{last},1,:]", "k[2,1,:]"],
        "blocks.1.attn_out[3,7]": ["z[3,:,:]", "W_O[:,:,7]", "b_O[7]"],
        "embed[1,5]": ["tokens[1]", f"W_E[{run.tokens[1]},5]"],
        "loss": [f"loss_per_token[{last}]"],
    }
    for at, names in cases.items():
        _, _, soup = panel(run, state_of(run, at))
        made = soup.find("dt", string="Made from").find_next_sibling("dd")
        assert [code.get_text() for code in made.find_all("code")] == names


@pytest.mark.parametrize(
    "at",
    [
        "blocks.1.attn.q",
        "blocks.1.attn.q[2,1,:]",
        "blocks.1.attn.q[2,1,:].grad",
        "probs[3,:]",
        "W_E",
        "blocks.0.mlp.W_in[0:2,5]",
    ],
)
def test_a_site_asks_for_a_number(at: str):
    run = run_of("embedded")
    _, _, soup = panel(run, state_of(run, at))
    assert "Click any number" in soup.get_text()
    found = {dt.get_text(): dt.find_next_sibling("dd").get_text() for dt in soup.select("dl.ends dt")}
    values = run.values(at)
    for name, want in (("First", values.ravel()[0]), ("Largest", values.max()), ("Smallest", values.min())):
        assert number_in(found[name].rpartition("= ")[2]) == pytest.approx(float(want), abs=6e-4)


@pytest.mark.parametrize(
    "at", ["calc(logits[1,5]-logits[1,6])", "calc(1/3)", "calc(max(logits[1,:]))", "calc(exp(logits[1,5]))"]
)
def test_expressions(at: str):
    run = run_of("embedded")
    why, html, soup = panel(run, state_of(run, at))
    check_panel(html, soup, at)
    assert number_in(why.value) == pytest.approx(float(run.values(at)), rel=1e-3)


@pytest.mark.parametrize("at", ["logits[1,2,3]", "nowhere[3]", "logits[1,999999]", "calc(", "calc(logits[1,:])", ""])
def test_what_does_not_exist_is_refused(at: str):
    run = run_of("embedded")
    with pytest.raises(AddressError):
        why_view(run, state_of(run, at))


def test_tokens_are_escaped():
    run = load("embedded").run('<b>&amp;</b> "quoted"')
    for at in ("tokens[1]", "blocks.0.attn.pattern[0,5,2]", "embed[1,0]", f"probs[{run.n_pos - 1},{run.tokens[1]}]"):
        _, html, soup = panel(run, state_of(run, at))
        assert not [b for b in soup.find_all("b") if "&" in b.get_text()], html[:200]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("blocks.1.attn.W_Q[1,38,24]", "block 1 head 1 stream entry 38 head entry 24"),
        ("blocks.1.attn.W_O[1,24,:]", "block 1 head 1 head entry 24 stream entry all 128"),
        ("blocks.1.attn.q[2,1,24]", "block 1 position Mary 2 head 1 entry 24"),
        ("blocks.1.mlp.W_in[38,5]", "block 1 entry 38 neuron 5"),
    ],
)
def test_two_kinds_of_entries_say_whose_they_are(at: str, words: str):
    run = load("embedded").run(STORE)
    _, _, soup = panel(run, state_of(run, at))
    assert " ".join(soup.select_one(".where").get_text(" ").split()).endswith(words)


def test_names():
    run = run_of("embedded")
    assert why_names.word(run, "blocks.0.ln1.out[1,2]") == "ln1.out"
    assert why_names.word(run, "calc(blocks.0.resid_pre[1,2]-blocks.0.ln1.mean[1])") == "stream − mean"
    assert why_names.short(run, "blocks.0.attn.q[1,2,3]", "blocks.0.attn.qk[2,1,1]") == "q[1,2,3]"
    assert why_names.short(run, "blocks.1.attn.q[1,2,3]", "blocks.0.attn.qk[2,1,1]") == "blocks.1.attn.q[1,2,3]"
    node = run.model.graph["probs"]
    assert parse("probs[1,2]").site == node.name  # type: ignore[union-attr]


@pytest.mark.parametrize(("letter", "made"), [("Q", "queries"), ("K", "keys"), ("V", "values")])
def test_weights_say_what_they_make(letter: str, made: str):
    _, html, _ = panel(run_of("toy"), state_of(run_of("toy"), f"blocks.0.attn.W_{letter}[0,1,1]"))
    assert f"Makes {made}." in html
