"""What the tests of the page share."""

from __future__ import annotations

from harness.page import browser, night, open_page, serve, served

__all__ = ["browser", "night", "open_page", "serve", "served"]
