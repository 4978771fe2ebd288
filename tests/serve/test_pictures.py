"""The pictures of docs/serving.md, from the demo in a real browser.

    REGARD_PICTURES=docs/images make soak

writes them there; otherwise they are made and forgotten.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console

import regard
from benchmarks.serving import served

api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'regard[dev]'")
TEXT = "The old dog is sleeping in the garden. The man is reading a book in the house."


@pytest.mark.soak
def test_the_pictures_of_the_docs_can_be_made_again(browser: api.Browser, tmp_path: Path) -> None:
    run, folder = tmp_path / "demo", Path(os.environ.get("REGARD_PICTURES", tmp_path))
    regard.train("demo", run, console=Console(quiet=True))
    with served(run, tmp_path / "log") as server:

        def page(width: int, height: int, scheme: str) -> api.Page:
            tab = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme).new_page()
            tab.goto(f"http://127.0.0.1:{server.port}/")
            tab.locator("#text").fill(TEXT)
            tab.locator("#output .word", has_text="Buch").last.hover()
            tab.locator("#behind .word.looked").first.wait_for()
            return tab

        page(1000, 640, "light").screenshot(path=folder / "page.png")
        page(360, 720, "light").screenshot(path=folder / "page-phone.png")
        inside = page(1000, 700, "dark")
        inside.locator("#look").click()
        inside.locator("#viewer[data-ready]").wait_for()
        inside.locator("#viewer").get_by_role("tab", name="Lines").click()
        inside.screenshot(path=folder / "page-inside-dark.png")
    for name in ("page.png", "page-phone.png", "page-inside-dark.png"):
        assert (folder / name).stat().st_size > 10_000, f"{name} shows nothing"
