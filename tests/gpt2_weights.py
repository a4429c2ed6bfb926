"""Where GPT-2's weights lie on this machine, and how to get them: `make test-gpt2` asks first."""

from __future__ import annotations

import os
from pathlib import Path

ADVICE = """\
GPT-2's weights (548 MB) are not on this machine, so what needs them cannot be tested here. One of these brings them:

  make run MODEL=gpt2                           fetches them from the model hub into its cache, once
  make test-gpt2 GPT2=/path/to/gpt2             a directory with config.json, model.safetensors, vocab.json, merges.txt
  EVERYNUMBER_MODELS=/path make test-gpt2       where /path/gpt2 is such a directory"""


def find() -> Path | None:
    """The directory: named by EVERYNUMBER_GPT2, else below one of EVERYNUMBER_MODELS, else in the hub's cache."""
    if named := os.environ.get("EVERYNUMBER_GPT2"):
        return Path(named).resolve()
    from model.loading import in_directories
    from model.weights import hub

    published = hub.published("gpt2")
    assert published is not None
    return in_directories("gpt2", os.environ.get("EVERYNUMBER_MODELS", "")) or hub.cached(published)


def main() -> None:
    """Say where they are, or how to get them and fail."""
    found = find()
    if found is None:
        raise SystemExit(ADVICE)
    if not (found / "config.json").is_file():
        raise SystemExit(f"{found} holds no config.json.\n\n{ADVICE}")
    print(f"GPT-2 in {found}")


if __name__ == "__main__":
    main()
