"""What something slow will cost, said before a reader asks for it: by what passes of this process have taken."""

from __future__ import annotations

from model import Run

WORTH_SAYING = 1.5  # seconds; less is not worth a word


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
    if longest < WORTH_SAYING:
        return ""
    return f"A text of the {model.config.n_ctx:,} tokens that this model reads at most takes {in_words(longest)} here."


def of_slopes(run: Run, block: int | None) -> str:
    """Beside the link to a slope in `block` (None: outside the blocks): nothing where it takes no time."""
    seconds = run.seconds_back(block)
    return (
        f"The gradient takes {in_words(seconds)} here, as it goes back from the loss." if seconds > WORTH_SAYING else ""
    )


def of_passes(run: Run, n: int) -> str:
    """How long `n` more passes over this text take; nothing where that is no time."""
    seconds = n * run.model.seconds(run.n_pos)
    return f" That takes {in_words(seconds)}." if seconds > WORTH_SAYING else ""
