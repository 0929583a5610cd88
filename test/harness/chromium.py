"""A browser: the machine's own Chromium, or Debian's, unpacked into the cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from harness import debian

# The browser may connect to the tested page only.
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--no-first-run",
]


def find() -> tuple[Path, dict[str, str]]:
    """Return the program, and its environment variables."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return Path(found), {}
    tree = debian.unpack_with_dependencies("chromium", "chromium", "fonts-dejavu-core")
    return tree / "usr/lib/chromium/chromium", {
        "LD_LIBRARY_PATH": debian.libraries(tree),
        "FONTCONFIG_FILE": str(_fonts(tree)),
    }


def _fonts(tree: Path) -> Path:
    """Return a font configuration with the unpacked fonts only."""
    settings = tree / "fonts.conf"
    settings.write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{tree}/usr/share/fonts</dir><cachedir>{tree}/fontcache</cachedir>"
        "</fontconfig>\n",
        encoding="utf-8",
    )
    return settings


@contextmanager
def launch() -> Iterator[Browser]:
    """Start the browser; it ends with the context."""
    program, environment = find()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            env=dict(os.environ | environment),
            args=FLAGS,
            chromium_sandbox=False,
        )
        try:
            yield browser
        finally:
            browser.close()
