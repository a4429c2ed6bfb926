"""Mutants: the model's code with one small fault at a time, and the tests that should notice. See docs/testing.md."""
