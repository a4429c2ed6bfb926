"""Errors that a reader can do something about: each names the part that is wrong and shows a way out."""


class ReaderError(ValueError):
    """Bad input. `code` is stable for programs, `part` names the offending input, `hint` shows a correct one."""

    code = "bad_input"
    part = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class AddressError(ReaderError):
    """An address that does not parse, or that names nothing in this run."""

    code, part = "bad_address", "at"


class UnknownSite(AddressError):
    """An address whose site or parameter does not exist in this model."""

    code = "unknown_site"


class TextError(ReaderError):
    """A text that cannot be run: too long for the context, no tokens at all, or words a closed vocabulary lacks."""

    code, part = "bad_text", "text"


class TargetError(ReaderError):
    """A target that is not one token. `tokens` are the pieces it splits into, as texts, the first one offered."""

    code, part = "bad_target", "target"

    def __init__(self, message: str, hint: str = "", tokens: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.tokens = tokens


class UnknownModel(ReaderError):
    """No checkpoint goes by that name."""

    code, part = "unknown_model", "model"


class CheckpointError(ReaderError):
    """A checkpoint directory whose config or tensors do not fit; the message names the file or tensor."""

    code, part = "bad_checkpoint", "model"


class SettingError(ReaderError):
    """A setting that is no number, or out of its range. `part` is the setting's name."""

    code = "bad_setting"

    def __init__(self, setting: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.part = setting


class FaultyLogits(ReaderError):
    """Logits that hold NaN or ±∞: nothing can be chosen from them."""

    code, part = "faulty_logits", "model"
