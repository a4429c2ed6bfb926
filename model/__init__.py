"""GPT-2 with every number explained. `load` a checkpoint, `run` a text, `explain` an address."""

from model.explain import Explanation
from model.language_model import LanguageModel
from model.loading import load
from model.run import Run

__all__ = ["Explanation", "LanguageModel", "Run", "load"]
