"""What something slow will cost, said before a reader asks for it: by what passes of this process have taken."""

from __future__ import annotations

from model import Run

WORTH_SAYING = 1.5  # seconds; less is not worth a word
SMALL = 1e9  # weights × tokens; less is quick wherever it runs, so that a busy machine does not change the page


def worth_saying(run: Run, seconds: float, n_pos: int) -> bool:
    """Whether work on `n_pos` tokens, thought to take `seconds`, is worth a word."""
    return seconds > WORTH_SAYING and run.model.n_parameters * n_pos > SMALL


def in_words(seconds: float) -> str:
    """A rough time: a moment, about 20 seconds, about 3 minutes."""
    if seconds < 2:
        return "a moment"
    if seconds < 10:
        return f"about {round(seconds)} seconds"
    if seconds < 90:
        return f"about {round(seconds / 5) * 5} seconds"
    return f"about {round(seconds / 60)} minutes"


def of_text(run: Run) -> str:
    """Under the form: how long the longest text takes, or how a long one is kept."""
    model = run.model
    if run.is_long:
        return (
            f"A long text: of its {run.n_pos:,} positions the residual stream is kept ({run.nbytes / 2**20:,.0f} MB "
            f"with what was looked at last). The inside of a block is computed again when you look into it, "
            f"which takes {in_words(run.seconds_inside)}."
        )
    longest = model.seconds(model.config.n_ctx)
    if not worth_saying(run, longest, model.config.n_ctx):
        return ""
    return f"This model reads up to {model.config.n_ctx:,} tokens; a text that long takes {in_words(longest)} here."


def of_slopes(run: Run, block: int | None) -> str:
    """Beside the link to a slope in `block` (None: outside the blocks): nothing where it takes no time."""
    seconds = run.seconds_back(block)
    if not worth_saying(run, seconds, run.n_pos):
        return ""
    return f"The gradient takes {in_words(seconds)} here, as it goes back from the loss."


def of_passes(run: Run, n: int) -> str:
    """How long `n` more passes over this text take; nothing where that is no time."""
    seconds = n * run.model.seconds(run.n_pos)
    return f" That takes {in_words(seconds)}." if worth_saying(run, seconds, run.n_pos) else ""
