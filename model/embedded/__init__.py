"""The embedded checkpoint: its weights, the text it learned from, its training and its measurements."""

from pathlib import Path

# A Hugging Face GPT-2 directory: config.json, model.safetensors, vocab.json, merges.txt, tokenizer_config.json.
WEIGHTS = Path(__file__).parent / "weights"
CARD = Path(__file__).parent / "README.md"
