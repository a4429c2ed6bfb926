"""A notebook that makes one number again in plain PyTorch: from the terms of its explanation, and from scratch.

Written as nbformat 4.5 by hand. It carries `plain_gpt2` as it stands, which reads the checkpoint's own
file: nothing in it needs this project, but for a sum of too many terms to write down.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.features.export import plain_gpt2
from app.features.export.notebook_code import expression, floats, place
from app.features.export.notebook_terms import Project, terms_code
from app.panels.steps import named
from app.render.tokens import sentence_text
from model.address.parser import Calc, parse
from model.address.patch import NO_ADDITIONS

if TYPE_CHECKING:
    from model import Run
    from model.explain.explanation import Explanation

SIGNS = "\\`*_{}[]()#+-.!|$~"
MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in SIGNS} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": "⏎"})
FUTURE = "from __future__ import annotations\n"


def notebook(run: Run, at: str, *, url: str = "", version: str = "") -> str:
    """The notebook as JSON. `url` is the number's page, where others can open it.

    Raises AddressError where `at` is not one number of the run.
    """
    e = run.explain(at, limit=0)
    cells = [
        _markdown(_title(run, e, url, version)),
        _code(_settings(run, e)),
        _markdown(_about_terms(e)),
        _code(terms_code(run, at, _project(run, e.address))),
        _markdown(_about_scratch()),
        _code(_network()),
        _code(_from_scratch(run, e)),
        _markdown(["## In this project", "The same explanation, where the project is installed."]),
        _code(_with_project(run, e)),
    ]
    about = {"display_name": "Python 3", "language": "python", "name": "python3"}
    body = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": about, "language_info": {"name": "python"}},
        "cells": [cell | {"id": f"cell-{n}"} for n, cell in enumerate(cells)],
    }
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


def _markdown(paragraphs: Iterable[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines("\n\n".join(paragraphs))}


def _code(lines: Iterable[str]) -> dict[str, Any]:
    source = _lines("\n".join(lines))
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}


def _lines(text: str) -> list[str]:
    """Text as the format stores it: lines, each but the last with its line end."""
    return [*(f"{line}\n" for line in text.strip("\n").split("\n")[:-1]), text.strip("\n").split("\n")[-1]]


def plain(text: str) -> str:
    """A text with tokens in it as Markdown shows it, whatever signs it holds."""
    return text.translate(MARKDOWN)


# -- the cells


def _title(run: Run, e: Explanation, url: str, version: str) -> Iterator[str]:
    yield f"# Why is `{e.address}` {e.value:.9g}?"
    yield plain(sentence_text(run, e.plain))
    if e.formula:
        yield f"$${e.formula}$$"
    made = f"Made by Every Number{f' {version}' if version else ''} from the model `{run.model.name}`."
    yield f"{made} [The same number on its page](<{url}>)." if url else made


def _settings(run: Run, e: Explanation) -> Iterator[str]:
    yield "import os"
    yield ""
    yield "import torch"
    yield ""
    yield f"MODEL = {run.model.name!r}"
    yield "# A directory with the model’s config.json and model.safetensors; not named, the project is asked."
    yield 'CHECKPOINT = os.environ.get("CHECKPOINT", "")'
    yield f"TEXT = {run.text!r}"
    yield f"BOS = {run.bos}  # whether the start token is put in front"
    yield f"TOKENS = {list(run.tokens)}"
    yield f"TARGET = {run.target}  # the token that the loss asks for at the last position"
    yield f"IS_SEQUENCE = {run.is_sequence}  # whether it asks for the text’s own next tokens at all others instead"
    changes = (
        f"({patch.at.site!r}, {place(patch.at.index)}, {floats(patch.value)}, {patch.add})" for patch in run.patches
    )
    yield f"CHANGES = [{', '.join(changes)}]  # numbers set: name, place, value, whether it is added"
    if named(e.address):
        yield f"ETA, IS_ADAMW = {floats(run.rate.eta)}, {run.rate.optimizer == 'adamw'}  # how a learning step is taken"
    yield f"CAPTURED = {floats(e.value)}  # {e.address}, as it was captured"


def _about_terms(e: Explanation) -> Iterator[str]:
    yield "## From its terms"
    if e.combine == "given":
        yield "Nothing in the run makes this number: it comes from the text, from training, by definition, or was set."
    else:
        yield "The inputs are those that the run captured. The difference is what float32 rounds away."


def _about_scratch() -> Iterator[str]:
    yield "## From scratch"
    yield (
        "The whole network in plain PyTorch, on the checkpoint’s own file. It counts in float64; the captured number "
        "was computed in float32. So the last digits differ, and more of them where large numbers nearly cancel: the "
        "slopes of a loss near 0, say, or of the key biases, which are 0 but for rounding."
    )


def _network() -> Iterator[str]:
    yield Path(plain_gpt2.__file__).read_text("utf-8").partition(FUTURE)[2].strip("\n")


def _from_scratch(run: Run, e: Explanation) -> Iterator[str]:
    yield "if not CHECKPOINT:"
    yield from _found(run)
    yield ""
    steps = ", ETA, IS_ADAMW" if named(e.address) else ""
    steps += "" if run.model.config.adds else ", adds=False"
    yield f"run = PlainRun(CHECKPOINT, TOKENS, TARGET, IS_SEQUENCE, CHANGES{steps})"
    parsed = parse(e.address)
    yield 'with np.errstate(all="ignore"):  # 1 / 0 is inf and 0 / 0 is nan, as in the run'
    yield f"    from_scratch = float({expression(run, parsed.tree if isinstance(parsed, Calc) else parsed)})"
    yield 'print(f"from scratch {from_scratch:.9g}, captured {CAPTURED:.9g}, difference {from_scratch - CAPTURED:.2g}")'


def _found(run: Run) -> Iterator[str]:
    if run.model.directory is None:  # the toy is made in memory
        yield "    from model.toy import save_toy"
        yield ""
        yield '    CHECKPOINT = "toy"'
        yield "    save_toy(Path(CHECKPOINT))"
    else:
        yield "    from model import load"
        yield ""
        yield "    CHECKPOINT = load(MODEL).directory"


def _with_project(run: Run, e: Explanation) -> Iterator[str]:
    yield "try:"
    yield "    from model import load"
    yield "except ImportError:"
    yield '    print("The project is not installed here.")'
    yield "else:"
    project = _project(run, e.address)
    yield from (f"    {line}" for line in project.imports)
    yield f"    print({project.run}.explain({e.address!r}))"


def _project(run: Run, at: str) -> Project:
    """How this project's own hand makes the run."""
    target = "sequence" if run.is_sequence else f"id:{run.target}"
    changes = [*([] if run.model.config.adds else [NO_ADDITIONS]), *map(str, run.patches)]
    more = f", changes={changes!r}" if changes else ""
    made = f"load(CHECKPOINT or MODEL).run(TEXT, target={target!r}, bos=BOS{more})"
    if not named(at):
        return Project((), made)
    rate = f"Rate({floats(run.rate.eta)}, {run.rate.optimizer!r})"
    return Project(("from model.ops.update import Rate",), f"{made}.at_rate({rate})")
