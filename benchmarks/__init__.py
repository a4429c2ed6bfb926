"""How fast it is, each figure a ratio to another way of doing the same within one process run: `make bench`."""
