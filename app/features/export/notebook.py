"""A notebook that makes one number again in plain PyTorch: from the terms of its explanation, and from scratch.

Written as nbformat 4.5 by hand. It carries `plain_gpt2` as it stands, which reads the checkpoint's own
file: nothing in it needs this project, but for a sum of too many terms to write down.
"""

from __future__ import annotations

import json
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

GIVEN = "Nothing in the run makes this number: it comes from the text, from training, by definition, or was set."
COMPUTED = "The inputs are those that the run captured. The difference is what float32 rounds away."
FROM_SCRATCH = (
    "The whole network in plain PyTorch, on the checkpoint’s own file. It counts in float64; the captured number "
    "was computed in float32. So the last digits differ, and more of them where large numbers nearly cancel: the "
    "slopes of a loss near 0, say, or of the key biases, which are 0 but for rounding."
)
TOY = """\
    from model.toy import save_toy

    CHECKPOINT = "toy"
    save_toy(Path(CHECKPOINT))"""  # it is made in memory
LOADED = """\
    from model import load

    CHECKPOINT = load(MODEL).directory"""


def notebook(run: Run, at: str, *, url: str = "", version: str = "") -> str:
    """The notebook as JSON. `url` is the number's page, where others can open it.

    Raises AddressError where `at` is not one number of the run.
    """
    e = run.explain(at, limit=0)
    cells = [
        _cell("markdown", *_title(run, e, url, version)),
        _cell("code", _settings(run, e)),
        _cell("markdown", "## From its terms", GIVEN if e.combine == "given" else COMPUTED),
        _cell("code", "\n".join(terms_code(run, at, _project(run, e.address)))),
        _cell("markdown", "## From scratch", FROM_SCRATCH),
        _cell("code", Path(plain_gpt2.__file__).read_text("utf-8").partition(FUTURE)[2]),
        _cell("code", _from_scratch(run, e)),
        _cell("markdown", "## In this project", "The same explanation, where the project is installed."),
        _cell("code", _with_project(run, e)),
    ]
    about = {"display_name": "Python 3", "language": "python", "name": "python3"}
    body = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": about, "language_info": {"name": "python"}},
        "cells": [cell | {"id": f"cell-{n}"} for n, cell in enumerate(cells)],
    }
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


def _cell(kind: str, *paragraphs: str) -> dict[str, Any]:
    """A cell; its source is lines, each but the last with its line end."""
    runs: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    source = "\n\n".join(paragraphs).strip("\n").split("\n")
    return {"cell_type": kind, "metadata": {}, **runs, "source": [*(f"{line}\n" for line in source[:-1]), source[-1]]}


def plain(text: str) -> str:
    """A text with tokens in it as Markdown shows it, whatever signs it holds."""
    return text.translate(MARKDOWN)


# -- the cells


def _title(run: Run, e: Explanation, url: str, version: str) -> list[str]:
    made = f"Made by Every Number{f' {version}' if version else ''} from the model `{run.model.name}`."
    return [
        f"# Why is `{e.address}` {e.value:.9g}?",
        plain(sentence_text(run, e.plain)),
        *([f"$${e.formula}$$"] if e.formula else []),
        f"{made} [The same number on its page](<{url}>)." if url else made,
    ]


def _settings(run: Run, e: Explanation) -> str:
    changes = (f"({p.at.site!r}, {place(p.at.index)}, {floats(p.value)}, {p.add})" for p in run.patches)
    rate = ""
    if named(e.address):
        is_adamw = run.rate.optimizer == "adamw"
        rate = f"ETA, IS_ADAMW = {floats(run.rate.eta)}, {is_adamw}  # how a learning step is taken\n"
    return f"""\
import os

import torch

MODEL = {run.model.name!r}
# A directory with the model’s config.json and model.safetensors; not named, the project is asked.
CHECKPOINT = os.environ.get("CHECKPOINT", "")
TEXT = {run.text!r}
BOS = {run.bos}  # whether the start token is put in front
TOKENS = {list(run.tokens)}
TARGET = {run.target}  # the token that the loss asks for at the last position
IS_SEQUENCE = {run.is_sequence}  # whether it asks for the text’s own next tokens at all others instead
CHANGES = [{", ".join(changes)}]  # numbers set: name, place, value, whether it is added
{rate}CAPTURED = {floats(e.value)}  # {e.address}, as it was captured"""


def _from_scratch(run: Run, e: Explanation) -> str:
    steps = ", ETA, IS_ADAMW" if named(e.address) else ""
    steps += "" if run.model.config.adds else ", adds=False"
    parsed = parse(e.address)
    number = expression(run, parsed.tree if isinstance(parsed, Calc) else parsed)
    return f"""\
if not CHECKPOINT:
{TOY if run.model.directory is None else LOADED}

run = PlainRun(CHECKPOINT, TOKENS, TARGET, IS_SEQUENCE, CHANGES{steps})
with np.errstate(all="ignore"):  # 1 / 0 is inf and 0 / 0 is nan, as in the run
    from_scratch = float({number})
print(f"from scratch {{from_scratch:.9g}}, captured {{CAPTURED:.9g}}, difference {{from_scratch - CAPTURED:.2g}}")"""


def _with_project(run: Run, e: Explanation) -> str:
    project = _project(run, e.address)
    imports = "".join(f"    {line}\n" for line in project.imports)
    return f"""\
try:
    from model import load
except ImportError:
    print("The project is not installed here.")
else:
{imports}    print({project.run}.explain({e.address!r}))"""


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
