"""The web face: FastAPI pages and JSON over `model`."""
