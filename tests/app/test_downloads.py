"""Fetching a published model from a stand-in for the hub: from the menu, with progress, by whom, and at the start."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from app.main import create_app
from app.server.admin import is_loopback
from app.settings import AppSettings
from app.stores.models import ModelStore
from model.weights import hub
from model.weights.checkpoints import WEIGHTS
from tests.app.conftest import local, save_checkpoint, until
from tests.model.models import error_of
from tests.stand_in_hub import PIECE, StandIn, stand_in_hub

# -- fetching


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    with stand_in_hub(monkeypatch, tmp_path, save_checkpoint(tmp_path / "offered")) as state:
        yield state


def card_of(client: TestClient) -> BeautifulSoup:
    card = BeautifulSoup(client.get("/models").text, "lxml").select_one("#model-gpt2")
    assert card is not None
    return BeautifulSoup(str(card), "lxml")


def test_gpt2_is_fetched_from_the_menu_and_then_shown(offered: StandIn) -> None:
    made = create_app(AppSettings())
    client, downloads = local(made), made.state.services.models.downloads
    offered.holds_at = 4 * PIECE
    menu = BeautifulSoup(client.get("/explore?text=The").text, "lxml").select_one("#models form")
    assert menu is not None and menu.text.strip() == f"Get GPT-2 ({hub.megabytes(offered.published.size)})"
    missing = client.get("/explore?model=gpt2&text=The")
    assert missing.status_code == 404 and "not on this server yet" in missing.text

    begun = client.post(str(menu["action"]), follow_redirects=False)
    assert begun.status_code == 303 and begun.headers["Location"] == "/models"
    until(lambda: downloads.find("gpt2").done >= 4 * PIECE)
    assert client.post(str(menu["action"])).status_code == 200  # asked for twice: the same download
    card = card_of(client)
    share = downloads.find("gpt2").share
    bar = card.select_one("progress")
    assert bar is not None and abs(int(str(bar["value"])) - 100 * share) <= 1 and 0 < share < 1
    assert "noscript" in client.get("/models").text and card.select_one("form[action$='/stop']")
    assert "fetched" in BeautifulSoup(client.get("/explore?text=The").text, "lxml").select_one("#models").text  # type: ignore[union-attr]
    progress = client.get("/models/gpt2", headers={"HX-Request": "true"})
    assert "HX-Retarget" not in progress.headers and "<progress" in progress.text
    assert client.get("/explore?text=The+cat").status_code == 200, "the embedded model goes on serving"

    offered.may_go_on.set()
    until(lambda: downloads.find("gpt2").is_over)
    assert downloads.find("gpt2").stage == "done"
    assert client.get("/models/gpt2", headers={"HX-Request": "true"}).headers["HX-Retarget"] == "#model-gpt2"
    link = card_of(client).select_one(".links a")
    assert link is not None and client.get(str(link["href"])).status_code == 200
    assert client.get("/explore?model=gpt2&text=The+dog").status_code == 200
    assert len([asked for asked in offered.asked if asked[:2] == ("GET", WEIGHTS)]) == 1
    assert ModelStore(AppSettings(model="gpt2")).entry("").name == "gpt2", "another server finds it in the cache"


def test_a_failed_download_is_told_and_can_be_tried_again(offered: StandIn) -> None:
    made = create_app(AppSettings())
    client, downloads = local(made), made.state.services.models.downloads
    right = (offered.directory / WEIGHTS).read_bytes()
    offered.content[WEIGHTS] = b"\0" * len(right)
    client.post("/models/gpt2/get")
    until(lambda: downloads.find("gpt2").is_over)
    card = card_of(client)
    fault, button = card.select_one(".fault"), card.select_one("form button")
    assert fault is not None and "checksum is wrong" in fault.text
    assert button is not None and button.text == "Try again"
    assert client.get("/explore?text=The").status_code == 200 and "gpt2" not in made.state.services.models
    del offered.content[WEIGHTS]
    client.post("/models/gpt2/get")
    until(lambda: downloads.find("gpt2").is_over)
    assert "gpt2" in made.state.services.models


def test_a_download_can_be_stopped_and_goes_on_where_it_was(offered: StandIn) -> None:
    made = create_app(AppSettings())
    client, downloads = local(made), made.state.services.models.downloads
    offered.holds_at = 4 * PIECE
    client.post("/models/gpt2/get")
    until(lambda: downloads.find("gpt2").done >= 4 * PIECE)
    assert client.post("/models/gpt2/stop", follow_redirects=False).status_code == 303
    offered.may_go_on.set()
    until(lambda: downloads.find("gpt2").is_over)
    assert downloads.find("gpt2").stage == "cancelled"
    card = card_of(client)
    assert "What has come is kept" in card.text and card.select_one("form button").text == "Go on"  # type: ignore[union-attr]
    offered.holds_at = None
    offered.asked.clear()
    client.post("/models/gpt2/get")
    until(lambda: downloads.find("gpt2").is_over)
    assert downloads.find("gpt2").stage == "done" and offered.weights_asked()[0] >= 4 * PIECE


def test_a_restarted_server_knows_what_an_earlier_one_left(offered: StandIn) -> None:
    offered.break_after, offered.breaks = 4 * PIECE, 1000
    error_of(hub.DownloadError, hub.fetch, offered.published)
    card = card_of(local(create_app(AppSettings())))
    assert "from an earlier try" in card.text and card.select_one("form button").text == "Go on"  # type: ignore[union-attr]


# -- who may


def test_only_this_machine_or_the_token_may_fetch(offered: StandIn) -> None:
    made = create_app(AppSettings.model_validate({"admin_token": "open sesame"}))
    here = local(made)
    far = TestClient(made, base_url="http://example.org", client=("203.0.113.7", 40000))
    spoofed = TestClient(made, base_url="http://rebound.example", client=("127.0.0.1", 40000))
    refused = [
        far.post("/models/gpt2/get"),
        far.post("/models/gpt2/get", data={"token": "open"}),
        far.post("/models/gpt2/get", data={"token": ""}),
        spoofed.post("/models/gpt2/get"),
        here.post("/models/gpt2/get", headers={"X-Forwarded-For": "203.0.113.7"}),
        here.post("/models/gpt2/get", headers={"Origin": "http://evil.example"}),
        here.post("/models/gpt2/get", headers={"Origin": "null"}),
        here.post("/models/gpt2/get", headers={"Origin": "http://["}),
        here.post("/models/gpt2/get", headers={"Sec-Fetch-Site": "cross-site"}),
        far.post("/models/gpt2/stop"),
    ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)
    assert "not this server’s token" in refused[1].text and "Only the host" in refused[0].text
    assert made.state.services.models.downloads.find("gpt2") is None and offered.asked == []
    assert card_of(far).select_one("input[name=token]") and not card_of(here).select_one("input[name=token]")
    with_token = far.post("/models/gpt2/get", data={"token": "open sesame"}, follow_redirects=False)
    assert with_token.status_code == 303
    until(lambda: made.state.services.models.downloads.find("gpt2").is_over)


@pytest.mark.parametrize("settings", [{"downloads": "off", "admin_token": "t"}, {"downloads": "off"}])
def test_downloads_can_be_switched_off(offered: StandIn, settings: dict[str, str]) -> None:
    made = create_app(AppSettings.model_validate(settings))
    client = local(made)
    assert client.post("/models/gpt2/get", data={"token": "t"}).status_code == 403
    page = client.get("/models").text
    assert "model-gpt2" not in page and "Get GPT-2" not in client.get("/explore?text=The").text
    missing = client.get("/api/v1/run?model=gpt2&text=The")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "unknown_model"
    assert offered.asked == []


def test_downloads_for_the_token_only(offered: StandIn) -> None:
    client = local(create_app(AppSettings.model_validate({"downloads": "admin", "admin_token": "t"})))
    assert client.post("/models/gpt2/get").status_code == 403
    assert client.post("/models/gpt2/get", data={"token": "t"}, follow_redirects=False).status_code == 303


def test_without_a_token_nobody_else_is_shown_a_button(offered: StandIn) -> None:
    far = TestClient(create_app(AppSettings()), base_url="http://example.org", client=("203.0.113.7", 1))
    card = card_of(far)
    assert not card.select("form") and "Only the host" in card.text


def test_behind_proxies_nobody_counts_as_local(offered: StandIn) -> None:
    client = local(create_app(AppSettings(trusted_hops=1)))
    assert client.post("/models/gpt2/get", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.8.9.1", True), ("10.0.0.1", False), ("", False),
     ("127.0.0.1.example.org", False)],
)  # fmt: skip
def test_loopback(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


@pytest.mark.parametrize("name", ["gpt2-xl", "nope", "..%2F..%2Fetc", "%00", "a" * 300])
def test_no_other_name_is_fetched(offered: StandIn, name: str) -> None:
    client = local(create_app(AppSettings()))
    assert client.post(f"/models/{name}/get").status_code == 404
    assert offered.asked == []


# -- as the default model


def test_the_default_model_is_fetched_at_the_start(offered: StandIn) -> None:
    made = create_app(AppSettings(model="gpt2"))
    assert made.state.services.models.default == "gpt2"
    assert TestClient(made).get("/api/v1/run?text=The").json()["model"] == "gpt2"


def test_without_its_default_model_the_server_shows_the_embedded_one(
    offered: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    offered.status = 503
    with caplog.at_level(logging.ERROR):
        made = create_app(AppSettings(model="gpt2"))
    assert "The hub refused GPT-2: 503" in caplog.text and "“embedded” is shown" in caplog.text
    assert TestClient(made).get("/api/v1/run?text=The").json()["model"] == "embedded"
    assert "Get GPT-2" in local(made).get("/models").text


def test_switched_off_the_default_model_is_not_fetched(offered: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    store = ModelStore(AppSettings(model="gpt2", downloads="off"))
    assert store.default == "embedded" and "EVERYNUMBER_DOWNLOADS is off" in caplog.text and offered.asked == []


def test_a_cached_default_model_needs_no_network(offered: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.fetch(offered.published)
    offered.asked.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert ModelStore(AppSettings(model="gpt2", downloads="off")).default == "gpt2" and offered.asked == []


def test_a_half_checkpoint_in_the_cache_is_offered_again(offered: StandIn) -> None:
    directory = hub.fetch(offered.published)
    target = (directory / WEIGHTS).resolve()
    shutil.copy(target, target.with_suffix(".whole"))
    target.write_bytes(target.read_bytes()[:5000])
    store = ModelStore(AppSettings())
    assert "gpt2" not in store and [one.name for one in store.offers] == ["gpt2"]


def test_what_another_server_fetched_is_found_without_a_restart(offered: StandIn) -> None:
    made = create_app(AppSettings(downloads="off"))
    client = local(made)
    assert client.get("/api/v1/run?model=gpt2&text=The").status_code == 404
    hub.fetch(offered.published)
    assert client.get("/api/v1/run?model=gpt2&text=The").status_code == 200
    other = local(create_app(AppSettings(downloads="off")))
    assert other.get("/models").text.count('id="model-gpt2"') == 1


def test_a_server_that_stops_calls_its_downloads_off(offered: StandIn) -> None:
    made = create_app(AppSettings())
    downloads = made.state.services.models.downloads
    offered.holds_at = 4 * PIECE
    with local(made) as client:
        client.post("/models/gpt2/get")
        until(lambda: downloads.find("gpt2").done >= 4 * PIECE)
    offered.may_go_on.set()
    until(lambda: downloads.find("gpt2").is_over)
    assert downloads.find("gpt2").stage == "cancelled" and hub.unfinished(offered.published) > 0
