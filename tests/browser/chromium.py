"""Where the browser tests find Chromium. Run as a program, it makes sure that there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SHELL = "chromium-headless-shell"  # the same engine without a window: a fifth faster here
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "fonts-dejavu-core")
ADVICE = "Install a Chromium for the browser tests with: {}   (or set EVERYNUMBER_CHROMIUM=/path/to/chromium)"


def runs(path: str) -> bool:
    """Whether this is a browser, not Ubuntu's stand-in that only names the snap."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def find() -> str | None:
    """The Chromium to test with: the one that is named, else the system's, else playwright's own."""
    if named := os.environ.get("EVERYNUMBER_CHROMIUM"):
        if not runs(named):
            raise SystemExit(f"EVERYNUMBER_CHROMIUM={named} is not a browser that runs here")
        return named
    for path in filter(None, map(shutil.which, NAMES)):
        if runs(path):
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() and runs(own) else None


def offered() -> str | None:
    """The package of a real Chromium that apt offers (Debian), not a step towards a snap (Ubuntu)."""
    for package in (SHELL, "chromium"):
        policy = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, check=False).stdout
        candidate = next(
            (line.split(":", 1)[1].strip() for line in policy.splitlines() if "Candidate:" in line), "(none)"
        )
        if candidate != "(none)" and "snap" not in candidate:
            return package
    return None


def advice() -> str:
    """The one line that installs a browser on this machine."""
    package = offered() if shutil.which("apt-cache") else None
    own = f"{sys.executable} -m playwright install --with-deps chromium"
    return ADVICE.format(" ".join(("sudo", *INSTALL, package)) if package else own)


def main() -> None:
    """Find a Chromium, or install Debian's where this user may, or say how and fail."""
    if find():
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-q"], check=False)
        if package := offered():
            print(f"Installing Debian's {package} for the browser tests …", flush=True)
            subprocess.run([*INSTALL, package], check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
            if find():
                return
    raise SystemExit(advice())


if __name__ == "__main__":
    main()
