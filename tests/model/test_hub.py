"""Fetching published checkpoints: from a stand-in for the hub, with all that can go wrong on the way."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_hub_download

from model.errors import CheckpointError, UnknownModel
from model.loading import load
from model.weights import hub
from model.weights.checkpoints import WEIGHTS, is_whole, load_network, read_config
from model.weights.hub import (
    PUBLISHED,
    DownloadError,
    cached,
    checksum,
    fetch,
    megabytes,
    unfinished,
)
from tests.app.conftest import save_checkpoint
from tests.model.models import error_of
from tests.stand_in_hub import PIECE, REVISION, StandIn, stand_in_hub


@pytest.fixture
def standing_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    checkpoint = save_checkpoint(tmp_path / "offered")
    with stand_in_hub(monkeypatch, tmp_path, checkpoint) as state:
        yield state


def everything_in(directory: Path) -> list[str]:
    """The names of all files below, locks left out."""
    return sorted(path.name for path in directory.rglob("*") if path.is_file() and path.suffix != ".lock")


def fault(state: StandIn) -> DownloadError:
    return error_of(DownloadError, fetch, state.published)


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


# -- the list


def test_the_list_says_the_published_shapes_and_counts() -> None:
    counts = {one.name: one.config for one in PUBLISHED}
    assert set(counts) == {"gpt2", "distilgpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}
    for one in PUBLISHED:
        assert len(one.revision) == 40 and int(one.revision, 16)
        assert len(one.sha256) in (0, 64)
        c = one.config
        block = 12 * c.d_model**2 + 13 * c.d_model
        parameters = (c.d_vocab + c.n_ctx) * c.d_model + c.n_layer * block + 2 * c.d_model
        masks = c.n_layer * c.n_ctx**2 if one.name != "distilgpt2" else 6 * c.n_ctx**2
        header = one.size - 4 * (parameters + masks)
        assert 0 < header < 100_000, one.name  # the file is its float32 weights and causal masks, and a header


@pytest.mark.parametrize(("name", "title"), [("gpt2", "GPT-2"), ("distilgpt2", "DistilGPT-2"), ("gpt2-xl", "GPT-2 XL")])
def test_titles(name: str, title: str) -> None:
    one = hub.published(name)
    assert one is not None and one.title == title


def test_sizes_are_written_as_disks_are_sold() -> None:
    assert [megabytes(n) for n in (548_105_171, 999_400_000, 1_519_984_962, 2_000, -5)] == [
        "548 MB", "999 MB", "1.52 GB", "2 kB", "0 kB",
    ]  # fmt: skip


# -- what works


def test_a_checkpoint_is_fetched_whole_into_the_hubs_own_cache(standing_in: StandIn) -> None:
    heard: list[tuple[int, int]] = []
    directory = fetch(standing_in.published, lambda done, total: heard.append((done, total)))
    names = ("config.json", "merges.txt", WEIGHTS, "vocab.json")
    assert sorted(path.name for path in directory.iterdir()) == sorted(names)
    for name in names:
        assert (directory / name).read_bytes() == (standing_in.directory / name).read_bytes()
    total = sum((standing_in.directory / name).stat().st_size for name in names)
    assert heard[-1] == (total, total) and heard == sorted(heard) and len(heard) > 10
    # The hub's client itself finds it there, without asking.
    standing_in.asked.clear()
    repo = standing_in.published.repo
    assert hf_hub_download(repo, WEIGHTS, revision=REVISION, local_files_only=True) == str(directory / WEIGHTS)
    assert standing_in.asked == [] and not list(standing_in.cache.rglob("*.incomplete"))


def test_only_safetensors_and_tokenizer_files_are_asked_for(standing_in: StandIn) -> None:
    (standing_in.directory / "pytorch_model.bin").write_bytes(b"a pickle")
    fetch(standing_in.published)
    assert {name for _, name, _ in standing_in.asked} == {"config.json", "vocab.json", "merges.txt", WEIGHTS}


def test_once_fetched_nobody_is_asked_again(standing_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fetch(standing_in.published)
    standing_in.asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(standing_in.published) == first
    model = load("gpt2")
    assert model.name == "gpt2" and model.directory == first and standing_in.asked == []


def test_load_fetches_what_is_not_there(standing_in: StandIn) -> None:
    model = load("gpt2")
    assert model.config == standing_in.published.config
    assert float(model.run("The cat").tensor("loss")) > 0


def test_a_directory_of_checkpoints_comes_before_the_hub(
    standing_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = save_checkpoint(tmp_path / "mine" / "gpt2", n_layer=1)
    monkeypatch.setenv("EVERYNUMBER_MODELS", str(tmp_path / "mine"))
    assert load("gpt2").directory == mine and standing_in.asked == []
    monkeypatch.setenv("EVERYNUMBER_MODELS", str(mine))
    assert load("gpt2").directory == mine


def test_a_cache_under_the_old_name_or_of_another_commit_is_found(standing_in: StandIn) -> None:
    one = standing_in.published
    for repo in (one.old_repo, one.repo):
        folder = standing_in.cache / f"models--{repo.replace('/', '--')}"
        shutil.rmtree(standing_in.cache, ignore_errors=True)
        assert cached(one) is None
        shutil.copytree(standing_in.directory, folder / "snapshots" / ("b" * 40))
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("b" * 40)
        assert cached(one) == folder / "snapshots" / ("b" * 40)


# -- a line that breaks


def test_a_line_that_breaks_once_is_taken_up_where_it_broke(standing_in: StandIn) -> None:
    standing_in.break_after = 5 * PIECE
    directory = fetch(standing_in.published)
    starts = standing_in.weights_asked()
    assert starts[0] == 0 and len(starts) == 2 and 0 < starts[1] <= 5 * PIECE
    assert is_whole(directory / WEIGHTS)


def test_a_line_that_stays_broken_leaves_what_came_and_the_next_try_goes_on(standing_in: StandIn) -> None:
    standing_in.break_after, standing_in.breaks = 5 * PIECE, 1000
    error = fault(standing_in)
    assert error.message.startswith("GPT-2 could not be fetched") and "goes on from there" in error.hint
    left = unfinished(standing_in.published)
    assert 0 < left <= 5 * PIECE and cached(standing_in.published) is None
    assert everything_in(standing_in.cache / "models--openai-community--gpt2" / "snapshots").count(WEIGHTS) == 0
    error_of(CheckpointError, load_network, standing_in.cache, standing_in.published.config)
    standing_in.breaks = 0
    standing_in.asked.clear()
    heard: list[int] = []
    fetch(standing_in.published, lambda done, total: heard.append(done))
    assert standing_in.weights_asked() == [left]
    assert unfinished(standing_in.published) == 0


def test_a_hub_that_ignores_where_to_go_on_sends_all_again(standing_in: StandIn) -> None:
    standing_in.break_after, standing_in.breaks = 3 * PIECE, 1000
    fault(standing_in)
    standing_in.breaks, standing_in.ignores_ranges = 0, True
    directory = fetch(standing_in.published)
    assert (directory / WEIGHTS).read_bytes() == (standing_in.directory / WEIGHTS).read_bytes()


def test_what_the_caller_raises_ends_it_and_is_kept(standing_in: StandIn) -> None:
    class Enough(Exception): ...

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise Enough

    with pytest.raises(Enough):
        fetch(standing_in.published, stop)
    assert unfinished(standing_in.published) > 0 and cached(standing_in.published) is None
    assert is_whole(fetch(standing_in.published) / WEIGHTS)


# -- what is wrong


def test_no_network(standing_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    )
    error = fault(standing_in)
    assert "could not be fetched" in error.message and "online" in error.hint
    assert everything_in(standing_in.cache) == [] if standing_in.cache.exists() else True


def test_offline_by_setting(standing_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    error = fault(standing_in)
    assert "HF_HUB_OFFLINE" in error.message and "EVERYNUMBER_MODELS" in error.hint
    assert standing_in.asked == []


def test_a_wrong_checksum(standing_in: StandIn) -> None:
    right = (standing_in.directory / WEIGHTS).read_bytes()
    standing_in.content[WEIGHTS] = right[:-1] + bytes([right[-1] ^ 1])  # one bit, in the last weight
    error = fault(standing_in)
    assert "checksum is wrong" in error.message and "thrown away" in error.hint
    assert cached(standing_in.published) is None and unfinished(standing_in.published) == 0
    assert WEIGHTS not in everything_in(standing_in.cache)
    del standing_in.content[WEIGHTS]
    assert is_whole(fetch(standing_in.published) / WEIGHTS)


def test_a_wrong_checksum_of_a_small_file(standing_in: StandIn) -> None:
    right = (standing_in.directory / "merges.txt").read_bytes()
    standing_in.content["merges.txt"] = right[:-2] + b"x\n"
    assert "merges.txt" in fault(standing_in).message
    assert cached(standing_in.published) is None


def test_another_file_than_the_pinned_one_is_not_taken(standing_in: StandIn) -> None:
    standing_in.etags[WEIGHTS] = "f" * 64
    error = fault(standing_in)
    assert "another model.safetensors" in error.message and standing_in.published.sha256 in error.hint
    assert not [asked for asked in standing_in.asked if asked[0] == "GET"]


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_a_hub_that_refuses(standing_in: StandIn, status: int) -> None:
    standing_in.status = status
    assert str(status) in fault(standing_in).message


def test_a_repository_without_the_file(standing_in: StandIn) -> None:
    (standing_in.directory / "vocab.json").unlink()
    assert "404" in fault(standing_in).message


def test_too_little_disk_is_told_before_anything_is_fetched(
    standing_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(standing_in.directory)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=hub.SPARE))
    error = fault(standing_in)
    assert "of disk" in error.message and "HF_HOME" in error.hint
    assert not [asked for asked in standing_in.asked if asked[0] == "GET"]


def test_a_disk_that_fills_up_on_the_way(standing_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hub.http_get

    def fills(url: str, file: Any, **given: Any) -> None:
        real(url, Full(file) if url.endswith(WEIGHTS) else file, **given)

    class Full:
        """A file on a disk with room for two pieces."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, piece: bytes) -> int:
            if self.file.tell() > 2 * PIECE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return int(self.file.write(piece))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    monkeypatch.setattr(hub, "http_get", fills)
    error = fault(standing_in)
    assert "disk is full" in error.message
    assert unfinished(standing_in.published) == 0 and WEIGHTS not in everything_in(standing_in.cache)
    monkeypatch.setattr(hub, "http_get", real)
    assert is_whole(fetch(standing_in.published) / WEIGHTS)


def test_a_cache_that_may_not_be_written(standing_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "may not be written" in fault(standing_in).message


@pytest.mark.parametrize("where", ["blob", "snapshot"])
def test_a_half_file_in_the_cache_is_not_taken_for_whole(standing_in: StandIn, where: str) -> None:
    one = standing_in.published
    directory = fetch(one)
    target = (directory / WEIGHTS).resolve() if where == "blob" else directory / WEIGHTS
    raw = (directory / WEIGHTS).read_bytes()
    if where == "snapshot":
        target.unlink()
    target.write_bytes(raw[: len(raw) // 2])
    assert cached(one) is None
    assert is_whole(fetch(one) / WEIGHTS)


def test_two_programs_do_not_write_one_file(standing_in: StandIn) -> None:
    blob = standing_in.cache / "models--openai-community--gpt2" / "blobs" / standing_in.etag("config.json")
    blob.parent.mkdir(parents=True)
    with hub._alone(blob):
        assert "Another program" in fault(standing_in).message


# -- checksums, whole files


def test_gits_checksum_is_gits(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"hello\n")
    assert checksum(tmp_path / "file", "0" * 40) == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object


def test_a_file_is_whole_as_its_header_says(standing_in: StandIn, tmp_path: Path) -> None:
    raw = (standing_in.directory / WEIGHTS).read_bytes()
    path = tmp_path / "x"
    for content, whole in (
        (raw, True), (raw[:-1], False), (raw + b"\0", False), (raw[:7], False), (b"", False),
        (struct.pack("<Q", 2**60) + b"{}", False), (struct.pack("<Q", 2) + b"{}", False),
        (struct.pack("<Q", 2) + b"[]", False), (struct.pack("<Q", 10) + b'{"a":null}', False),
    ):  # fmt: skip
        path.write_bytes(content)
        assert is_whole(path) is whole
    assert not is_whole(tmp_path / "nowhere")


def test_unknown_names_are_told_with_all_that_are_known() -> None:
    hint = error_of(UnknownModel, load, "gpt-3").hint
    assert "gpt2-xl" in hint and "toy" in hint


def test_a_fetched_checkpoint_reads_its_config(standing_in: StandIn) -> None:
    assert read_config(fetch(standing_in.published)) == standing_in.published.config


def test_the_patient_wait_for_another_program_and_then_have_it(standing_in: StandIn) -> None:
    standing_in.holds_at = 4 * PIECE
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch, standing_in.published)
        until(lambda: standing_in.weights_asked())
        second = pool.submit(fetch, standing_in.published, patient=True)
        time.sleep(0.05)
        assert not second.done()
        standing_in.may_go_on.set()
        assert first.result() == second.result()
    assert standing_in.weights_asked() == [0]
