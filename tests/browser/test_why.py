"""The why panel in a browser: for everyone, followed by clicks alone, with and without JavaScript, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]

LONG = "The dog and the cat went to the park. " * 14
KINDS = [
    "blocks.2.attn.qk[1,14,2]",
    "blocks.2.attn.pattern[1,14,2]",
    "blocks.2.attn.z[14,1,3]",
    "blocks.1.attn_out[14,7]",
    "blocks.1.mlp.post[14,70]",
    "blocks.1.ln1.out[14,5]",
    "blocks.0.attn.exp[0,9,3]",
    "probs[14,5]",
    "embed[2,5]",
    "tokens[2]",
    "W_E[7,3]",
    "loss",
    "blocks.1.attn.q[14,1,:]",
    "blocks.1.attn.q[14,1,3].grad",
    "calc(logits[14,5]-logits[14,6])",
    "blocks.2.resid_pre[14,5].grad",
    "W_E[20,5].grad",
    "probs[14,5].grad",
    "blocks.0.mlp.W_in[5,77].step(4)",
    "blocks.1.attn.pattern[1,14,2].step(3)",
]


def explore(page: Page, server: str, at: str, **more: str) -> None:
    query = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    page.goto(f"{server}/explore?at={quote(at)}{query}")


def address(page: Page) -> str:
    return page.locator("#why .addr").first.inner_text()


# -- for everyone


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("at", KINDS)
def test_access(page: Page, server: str, axe: Callable[..., list[str]], at: str, width: int) -> None:
    explore(page, server, at, trail="loss~probs[14,5]")
    assert axe(page, "#why") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_access_of_a_nudge_and_of_adamw(page: Page, server: str, axe: Callable[..., list[str]], width: int) -> None:
    explore(page, server, "blocks.1.attn.q[14,1,3].grad", nudge="0.5")
    assert axe(page, "#why") == []
    explore(page, server, "blocks.0.mlp.W_in[5,77].step(3)", optimizer="adamw", eta="0.001")
    assert axe(page, "#why") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_access_of_buttons(page: Page, server: str, axe: Callable[..., list[str]]) -> None:
    explore(page, server, "blocks.1.attn.z[90,1,3]", text=LONG)
    assert page.locator("#why button.num").count() > 10
    assert axe(page, "#why") == []


@pytest.mark.parametrize("width", [390, 1200, 1440])
def test_only_scrollers_are_wider_than_the_panel(page: Page, server: str, width: int) -> None:
    for at in ("blocks.1.attn_out[14,7]", "blocks.0.ln1.out[3,5].grad", "calc(log(sum(exp(logits[14,:]))))"):
        explore(page, server, at)
        over = page.evaluate(
            """() => {
                const why = document.querySelector('#why').getBoundingClientRect();
                return [...document.querySelectorAll('#why *:not(.vh)')]
                    .filter(e => !e.closest('.scroll, .vh, svg') && e.getBoundingClientRect().right > why.right + 1)
                    .map(e => e.outerHTML.slice(0, 80));
            }"""
        )
        assert over == []


# -- following


@pytest.mark.parametrize("javascript", [True, False])
def test_from_the_loss_down_to_a_learned_row(open_page: OpenPage, server: str, javascript: bool) -> None:
    """By clicks in the panel alone: loss, probability, logit, stream, … to a row of the embedding table."""
    page = open_page(javascript=javascript, width=1440)
    explore(page, server, "loss")
    made_from = "#why .ends dd:first-of-type a"
    seen = ["loss"]
    for _ in range(3):  # loss per token, probability, logit
        page.locator(made_from).first.click()
        expect(page.locator("#why .addr").first).not_to_have_text(seen[-1])
        seen.append(address(page))
    assert [re.sub(r"\[.*", "", at) for at in seen] == ["loss", "loss_per_token", "probs", "logits"]
    for wanted in ("ln_final.out[", "ln_final.normalized[", "blocks.3.resid_post["):
        page.locator(f'#why .terms a[href*="at={wanted}"], #why .ends a[href*="at={wanted}"]').first.click()
        expect(page.locator("#why .addr").first).to_contain_text(wanted)
    explore(page, server, "blocks.0.resid_pre[2,5]")
    page.locator('#why a[href*="at=embed["]').first.click()
    expect(page.locator("#why .addr").first).to_have_text("embed[2,5]")
    page.locator('#why a[href*="at=W_E["]').first.click()
    expect(page.locator("#why")).to_contain_text("From training: the chain ends here")
    assert [crumb.split()[0] for crumb in page.locator(".trail li").all_inner_texts()][-3:] == [
        "stream",
        "embedding",
        "W_E",
    ]


def test_trail_leads_back(page: Page, server: str) -> None:
    explore(page, server, "blocks.2.attn.qk[1,14,2]", trail="loss~blocks.2.attn.pattern[1,14,2]")
    page.locator(".trail a").nth(1).click()
    expect(page.locator("#why .addr").first).to_have_text("blocks.2.attn.pattern[1,14,2]")
    assert page.locator(".trail li").count() == 2
    page.go_back()
    expect(page.locator("#why .addr").first).to_have_text("blocks.2.attn.qk[1,14,2]")


def test_buttons_lead_where_links_would(page: Page, server: str) -> None:
    explore(page, server, "blocks.2.attn.qk[1,40,2]", text=LONG, trail="loss")
    page.locator("#why .terms button.num").first.click()
    expect(page.locator("#why .addr").first).to_contain_text("blocks.2.attn.q[40,1,")
    assert page.locator(".trail li").count() == 3
    assert "trail=loss~blocks.2.attn.qk[1,40,2]" in page.url.replace("%5B", "[").replace("%5D", "]").replace(
        "%2C", ","
    ).replace("%7E", "~")


# -- down the slope, and a step


@pytest.mark.parametrize("javascript", [True, False])
def test_from_the_loss_to_a_weight_s_slope_a_nudge_and_a_step(
    open_page: OpenPage, server: str, javascript: bool
) -> None:
    """By clicks alone: the loss, its slope, down to one weight's; the weight nudged; the weight after three steps."""
    page = open_page(javascript=javascript, width=1440)
    panel, here = page.locator("#why"), page.locator("#why .addr").first
    explore(page, server, "loss")
    panel.get_by_role("link", name="Gradient").click()
    expect(here).to_have_text("loss.grad")
    expect(panel).to_contain_text("The loss moves one for one with itself")

    for wanted in ("loss_per_token[", "probs[", "logits[", "ln_final.out["):
        panel.locator(f'.ends a[href*="at={wanted}"]').first.click()
        expect(here).to_contain_text(wanted)
        expect(here).to_contain_text(".grad")
    page.locator("#values .grid td a").nth(3).click()  # from the slopes of a row to one of them
    expect(here).to_have_text(re.compile(r"ln_final\.out\[\d+,\d+\]\.grad"))
    panel.locator('.ends a[href*="at=ln_final.w["]').first.click()
    expect(here).to_have_text(re.compile(r"ln_final\.w\[\d+\]\.grad"))
    expect(panel).to_contain_text("Nudge it up and the loss goes")

    panel.get_by_role("link", name="Nudge this number").click()
    expect(panel.locator(".nudge tbody tr")).to_have_count(8)
    expect(panel.locator(".nudge .total")).to_contain_text("the slope")
    panel.get_by_label("Another h").fill("0.3")
    panel.get_by_role("button", name="Nudge").click()
    expect(panel.locator(".nudge tbody tr")).to_have_count(9)
    assert "nudge=0.3" in page.url

    panel.get_by_role("link", name="After a step").click()
    expect(here).to_have_text(re.compile(r"ln_final\.w\[\d+\]\.step$"))
    expect(panel.locator("table.after")).to_contain_text("after 1 step")
    panel.get_by_label("Steps").fill("3")
    panel.get_by_role("button", name="Take").click()
    expect(here).to_have_text(re.compile(r"\.step\(3\)$"))
    expect(panel.locator("table.after")).to_contain_text("after 3 steps")
    expect(page.locator("#values h2")).to_contain_text("after 3 steps")
    panel.locator('table.terms a[href*=".grad(1)"]').first.click()
    expect(here).to_have_text(re.compile(r"\.grad\(1\)$"))
    expect(page.locator(".trail [aria-current]")).to_contain_text("after 1 step")


def test_a_loss_beside_a_nudge_is_the_loss_of_that_run(page: Page, server: str) -> None:
    explore(page, server, "blocks.1.attn.q[14,1,3].grad", nudge="1")
    link = page.locator(".nudge tbody tr").first.locator("a").first
    shown = link.inner_text()
    link.click()
    expect(page.locator("#why .addr").first).to_have_text("loss")
    assert page.locator("#why h2 .it").inner_text()[:5] == shown[:5]
    expect(page.locator("#values .addr").first).to_have_text("loss")
    assert page.title().startswith("loss")
    assert "set=blocks.1.attn.q[14,1,3]" in page.url.replace("%5B", "[").replace("%5D", "]").replace("%2C", ",")


# -- terms


def test_sorting_and_paging_swap_only_the_panel(page: Page, server: str) -> None:
    explore(page, server, "logits[14,5]")
    page.evaluate("document.querySelector('#values').mark = 1")
    page.get_by_role("link", name="by index").click()
    expect(page.locator("#why .terms tbody th").first).to_have_text("0")
    page.get_by_role("link", name="next ›").click()
    expect(page.locator("#why .terms tbody th").first).to_have_text("10")
    assert page.evaluate("document.querySelector('#values').mark") == 1
    assert "order=index" in page.url and "offset=10" in page.url
    page.reload()
    expect(page.locator("#why .terms tbody th").first).to_have_text("10")


def test_a_term_takes_the_whole_page_along(page: Page, server: str) -> None:
    explore(page, server, "logits[14,5]")
    page.locator('#why .terms a[href*="at=ln_final.out[14,"]').first.click()
    expect(page.locator("#why .addr").first).to_have_text(re.compile(r"^ln_final\.out\[14,"))
    expect(page.locator("#values .grid .num[aria-current]")).to_have_count(1)
    expect(page.locator("#map [aria-current]").first).to_have_attribute("href", re.compile(r"ln_final\.out"))
    assert page.title().startswith("ln_final.out")
    shown = page.locator("#zones").inner_text()
    page.reload()
    assert page.locator("#zones").inner_text() == shown


def test_all_terms_as_a_file(page: Page, server: str) -> None:
    explore(page, server, "logits[14,5]")
    page.locator("#why .download summary").click()
    with page.expect_download() as download:
        page.locator("#why .download").get_by_role("button", name="CSV").click()
    assert len(download.value.path().read_text("utf-8").splitlines()) == 129


def test_gradient_tab(page: Page, server: str) -> None:
    explore(page, server, "blocks.1.attn.q[14,1,3]")
    page.get_by_role("link", name="Gradient").click()
    expect(page.locator("#why .addr").first).to_have_text("blocks.1.attn.q[14,1,3].grad")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Gradient")
