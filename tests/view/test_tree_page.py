"""A tree beside what its brackets attended to, in one page."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from regard.view.tree_page import tree_page


@dataclass(frozen=True)
class Tree:
    words: tuple[str, ...] = ("the", "</script><b>dog", "{{data}}")
    tags: tuple[str, ...] = ("DT", "NN", ".")
    brackets: tuple[tuple[str, int, int], ...] = (("S", 0, 3), ("NP", 0, 2))


WEIGHTS = {"0": np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]), "1": np.array([[0.0, 1.0, 0.0], [0.3, 0.3, 0.4]])}


def in_browser(chromium: str, page: str, folder: Path, then: str) -> str:
    """The document as it stands in Chromium once its script, and after it `then`, has run."""
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    page = page.replace("</body>", f"<script>{then}</script></body>")
    (folder / "page.html").write_text(page, encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder / 'profile'}", "--dump-dom", (folder / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return done.stdout.decode("utf-8")


def test_words_are_text_and_only_the_pages_own_code_is_admitted() -> None:
    page = tree_page("a <run>", Tree(), WEIGHTS)
    assert page.count("<script") == 2
    assert "<b>" not in page
    assert len(re.findall(r"'sha256-[^']+'", page)) == 2
    assert "http-equiv" in page
    assert not re.search(r"(src|href)=", page)
    page.encode("ascii")


def test_pointing_at_a_phrase_shows_what_its_bracket_looked_at(tmp_path: Path, chromium: str) -> None:
    doings = """
        document.getElementById("layer").selectedIndex = 0;
        document.querySelector('[data-bracket="1"]').dispatchEvent(new PointerEvent("pointerenter"));
    """
    seen = in_browser(chromium, tree_page("run", Tree(), WEIGHTS), tmp_path, doings)
    assert "data-error" not in seen
    assert 'data-ready="true"' in seen
    assert "(NP looked at {{data}} 0.700, &lt;/script&gt;&lt;b&gt;dog 0.200, the 0.100" in seen
    opacities = [float(found) for found in re.findall(r'fill-opacity="([\d.]+)"', seen)]
    assert opacities == pytest.approx([0.1 / 0.7, 0.2 / 0.7, 1.0], abs=1e-3)  # the most attended in full colour
    assert "0.700, the largest of this bracket" in seen
    assert seen.count('class="chosen"') == 1


def luminance(colour: str) -> float:
    """Of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_words_are_read_and_washes_are_seen_in_light_and_in_dark() -> None:
    schemes = [
        dict(re.findall(r"--(\w+): (#\w{6})", line))
        for line in tree_page("run", Tree(), WEIGHTS).splitlines()
        if ":root" in line
    ]
    assert len(schemes) == 2
    for colours in schemes:
        for word in ("ink", "muted", "phrase", "chosen"):
            assert contrast(colours[word], colours["paper"]) >= 4.5, word
        assert contrast(colours["ink"], colours["wash"]) >= 4.5
        assert contrast(colours["wash"], colours["paper"]) >= 1.9


def test_a_tree_whose_attention_is_not_known_is_shown_alone(tmp_path: Path, chromium: str) -> None:
    seen = in_browser(chromium, tree_page("run", Tree(), {}), tmp_path, "")
    assert "data-error" not in seen
    assert 'data-ready="true"' in seen


def test_weights_must_fit_the_tree() -> None:
    with pytest.raises(ValueError, match="asks for"):
        tree_page("run", Tree(), {"0": np.zeros((3, 3))})
