"""The published checkpoints: which there are, where they lie in the hub's cache here, and how one is fetched.

The files are those of one pinned commit on the Hugging Face hub: `model.safetensors`, `config.json` and the
tokenizer's two, nothing that has to be unpickled. They come through the hub's own client and lie in its own cache, so
what other programs have fetched is found, and what is fetched here is found by them.

A file grows under another name in the cache (`….incomplete`) and takes its place only once its checksum is right: what
is unfinished or wrong is never read as a model. The next try goes on where the last one ended.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.file_download import HfFileMetadata, http_get, repo_folder_name
from tqdm import tqdm

from model.arch.base import Config
from model.arch.registry import config_from
from model.errors import ReaderError
from model.weights.checkpoints import WEIGHTS, is_whole

SMALL_FILES = ("config.json", "vocab.json", "merges.txt")
FILES = (*SMALL_FILES, WEIGHTS)

SPARE = 100 * 2**20  # bytes of disk that stay free beside a download
SHA256 = 64  # hexadecimal digits; the hub names a large file by this checksum, a small one by git's

# The client reads this much before it says so: small enough that progress and a call to stop are seen soon.
constants.DOWNLOAD_CHUNK_SIZE = 2**20

Advance = Callable[
    [int, int], None
]  # called with the bytes that are there and their total; what it raises ends the work


class DownloadError(ReaderError):
    """A checkpoint that could not be fetched, in words for whoever asked for it."""

    code, part = "download_failed", "model"


@dataclass(frozen=True)
class Published:
    """A checkpoint on the hub.

    `title` is its name as its authors write it, `revision` the commit, `size` and `sha256` are those of its
    `model.safetensors` ("": the hub's word is taken), `old_repo` the name under which older caches know the repository.
    """

    name: str
    title: str
    repo: str
    revision: str
    config: Config
    size: int
    sha256: str = ""
    old_repo: str = ""


def _listed() -> Iterator[Published]:
    for one in json.loads(Path(__file__).with_name("published.json").read_text("utf-8")):
        yield Published(**one | {"config": config_from(one["config"])})


PUBLISHED = tuple(_listed())


def published(name: str) -> Published | None:
    """The published checkpoint of that name."""
    return next((one for one in PUBLISHED if one.name == name), None)


# -- what is there


def cached(one: Published) -> Path | None:
    """The directory in the hub's cache that holds this checkpoint whole: the pinned commit, or what `main` was."""
    places = [(one.repo, one.revision), (one.repo, "main")]
    places += [(one.old_repo, one.revision), (one.old_repo, "main")] if one.old_repo else []
    for repo, revision in places:
        found = try_to_load_from_cache(repo, WEIGHTS, revision=revision)
        if isinstance(found, str) and _is_checkpoint(directory := Path(found).parent):
            return directory
    return None


def _is_checkpoint(directory: Path) -> bool:
    has_tokenizer = (directory / "tokenizer.json").exists() or all(
        (directory / name).exists() for name in ("vocab.json", "merges.txt")
    )
    return has_tokenizer and (directory / "config.json").exists() and is_whole(directory / WEIGHTS)


def unfinished(one: Published) -> int:
    """Bytes of weights that a download which broke off has left: the next one goes on from there."""
    name = one.sha256 or "?" * SHA256
    return max((path.stat().st_size for path in _blobs(one).glob(f"{name}.incomplete")), default=0)


def cache_directory() -> Path:
    """Where the hub's client keeps what it has fetched."""
    return Path(constants.HF_HUB_CACHE)


def _blobs(one: Published) -> Path:
    return cache_directory() / repo_folder_name(repo_id=one.repo, repo_type="model") / "blobs"


# -- fetching


def fetch(one: Published, advance: Advance | None = None, *, patient: bool = False) -> Path:
    """The checkpoint's directory; what of it is not in the cache yet is downloaded, with a bar in a terminal.

    `advance` hears of every mebibyte. Where another process is fetching the same file, the patient wait for it.
    Raises DownloadError; then no broken file is left in the cache.
    """
    if found := cached(one):
        return found
    with _told(one):
        offers = {name: _offer(one, name) for name in FILES}
        total = sum(offer.size or 0 for offer in offers.values())
        _check_space(one, total - unfinished(one))
        done = 0
        for name, offer in offers.items():
            _fetch_file(one, name, offer, partial(_all_together, advance, done, total), patient)
            done += offer.size or 0
    found = cached(one)
    if found is None:
        raise DownloadError(
            f"{one.title} was fetched, but is no whole checkpoint.", f"Look into {_blobs(one).parent}, or remove it."
        )
    return found


def _all_together(advance: Advance | None, before: int, total: int, n: int) -> None:
    if advance is not None:
        advance(before + n, total)


def _offer(one: Published, name: str) -> HfFileMetadata:
    """What the hub says about a file. Raises DownloadError where that is not the file that was pinned."""
    offer = get_hf_file_metadata(hf_hub_url(one.repo, name, revision=one.revision))
    expected = one.sha256 if name == WEIGHTS else ""
    if not offer.etag or (expected and offer.etag != expected):
        raise DownloadError(
            f"The hub offers another {name} of {one.title} than the one that is pinned here.",
            f"Expected SHA-256 {expected or 'a checksum'}, offered: {offer.etag or 'none'}.",
        )
    return offer


def _check_space(one: Published, needed: int) -> None:
    directory = cache_directory()
    while not directory.exists():
        directory = directory.parent
    free = shutil.disk_usage(directory).free
    if free < needed + SPARE:
        raise DownloadError(
            f"{one.title} needs {megabytes(needed)} of disk, and {megabytes(free)} are free in {directory}.",
            "Make room there, or name another place with HF_HOME.",
        )


def _fetch_file(
    one: Published, name: str, offer: HfFileMetadata, advance: Callable[[int], None], patient: bool
) -> None:
    """One file into the cache: downloaded to the end, checked, then put in its place by the hub's client."""
    assert offer.etag
    blob = _blobs(one) / offer.etag
    blob.parent.mkdir(parents=True, exist_ok=True)
    with _alone(blob, patient):
        if blob.exists() and checksum(blob, offer.etag) != offer.etag:
            blob.unlink()  # a half file of some other program
        if not blob.exists():
            growing = blob.with_name(f"{blob.name}.incomplete")
            _download(one, name, offer, growing, advance)
            if checksum(growing, offer.etag) != offer.etag:
                growing.unlink()
                raise DownloadError(
                    f"What came as {name} of {one.title} is not what the hub promised: its checksum is wrong.",
                    "It was thrown away. Try again; if it stays so, something on the way changes what you load.",
                )
            growing.replace(blob)
    place = blob.parents[1] / "snapshots" / one.revision / name
    if place.exists() and not place.samefile(blob) and checksum(place, offer.etag) != offer.etag:
        place.unlink()  # a copy (where there are no links) that is broken
    hf_hub_download(one.repo, name, revision=one.revision)


@contextmanager
def _alone(blob: Path, patient: bool = False) -> Iterator[None]:
    """One process at a time fetches a file; the lock lies where the hub's client keeps its own."""
    lock = blob.parents[2] / ".locks" / blob.parents[1].name / f"{blob.name}.incomplete.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=-1 if patient else 1.0):
            yield
    except Timeout:
        raise DownloadError(
            "Another program on this machine is fetching this model.", "Wait until it is done."
        ) from None


def _download(one: Published, name: str, offer: HfFileMetadata, path: Path, advance: Callable[[int], None]) -> None:
    """Append to `path` what is missing of the file. The client itself tries again where the line breaks."""
    with path.open("ab") as file:
        if offer.size is not None and file.tell() > offer.size:
            file.truncate(0)
        try:
            http_get(
                hf_hub_url(one.repo, name, revision=one.revision),
                file,
                resume_size=file.seek(0, os.SEEK_END),
                headers={"Accept-Encoding": "identity"},
                expected_size=offer.size,
                displayed_filename=f"{one.name}/{name}",
                tqdm_class=_bar(advance),
            )
        except OSError as fault:
            if fault.errno in (errno.ENOSPC, errno.EDQUOT):
                path.unlink()  # room for the others
            raise


def _bar(advance: Callable[[int], None]) -> type[tqdm[Any]]:
    """The client's progress bar: drawn in a terminal, told to `advance` everywhere."""

    class Bar(tqdm):  # type: ignore[type-arg]
        def __init__(self, **kwargs: Any) -> None:
            self.there = kwargs.get("initial", 0)
            super().__init__(**kwargs, disable=None)
            advance(self.there)

        def update(self, n: float | None = 1) -> bool | None:
            self.there += n or 0
            shown = super().update(n)
            advance(self.there)
            return shown

    return Bar


def checksum(path: Path, like: str) -> str:
    """The file's checksum of the kind of `like`: SHA-256, or git's, the SHA-1 of “blob”, its size and its content."""
    with path.open("rb") as file:
        if len(like) == SHA256:
            return hashlib.file_digest(file, "sha256").hexdigest()
        start = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
        return hashlib.file_digest(file, lambda: start).hexdigest()


@contextmanager
def _told(one: Published) -> Iterator[None]:
    """What can go wrong on the way, as a DownloadError."""
    try:
        yield
    except ReaderError:
        raise
    except OfflineModeIsEnabled:
        raise DownloadError(
            f"{one.title} is not on this machine, and the hub may not be asked: HF_HUB_OFFLINE is set.",
            f"Unset it, or put the checkpoint into a directory named by EVERYNUMBER_MODELS, as {one.name}/.",
        ) from None
    except HfHubHTTPError as fault:
        status = getattr(fault.response, "status_code", "")
        raise DownloadError(
            f"The hub refused {one.title}: {status or fault}.", "Try again later; what has come is kept."
        ) from fault
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DownloadError(
                f"The disk is full: {one.title} did not fit into {cache_directory()}.",
                "What had come was removed. Make room there, or name another place with HF_HOME.",
            ) from fault
        if fault.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise DownloadError(
                f"{one.title} cannot be kept: {cache_directory()} may not be written.",
                "Name another place with HF_HOME.",
            ) from fault
        raise _broken(one, fault) from fault
    except Exception as fault:  # the client's HTTP library is its own affair, and so are its errors
        if type(fault).__module__.split(".")[0] not in ("httpx", "httpx2", "httpcore", "huggingface_hub"):
            raise
        raise _broken(one, fault) from fault


def _broken(one: Published, fault: Exception) -> DownloadError:
    reason = " ".join(str(fault).split()) or type(fault).__name__
    return DownloadError(
        f"{one.title} could not be fetched: {reason[:200]}",
        "Is this machine online? What has come is kept, and the next try goes on from there.",
    )


def megabytes(n: int) -> str:
    """548 MB, 1.52 GB: as disks are sold, in powers of ten."""
    if n < 999_500:
        return f"{max(n, 0) / 1e3:.0f} kB"
    return f"{n / 1e6:.0f} MB" if n < 999_500_000 else f"{n / 1e9:.2f} GB"
