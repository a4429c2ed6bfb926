"""A class at work on a real server: load, soak, a kill in between, replicas. See docs/operations.md."""
