"""GPT-2 with every number explained. `load` a checkpoint, `run` a text, `explain` an address."""

from model.explain.explanation import Explanation
from model.loading import load
from model.runtime.language_model import LanguageModel
from model.runtime.run import Run

__all__ = ["Explanation", "LanguageModel", "Run", "load"]
