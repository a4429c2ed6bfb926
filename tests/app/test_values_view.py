"""The values view: what a cell shows is what its address holds, whatever its tensor; windows, heat, pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from bs4 import BeautifulSoup, Tag

from app.panels.values.summary import blocks, plane_blocks, summary
from app.panels.values.view import values_view
from app.panels.values.window import MOST_ROWS, page_size, window
from app.render.figures import Figures
from app.render.heat import (
    ROOT,
    Scale,
    css,
    exponent_of,
    picture,
)
from app.render.numbers import percent
from app.render.templating import Context, Templates
from app.request.state import DEFAULT_TEXT, State
from model import Run, load
from model.address.parser import Address, parse
from model.errors import AddressError
from model.toy import toy
from tests.model.models import random_model

TEXT = "When Mary and John"
LONG = "a tale that does not end " * 20


@cache
def run_of(name: str) -> Run:
    if name == "toy":
        return toy().run("the cat sat on the mat")
    if name == "embedded":
        return load("embedded").run(DEFAULT_TEXT)
    return random_model(name).run(TEXT)


def view_of(run: Run, at: str, **state: int) -> Context:
    return values_view(run, State(text=run.text, at=at, **state))  # type: ignore[arg-type]


def html_of(view: Context) -> str:
    return Templates().render("values/_values.html", values=view)


def page_of(run: Run, at: str, **state: int) -> BeautifulSoup:
    return BeautifulSoup(html_of(view_of(run, at, **state)), "lxml")


def next_page(view: Context, field: str) -> str:
    """Where the pager of an axis leads onward."""
    pager = next((pager for pager in view["pagers"] if pager["field"] == field), None)
    return pager["ways"][1][2] or "" if pager else ""


def address_of(link: Tag) -> str:
    if link.name == "button":
        assert link["form"] == "go" and link["name"] == "at"
        return str(link["value"])
    return parse_qs(urlsplit(str(link["href"])).query)["at"][0]


def shown_as(text: str, value: float, unit: float = 1.0) -> bool:
    """Whether a cell's text is this number in some unit, as far as its figures go."""
    value /= unit
    if not np.isfinite(value):
        return text == ("NaN" if np.isnan(value) else "∞" if value > 0 else "−∞")
    plain = text.replace("−", "-").replace(",", "")
    if "·10" in plain:
        mantissa, power = plain.split("·")
        return abs(float(mantissa) * ten(power) - value) <= 0.51 * ten(power)
    decimals = len(plain.partition(".")[2])
    return abs(float(plain) - value) <= 0.501 * 10.0**-decimals + 1e-6


def ten(power: str) -> float:
    """10⁻³ as a number."""
    return 10.0 ** int(power.removeprefix("10").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def checked_cells(run: Run, page: BeautifulSoup) -> list[str]:
    """Addresses of all numbers of the table, each checked against the number shown."""
    found = []
    unit = page.select_one(".grid .unit")
    of_table = ten(unit.text.removeprefix("all × ")) if unit else 1.0
    for link in page.select(".grid td .num"):
        at = address_of(link)
        value = run.values(at)
        assert value.shape == (), at
        row = link.find_parent("tr").select_one("th").text  # rows that go on may have a unit of their own
        of_row = ten(row.split(" × ")[1]) if " × 10" in row else 1.0 if link.find_parent(class_="onward") else of_table
        assert shown_as(link.text, float(value), of_row), f"{at} is {value}, shown as {link.text}"
        found.append(at)
    return found


# -- every number is what its address holds


@pytest.mark.parametrize("name", ["toy", "small", "wide", "one head"])
def test_every_cell_shows_the_number_at_its_address(name: str):
    run = run_of(name)
    for node in run.model.graph:
        if node.block not in (None, run.model.config.n_layer - 1):
            continue
        last = Address(node.name, tuple(n - 1 for n in run.shape(node.name)))
        for at in (node.name, str(last)) if name in ("toy", "small") else (str(last),):
            page = page_of(run, at)
            if not node.axes:
                assert address_of(page.select_one(".alone .num")) == node.name
                continue
            found = checked_cells(run, page)
            assert 0 < len(found) <= 16 * 16 + 3 * 16
            assert len(set(found)) == len(found)


CHOICES = (
    "blocks.1.attn.qk[1,4,2] blocks.0.mlp.W_in[5,17] logits[3,270] blocks.1.ln2.b[9] blocks.0.ln1.mean[2] W_E[299,15]"
)


@pytest.mark.parametrize("at", [*CHOICES.split(), "blocks.1.attn.W_O[1,3,14]"])
def test_the_chosen_number_is_marked_with_its_row_and_column(at: str):
    run = run_of("small")
    page = page_of(run, at)
    (chosen,) = page.select(".grid [aria-current]")
    assert address_of(chosen) == at
    assert shown_as(chosen.text, float(run[at]))
    (row,) = page.select(".grid tbody th.on")
    assert row.parent is chosen.find_parent("tr")
    view = window(run, State(at=at), run.check(parse(at)))  # type: ignore[arg-type]
    assert view.is_in_view and view.chosen is not None
    assert view.at(*view.chosen) == at
    for column in page.select(".grid thead th.on"):
        assert int(column.select_one(".i").text.replace(",", "")) == view.chosen[1]


def test_rows_and_columns_carry_tokens_by_position_and_by_vocabulary():
    run = run_of("embedded")
    page = page_of(run, "probs[14,661]")
    row = page.select_one(".grid tbody th.on")
    assert row.select_one(".tok").text.strip() == "to" and row.select_one(".i").text == "14"
    column = page.select_one(".grid thead th.on")
    assert run.model.tokenizer.show(661) == column.select_one(".tok").text.replace(" ", "␣")
    assert "Position t predicts token t+1" in page.text


def test_the_loss_of_each_token_names_the_token_it_is_scored_on():
    run = run_of("toy")
    rows = page_of(run, "loss_per_token").select(".grid tbody tr")
    words = [run.model.tokenizer.show(run.next_token(t)).replace("␣", " ") for t in range(run.n_pos)]
    assert [row.select_one(".next").text for row in rows] == words


def test_round_numbers_get_no_idle_zeros():
    def texts(at: str) -> set[str]:
        return {link.text for link in page_of(run_of("toy"), at).select(".grid td .num")}

    assert texts("blocks.0.attn.W_Q[0,0,0]") == {"0", "−1"}
    assert texts("blocks.0.attn.W_Q[1,0,0]") == {"0.0", "0.5", "−0.5"}


def test_figures_suit_the_numbers():
    def shown(*values: float) -> list[str]:
        figures = Figures(np.array(values, dtype=np.float32))
        return [*(figures.show(float(x)) for x in np.float32(values)), figures.unit]

    assert shown(-36.62, 4.04, 0.0) == ["−36.6", "4.0", "0.0", ""]
    assert shown(0.5, -1.5, 0.0) == ["0.5", "−1.5", "0.0", ""]
    assert shown(-0.00062, 0.0051, 0.0031, 0.0) == ["−0.62", "5.10", "3.10", "0", "10⁻³"]
    assert shown(-2e-4, 22e-4, -29e-4, 1.7e-4) == ["−0.20", "2.20", "−2.90", "0.17", "10⁻³"]
    assert shown(2.4e-6, 4e-12, 0.0) == ["2·10⁻⁶", "4·10⁻¹²", "0", ""]
    assert shown(*[2e-6] * 30, 0.9612) == [*["0.00"] * 30, "0.96", ""]
    assert shown(3051.2, *[1.234] * 30) == ["3,051", *["1.23"] * 30, ""]
    assert shown(float("nan"), float("-inf"), 1.25) == ["NaN", "−∞", "1.25", ""]
    assert Figures(np.array([50256, 3])).show(50256) == "50,256"


# -- windows


@pytest.mark.parametrize("n", [*range(1, 70), 128, 768, 2304, 50257])
def test_pages_are_of_nearly_equal_size(n: int):
    page = page_size(n)
    assert 1 <= page <= 16
    assert n <= 16 or page > 8
    assert (-(-n // page) - 1) * page < n


@pytest.mark.parametrize("at", ["blocks.0.mlp.pre[2,63]", "W_E[150,3]", "blocks.1.mlp.b_in[40]"])
def test_paging_passes_every_number_once(at: str):
    run = run_of("small")
    site = at.split("[")[0]
    seen: list[str] = []
    row_starts, row = [], 0
    while True:  # down the pages of rows …
        view = view_of(run, at, row=row, col=0)
        row_starts.append(row)
        down = next_page(view, "row")
        if not down:
            break
        row = int(parse_qs(urlsplit(down).query)["row"][0])
    for row in row_starts:  # … and along each
        col = 0
        while True:
            page = page_of(run, at, row=row, col=col)
            seen += checked_cells(run, page) if "onward" not in str(page) else _without_onward(page)
            right = next_page(view_of(run, at, row=row, col=col), "col")
            if not right:
                break
            col = int(parse_qs(urlsplit(right).query)["col"][0])
    assert len(seen) == len(set(seen)) == int(np.prod(run.shape(site)))


def _without_onward(page: BeautifulSoup) -> list[str]:
    return [address_of(link) for link in page.select(".grid tbody:not(.onward) td .num")]


def test_a_window_elsewhere_keeps_the_choice_and_leads_back():
    run = run_of("small")
    view = view_of(run, "blocks.0.mlp.pre[2,63]", row=0, col=0)
    assert "at=blocks.0.mlp.pre[2,63]" in view["back"] and "col" not in view["back"]
    assert not BeautifulSoup(html_of(view), "lxml").select(".grid [aria-current]")
    assert view_of(run, "blocks.0.mlp.pre[2,63]")["back"] == ""


def test_a_window_past_the_end_is_the_last_one():
    run = run_of("small")
    cells = checked_cells(run, page_of(run, "blocks.0.mlp.pre", row=10**9, col=10**9))
    assert cells[-1] == f"blocks.0.mlp.pre[{run.n_pos - 1},63]"


def test_a_choice_in_the_window_keeps_the_window():
    run = run_of("small")
    for at in _without_onward(page_of(run, "W_E", row=32)):
        shown = window(run, State(at=at), run.check(parse(at)))  # type: ignore[arg-type]
        assert shown.rows.start == page_size(300, MOST_ROWS) * (32 // page_size(300, MOST_ROWS))


@pytest.mark.parametrize(
    ("at", "fixed", "rows", "cols"),
    [
        ("blocks.1.attn.qk", "0", [], []),
        ("blocks.1.attn.qk[1,:,:]", "1", [], []),
        ("blocks.1.attn.q[3,1,:]", "1", [3], []),
        ("blocks.1.attn.q[3,:,:]", "3", [], []),
        ("blocks.1.attn.pattern[:,3,2]", "3", [], [2]),
        ("blocks.1.resid_pre[2:4,:]", None, [2, 3], []),
        ("blocks.1.resid_pre[:,5]", None, [], [5]),
        ("calc(logits[3,17]-logits[2,5])", None, [3], [17]),
        ("calc(2*max(logits[3,:]))", None, [3], []),
        ("calc(1+partial(blocks.1.resid_mid[2,1],0:1))", None, [2], [1]),
    ],
)
def test_slices_and_expressions(at: str, fixed: str | None, rows: list[int], cols: list[int]):
    run = run_of("small")
    page = page_of(run, at)
    checked_cells(run, page)
    marked = page.select_one(".addr b")
    assert (marked.text if marked else None) == fixed
    assert [int(th.select_one(".i").text) for th in page.select(".grid tbody th.on")] == rows
    assert [int(th.select_one(".i").text) for th in page.select(".grid thead th.on")] == cols
    assert len(page.select(".grid [aria-current]")) == (1 if rows and cols else 0)


SLOPES = "blocks.1.attn.qk[1,4,2] blocks.0.attn.v[3,1,2] W_E[7,3] blocks.0.ln1.mean[2] blocks.1.mlp.b_in[9] logits[3,5]"


@pytest.mark.parametrize("at", SLOPES.split())
def test_slopes_have_a_view_of_their_own(at: str):
    run = run_of("small")
    page = page_of(run, f"{at}.grad")
    found = checked_cells(run, page)
    assert f"{at}.grad" in found
    assert all(address.endswith(".grad") for address in found)
    assert page.select_one("h2").text.endswith(": gradient")
    assert all(address_of(link).endswith(".grad") for link in page.select(".stages .to, .heads .to, .area"))


def test_slopes_of_a_large_table_are_computed_only_where_they_are_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.panels.values.summary.LARGE", 1000)
    run = random_model("small").run(TEXT)
    view = view_of(run, "W_E[200,3].grad")
    assert view["overview"] is None and "numbers in view" in view["note"]
    checked_cells(run, BeautifulSoup(html_of(view), "lxml"))
    assert view_of(run, "W_E[200,3]")["overview"] is not None


@pytest.mark.parametrize("at", ["blocks.9.attn.q[0,0,0]", "logits[99,0]", "logits[0,1,2]", "logits[", "nothing"])
def test_what_is_not_there_is_an_address_error(at: str):
    with pytest.raises(AddressError):
        view_of(run_of("small"), at)


def test_a_constant_expression_shows_the_loss():
    assert view_of(run_of("small"), "calc(1+2)")["title"] == "Loss"


# -- attention


def test_masked_numbers_are_hatched_and_only_they():
    run = run_of("small")
    for site in ("qk", "scores", "exp", "pattern"):
        cells = page_of(run, f"blocks.1.attn.{site}[1,4,2]").select(".grid tbody:not(.onward) td")
        for cell in cells:
            _, query, key = parse(address_of(cell.select_one(".num"))).index  # type: ignore[union-attr]
            assert ("masked" in cell.get("class", [])) == (key > query)


def test_a_row_goes_on_to_the_next_stages():
    run = run_of("small")
    page = page_of(run, "blocks.1.attn.qk[1,4,2]")
    rows = page.select(".onward tr")[1:]
    assert len(rows) == 3
    for row, site in zip(rows, ("scores", "exp", "pattern"), strict=True):
        at = [address_of(link) for link in row.select(".num")]
        assert at == [f"blocks.1.attn.{site}[1,4,{key}]" for key in range(page_size(run.n_pos))]


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("wide", "blocks.1.attn.qk[2,3,1]"),
        ("wide", "blocks.1.attn.v[3,2,9]"),
        ("gpt2", "blocks.3.attn.pattern[7,3,1]"),
        ("toy", "blocks.0.attn.W_O[1,0,2]"),
    ],
)
def test_each_heads_picture_leads_to_the_same_place_there(name: str, at: str):
    run = run_of(name)
    chosen = parse(at)
    links = page_of(run, at).select(".heads .to")
    axis = run.model.graph[chosen.site].axes.index("head")  # type: ignore[union-attr]
    wanted = []
    for head in range(run.model.config.n_head):
        index = list(chosen.index)  # type: ignore[union-attr]
        index[axis] = head
        wanted.append(str(replace(chosen, index=tuple(index))))  # type: ignore[type-var]
    assert [address_of(link) for link in links] == wanted
    assert [address_of(link) for link in links if link.get("aria-current")] == [at]


# -- stages


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        ("blocks.1.attn.qk[1,4,2]", ["qk[1,4,2]", "scores[1,4,2]", "exp[1,4,2]", "pattern[1,4,2]"]),
        ("blocks.1.attn.q[3,1,5]", ["q[3,1,5]", "k[3,1,5]", "v[3,1,5]", "z[3,1,5]", "result[3,1,:]"]),
        ("blocks.1.ln1.mean[3]", ["mean[3]", "var[3]", "scale[3]", "normalized[3,:]", "out[3,:]"]),
        ("logits[3,7]", ["logits[3,7]", "probs[3,7]", "log_probs[3,7]", "loss_per_token[3]", "loss"]),
        (
            "blocks.1.resid_mid[3,7]",
            ["resid_pre[3,7]", "attn_out[3,7]", "resid_mid[3,7]", "mlp_out[3,7]", "resid_post[3,7]"],
        ),
        ("ln_final.w[3]", ["w[3]", "b[3]"]),
    ],
)  # fmt: skip
def test_stages_keep_the_place(at: str, wanted: list[str]):
    links = page_of(run_of("small"), at).select(".stages .to")
    assert [re.sub(r"^.*\.", "", address_of(link)) for link in links] == wanted
    assert [address_of(link) for link in links if link.get("aria-current")] == [at]


# -- heat


def test_steps_by_hand():
    linear = Scale(8.0, 1.0)
    assert linear.steps(np.array([0.0, 0.4, 0.6, -8.0, 3.6, -3.4, 9.0, np.nan, np.inf])).tolist() == [
        0, 0, 1, -8, 4, -3, 8, 0, 0,
    ]  # fmt: skip
    root = Scale(27.0)  # (1/27)^(2/3) = 1/9 and 8/9 of a step; (8/27)^(2/3) = 4/9, 3.6 steps
    assert root.exponent == ROOT == pytest.approx(2 / 3)
    assert root.steps(np.array([27.0, 1.0, -8.0, 0.1])).tolist() == [8, 1, -4, 0]
    assert root.edge(8) == pytest.approx(27) and root.edge(-4) == pytest.approx(-27 * 0.5**1.5)
    assert Scale(0.0).steps(np.array([0.0])).tolist() == [0]
    assert [css(-3), css(0), css(8)] == ["neg-3", "", "pos-8"]
    assert [exponent_of(span) for span in ("share", "unit", "any")] == [1.0, 1.0, ROOT]


def test_cells_are_tinted_on_the_scale_of_the_whole_tensor():
    run = run_of("wide")
    at = "blocks.2.mlp.pre[3,200]"
    largest = float(np.abs(run["blocks.2.mlp.pre"]).max())
    for cell in page_of(run, at).select(".grid tbody:not(.onward) td"):
        value = float(run[address_of(cell.select_one(".num"))])
        step = round(8 * (abs(value) / largest) ** (2 / 3))
        tint = [] if not step else [f"{'pos' if value > 0 else 'neg'}-{step}"]
        assert cell.get("class", []) == tint


def test_a_picture_draws_each_step_in_its_cell():
    steps = np.array([[0, 1, 1, -3], [-3, -3, -1, 8]], dtype=np.int8)
    svg = BeautifulSoup(picture(steps, "it"), "lxml")
    drawn = np.zeros_like(steps)
    for path in svg.select("path"):
        (kind,) = path["class"]
        for x, y, n in re.findall(r"M(\d+) (\d+)h(\d+)", str(path["d"])):
            drawn[int(y), int(x) : int(x) + int(n)] = int(kind[4:]) * (1 if kind.startswith("pos") else -1)
    assert (drawn == steps).all()
    assert svg.select_one("use.minus")["href"] == "#below-it"
    assert {path["class"][0][:3] for path in svg.select("#below-it path")} == {"neg"}
    assert not BeautifulSoup(picture(abs(steps), "it"), "lxml").select("use")


def test_the_legend_counts_the_tensor_and_marks_the_chosen_bar():
    run = run_of("small")
    of = summary(run, Address("blocks.1.attn.qk"))
    assert of.n == sum(of.counts.values()) == run.model.config.n_head * run.n_pos * (run.n_pos + 1) // 2
    unmasked = [run[f"blocks.1.attn.qk[{h},{q},{k}]"] for h in range(2) for q in range(run.n_pos) for k in range(q + 1)]
    assert (of.low, of.high) == (float(min(unmasked)), float(max(unmasked)))
    assert len(page_of(run, "blocks.1.attn.qk[1,4,2]").select(".legend rect.here")) == 1
    assert not page_of(run, "blocks.1.attn.qk").select(".legend rect.here")


def test_numbers_that_are_not_finite_are_shown_and_counted():
    run = random_model("small").run(TEXT)
    broken = run.tensor("blocks.0.mlp.pre").clone()
    broken[2, 3], broken[1, 0] = float("nan"), float("-inf")
    run._tensors["blocks.0.mlp.pre"] = broken
    page = page_of(run, "blocks.0.mlp.pre[2,3]")
    checked_cells(run, page)
    assert page.select_one(".grid [aria-current]").text == "NaN"
    assert "2 are NaN or infinite" in page.text
    finite = broken[torch_isfinite(broken)]
    assert summary(run, Address("blocks.0.mlp.pre")).high == float(finite.max())


def torch_isfinite(x):  # type: ignore[no-untyped-def]
    return x.isfinite()


# -- the whole tensor


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (40, 5), (33, 130)])
@pytest.mark.parametrize("is_masked", [False, True])
def test_blocks_hold_the_largest_number_of_each(shape: tuple[int, int], is_masked: bool):
    rows, cols = (shape[0], shape[0]) if is_masked else shape
    x = np.random.default_rng(1).normal(size=(2, rows, cols)).astype(np.float32)
    if rows > 2:
        x[0, 2, 1] = np.nan
    cut = blocks(x, 16, 64, is_masked=is_masked)
    counts = np.where(np.tri(rows, cols, dtype=bool) if is_masked else True, np.nan_to_num(x), 0)
    for i, (r0, r1) in enumerate(zip(cut.row_edges, cut.row_edges[1:], strict=False)):
        for j, (c0, c1) in enumerate(zip(cut.col_edges, cut.col_edges[1:], strict=False)):
            part = counts[:, r0:r1, c0:c1].reshape(2, -1)
            assert (np.abs(cut.largest[:, i, j]) == np.abs(part).max(axis=1)).all()
            assert all(cut.largest[h, i, j] in part[h] for h in range(2))


@pytest.mark.parametrize(
    "at", ["W_E[150,3]", "blocks.0.mlp.pre[2,63]", "blocks.1.attn.W_Q[1,3,2]", "blocks.2.mlp.b_in[300]"]
)
def test_an_area_of_the_strip_leads_to_its_largest_number(at: str):
    run = run_of("wide")
    page = page_of(run, at)
    links = page.select(".areas .area")
    shown = window(run, State(at=at), run.check(parse(at)))  # type: ignore[arg-type]
    x = run.tensor(shown.address.site).numpy()[shown.plane]
    found = [abs(float(run[address_of(link)])) for link in links]
    assert 1 < len(links) <= 20
    assert max(found) == float(np.abs(x).max())  # the largest of all is the largest of its area
    assert len(page.select(".strip .frame")) == len(page.select(".strip .spot")) == 1
    whole = plane_blocks(run, Address(shown.address.site), shown.plane)
    assert whole.largest.shape[0] <= 16 and whole.largest.shape[1] <= 64


def test_what_fits_into_the_window_needs_no_strip():
    assert not page_of(run_of("toy"), "blocks.0.mlp.pre[1,2]").select(".strip")


# -- the likeliest tokens


@pytest.mark.parametrize("site", ["logits", "probs", "log_probs"])
def test_the_largest_after_a_position_lead_to_them(site: str):
    run = run_of("small")
    links = page_of(run, f"{site}[2,17]").select(".top .num")
    order = np.argsort(-run[f"{site}[2,:]"], kind="stable")[:12]
    assert [address_of(link) for link in links] == [f"{site}[2,{v}]" for v in order]
    if site == "probs":
        assert links[0].text == percent(float(run[f"probs[2,{order[0]}]"]))


# -- forms, files, long texts, size


def test_forms_keep_the_run_and_the_choice():
    run = run_of("wide")
    state = State(model="toy", text=run.text, target="id:3", bos=False, at="W_E[150,3]", trail=("loss",))
    page = BeautifulSoup(html_of(values_view(run, state)), "lxml")
    fields = {form["class"][0]: {i["name"]: i["value"] for i in form.select("input")} for form in page.select("form")}
    asked = {"model": "toy", "text": run.text, "target": "id:3", "bos": "0"}
    assert fields["goto"] == asked | {"at": "W_E[150,3]"}
    assert fields["jump"] == asked | {"at": "W_E[150,3]", "trail": "loss", "row": fields["jump"]["row"], "col": "0"}


def test_the_files_hold_the_numbers_shown():
    run = run_of("small")
    for at in ("W_E[150,3]", "blocks.1.mlp.b_in[3]", "blocks.0.attn.q[1,1,2]", "blocks.0.ln1.mean", "loss"):
        page = page_of(run, at)
        shown = page.select_one(".download form")
        paths = [str(button["formaction"]) for button in shown.select("button")]
        assert paths == ["/export/values.csv", "/export/values.json", "/export/values.npy"]
        values = run.values(str(shown.select_one("[name=at]")["value"]))
        assert values.size == len(page.select(".grid tbody:not(.onward) td .num")) or at == "loss"


def test_long_texts_make_buttons_that_lead_to_the_same_places():
    run = random_model("wide").run("a b c d")
    state = State(text=LONG, at="blocks.1.attn.qk[2,3,1]")
    html = html_of(values_view(run, state))
    page = BeautifulSoup(html, "lxml")
    assert len(checked_cells(run, page)) == len(page.select(".grid td button.num")) > 0
    assert not page.select(".grid a, .heads a, .stages a, .areas a")
    assert html.count("tale") == 20 * len(page.select("form, a")) == 80


SIZES = (
    "blocks.2.attn.qk[1,14,2] probs[14,661] blocks.2.attn.q[14,1,3] W_E[661,3] blocks.1.mlp.pre[14,300] loss_per_token"
)


@pytest.mark.parametrize("at", [*SIZES.split(), "blocks.1.attn.W_O[1,3,64]"])
def test_size(at: str):
    assert len(html_of(view_of(run_of("embedded"), at)).encode()) <= 62_000


def test_size_at_gpt2_small():
    for at in ("blocks.5.attn.qk[7,4,2]", "blocks.5.attn.W_Q[7,100,20]", "W_E[200,300]", "blocks.5.attn.v[3,7,20]"):
        assert len(html_of(view_of(run_of("gpt2"), at)).encode()) <= 60_000, at


def test_tables_say_what_their_edges_are():
    page = page_of(run_of("small"), "blocks.1.attn.qk[1,4,2]")
    table = page.select_one("table.grid")
    assert table.select_one("caption").text.startswith("blocks.1.attn.qk")
    assert all(th.get("scope") in ("row", "col", "rowgroup") for th in table.select("th"))
    section = page.select_one("#values")
    assert page.select_one(f"#{section['aria-labelledby']}").text == "Query · key"
