"""The viewer in a real browser: the system's Chromium opens pages, points, types and saves, and asks for nothing."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.tasks.attention import attention_view
from regard.view import AttentionMap, AttentionView, attention_page, recurrent_view
from regard.view.page import SCRIPTS

api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'regard[dev]'")
Page = api.Page
VIEWS = ("heads", "matrix", "lines", "alignment", "rollout", "measures", "decoding")
Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: api.Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens pages; in the end none has complained, or asked for anything but itself."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def opened(page: str | Path, **options: object) -> Page:
        file = page if isinstance(page, Path) else tmp_path / f"page-{len(contexts)}.html"
        if isinstance(page, str):
            file.write_text(page, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(file.as_uri())
        tab.wait_for_selector("#viewer[data-ready]")
        return tab

    yield opened
    for context in contexts:
        for tab in context.pages:
            complaints += filter(None, [tab.evaluate("document.querySelector('#viewer')?.dataset.error ?? ''")])
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def stored(tab: Page, example: int = 0) -> dict[str, np.ndarray]:
    """Every map as the page's own script reads it."""
    found = tab.evaluate(
        """async (number) => {
            const example = await attentionViewer.data.example(number);
            return example.content.maps.map((map) => [map.name, Array.from({length: map.H}, (_, head) =>
                Array.from(example.matrix(map, head).weights))]);
        }""",
        example,
    )
    return {name: np.array(heads) for name, heads in found}


def shown(tab: Page) -> str:
    return str(tab.locator(".chosen").inner_text())


def reading(tab: Page) -> str:
    return str(tab.locator(".reading").inner_text())


def show(tab: Page, view: str) -> None:
    tab.locator(f"[data-view={view}]").click()


def choose(tab: Page, **controls: str) -> None:
    for name, value in controls.items():
        tab.locator(f"[data-control={name}] select").select_option(value)


def test_the_page_has_the_models_own_weights_and_probabilities(open_page: Open, reverser: Path) -> None:
    """A trained run: what `capture` gives is what the page's own decoder reads, within what the page says."""
    model = regard.load(reverser)
    text = "a b c d e f"
    translation = model.search([text])[0][0]
    tab = open_page(attention_page(attention_view(model, translation)))
    with regard.capture(model) as maps:
        model.translate(text)
    read = stored(tab)
    assert set(read) == set(maps)
    for name, weights in maps.items():
        H = weights.shape[1]
        assert np.abs(read[name] - weights[0].reshape(H, -1).numpy()).max() <= 0.002
    assert "less than 0.002" in tab.locator(".footer").inner_text()
    show(tab, "decoding")
    likelihood = tab.evaluate(
        "attentionViewer.example.steps.reduce((sum, step) => sum + Math.log(step.probability), 0)"
    )
    assert likelihood == pytest.approx(translation.log_prob, abs=1e-3)


def test_every_view_draws(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    assert tab.locator("h1").inner_text() == "a run"
    assert "Ein Hund läuft." in tab.locator(".texts").inner_text()
    for view in VIEWS:
        show(tab, view)
        assert tab.locator(f"[data-view={view}]").get_attribute("aria-selected") == "true"
        if view == "heads":
            assert tab.locator(".thumb").count() == sum(one.weights.shape[0] for one in sentence.maps)
        else:
            assert tab.locator(".stage svg text").count() > 5
            assert tab.locator(".stage svg").evaluate("(drawing) => drawing.getBBox().width") > 100


def test_kind_layer_and_head_choose_the_map(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    assert shown(tab) == "Cross-attention · layer 1 · mean over heads"
    choose(tab, group="Encoder self-attention", layer="0", head="2")
    assert shown(tab) == "Encoder self-attention · layer 0 · head 2"
    assert tab.locator(".path").inner_text() == "encoder.layers.0.self_attn"
    tab.locator(".numbers summary").click()
    rows = [row.split("\t") for row in tab.locator(".numbers tbody").inner_text().splitlines()]
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert np.abs(numbers - sentence.maps[1].weights[2]).max() <= 0.002 + 0.0005


def test_pointing_at_a_cell_reads_its_weight(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    choose(tab, layer="0", head="1")
    # Where a cell lies is read from the labels beside it.
    place = tab.evaluate(
        """() => {
            const middle = (word, n) => Array.from(document.querySelectorAll(".stage svg text"))
                .filter((text) => text.textContent === word)[n].getBoundingClientRect();
            const row = middle("\\u2581Hund", 0), column = middle("\\u2581A", 0);
            return [column.left + 6, row.top + row.height / 2];
        }"""
    )
    tab.mouse.move(*place)
    assert reading(tab) == f"▁Hund looks at ▁A with weight {tab.locator('.over text').text_content()}"
    assert float(reading(tab).split()[-1]) == pytest.approx(sentence.maps[0].weights[1, 1, 0], abs=0.0025)
    tab.mouse.move(5, 5)
    assert reading(tab) == ""


def test_pointing_at_a_word_lights_its_lines(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    choose(tab, layer="0", head="1")
    show(tab, "lines")
    tab.locator(".stage svg text", has_text="▁Hund").first.hover()
    words = reading(tab).split(" looks at ")
    best = int(sentence.maps[0].weights[1, 1].argmax())
    assert words[0] == "▁Hund"
    assert words[1].startswith(sentence.maps[0].columns[best])
    before = tab.locator(".stage svg path").count()
    tab.locator("[data-control=threshold] input").fill("0.5")
    assert tab.locator(".stage svg path").count() < before


def test_keys_do_what_the_mouse_does(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    tab.locator("[data-view=matrix]").focus()
    for key, view in (("ArrowRight", "lines"), ("End", "decoding"), ("ArrowRight", "heads"), ("ArrowRight", "matrix")):
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.dataset.view") == view
    tab.locator(".stage").focus()
    tab.keyboard.press("PageUp")
    tab.keyboard.press("]")
    tab.keyboard.press("]")
    assert shown(tab) == "Cross-attention · layer 0 · head 1"
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    weight = sentence.maps[0].weights[1, 2, 1]
    assert reading(tab).startswith("▁läuft looks at ▁dog with weight ")
    assert float(reading(tab).split()[-1]) == pytest.approx(weight, abs=0.0025)
    tab.keyboard.press("Escape")
    assert reading(tab) == ""


def test_the_overview_is_walked_and_opened_by_keys(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    show(tab, "heads")
    tab.locator(".thumb[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    assert shown(tab) == "Encoder self-attention · layer 1 · head 2"
    assert tab.evaluate("document.activeElement.className") == "stage"


def test_tab_reaches_every_control_in_the_order_of_the_page(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    reached = []
    for _ in range(14):
        tab.keyboard.press("Tab")
        reached.append(
            tab.evaluate(
                """() => { const one = document.activeElement;
                return one.closest("label")?.dataset.control || one.dataset.view || one.dataset.save || one.className
                    || one.tagName; }"""
            )
        )
        if reached[-1] == "SUMMARY":
            break
    order = ["group", "layer", "head", "scale", "theme", "matrix", "svg", "png", "html", "stage", "SUMMARY"]
    assert reached == order


def test_decoding_steps_forth_and_back_with_probabilities(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    show(tab, "decoding")
    assert shown(tab) == "Step 1 of 5"
    assert reading(tab) == "Chosen: ▁Ein with probability 0.500"
    tab.locator("[data-step=next]").click()
    assert reading(tab) == "Chosen: ▁Hund with probability 0.500"
    drawn = tab.locator(".stage svg text").all_text_contents()
    assert "0.260" in drawn  # what the other token had at this step
    tab.locator(".stage").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowLeft")
    assert shown(tab) == "Step 3 of 5"
    tab.locator(".output button").nth(4).click()
    assert shown(tab) == "Step 5 of 5"
    assert tab.locator("[data-step=next]").is_disabled()
    assert tab.locator(".output [aria-current=step]").inner_text() == "</s>"
    assert tab.evaluate("document.activeElement.textContent") == "</s>"


def test_measures_choose_a_head(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence))
    show(tab, "measures")
    tab.locator(".stage").focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    one = next(m for m in attention_of(tab) if m["name"] == "decoder.layers.0.cross_attn")
    assert reading(tab) == f"layer 0, head 1: entropy {one['entropy'][1]:.2f} bits, distance {one['distance'][1]:.2f}"
    show(tab, "matrix")
    assert shown(tab) == "Cross-attention · layer 0 · head 1"


def attention_of(tab: Page) -> list[dict[str, list[float]]]:
    found: list[dict[str, list[float]]] = tab.evaluate("attentionViewer.example.content.maps")
    return found


def test_several_sentences_sets_and_recurrent_models_share_a_page(
    open_page: Open, sentence: AttentionView, cluster_set: AttentionView, made_up: Callable[..., np.ndarray]
) -> None:
    words = recurrent_view("rnn", ["a", "b", "c"], ["x", "y"], made_up(1, 2, 3))
    tab = open_page(attention_page(sentence, cluster_set, words))
    choose(tab, example="1")
    tab.wait_for_selector("#viewer[data-example='1']")
    assert tab.locator("[data-view=decoding]").is_hidden()
    assert tab.locator("[data-view=alignment]").is_hidden()
    show(tab, "lines")
    for group in ("encoder.sab", "isab.mab0", "isab.mab1", "pool.pma"):
        choose(tab, group=group)
        assert tab.locator(".stage svg circle").count() == 12
    choose(tab, group="encoder.sab")
    tab.locator(".stage svg circle").nth(3).hover()
    assert reading(tab).startswith(cluster_set.maps[0].rows[3] + " looks at (")
    choose(tab, example="2")
    tab.wait_for_selector("#viewer[data-example='2']")
    show(tab, "alignment")
    assert {"x", "y", "a", "b", "c"} <= set(tab.locator(".stage svg text").all_text_contents())


def saved(tab: Page, kind: str, folder: Path) -> Path:
    with tab.expect_download() as waiting:
        tab.locator(f"[data-save={kind}]").click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_drawings_are_saved_as_svg_and_png(open_page: Open, sentence: AttentionView, tmp_path: Path) -> None:
    tab = open_page(attention_page(sentence))
    for view in ("heads", "matrix", "lines", "decoding"):
        show(tab, view)
        root = ET.parse(saved(tab, "svg", tmp_path)).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        if view not in ("heads", "matrix"):
            continue
        picture = saved(tab, "png", tmp_path).read_bytes()
        assert picture.startswith(b"\x89PNG")
        width = int.from_bytes(picture[16:20], "big")
        assert width == 2 * int(root.attrib["width"])
    again = tab.context.new_page()
    again.goto((tmp_path / "attention-matrix.svg").as_uri())
    assert again.locator("text=▁Hund").count() == 1


def test_a_saved_page_opens_where_its_reader_was(open_page: Open, sentence: AttentionView, tmp_path: Path) -> None:
    tab = open_page(attention_page(sentence))
    choose(tab, group="Encoder self-attention", layer="0", head="3", theme="dark")
    show(tab, "lines")
    page = saved(tab, "html", tmp_path)
    again = open_page(page)
    assert shown(again) == "Encoder self-attention · layer 0 · head 3"
    assert again.locator("#viewer").get_attribute("data-theme") == "dark"
    assert again.locator("[data-view=lines]").get_attribute("aria-selected") == "true"
    for name, weights in stored(tab).items():
        assert np.array_equal(stored(again)[name], weights)
    third = saved(again, "html", tmp_path)  # and a copy of a copy is no larger
    assert abs(third.stat().st_size - page.stat().st_size) < 300


def test_hostile_tokens_are_text_in_every_view_and_file(
    open_page: Open, hostile: AttentionView, seen_as: dict[str, str], tmp_path: Path
) -> None:
    tab = open_page(attention_page(hostile))
    tab.on("dialog", lambda dialog: pytest.fail("a token ran as a script"))
    tab.locator(".numbers summary").click()
    for view in ("matrix", "lines", "alignment", "decoding", "heads"):
        show(tab, view)
        assert tab.locator("#viewer img, #viewer script, #viewer b b, #viewer svg svg").count() == 0
    assert set(seen_as.values()) <= set(
        tab.locator(".output button").evaluate_all("all => all.map(x => x.textContent)")
    )
    show(tab, "matrix")
    root = ET.parse(saved(tab, "svg", tmp_path)).getroot()  # well formed, whatever the tokens hold
    tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
    assert tags <= {"svg", "g", "rect", "path", "text", "title"}
    again = open_page(saved(tab, "html", tmp_path))
    assert again.locator("script").count() == 1 + len(SCRIPTS)
    assert again.locator("h1").inner_text() == "{{data}}</script><script>alert(1)</script>"


def test_policy_refuses_what_is_not_the_pages_own(
    browser: api.Browser, sentence: AttentionView, tmp_path: Path
) -> None:
    intruder = "<script>document.documentElement.dataset.ran = 'yes'</script></body>"
    file = tmp_path / "page.html"
    file.write_text(attention_page(sentence).replace("</body>", intruder), encoding="utf-8")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    tab.wait_for_selector("#viewer[data-ready]")
    assert tab.locator("html").get_attribute("data-ran") is None
    told = """() => new Promise((done) => {
        document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective), {once: true});
        ATTEMPT;
        setTimeout(() => done("nothing was refused"), 2000);
    })"""
    attempts = {
        "connect-src": "fetch('https://example.org/').catch(() => 0)",
        "img-src": "new Image().src = 'https://example.org/x.png'",
        "script-src-elem": "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))",
    }
    for directive, attempt in attempts.items():
        assert tab.evaluate(told.replace("ATTEMPT", attempt)) == directive
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(open_page: Open, sentence: AttentionView, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    tab = open_page(attention_page(sentence, sentence), color_scheme=scheme)
    tab.locator(".numbers summary").click()
    for view in VIEWS if scheme == "light" else ("heads", "lines", "decoding"):
        show(tab, view)
        found = axe.run(tab).response["violations"]
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], view


def test_dark_and_light_follow_the_system_or_the_reader(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence), color_scheme="dark")
    paper = "getComputedStyle(document.getElementById('viewer')).backgroundColor"
    dark = tab.evaluate(paper)
    choose(tab, theme="light")
    assert tab.evaluate(paper) == "rgb(255, 255, 255)" != dark
    choose(tab, theme="auto")
    tab.wait_for_selector("#viewer[data-theme=dark]")
    assert tab.evaluate(paper) == dark
    tab.emulate_media(color_scheme="light")
    tab.wait_for_selector("#viewer[data-theme=light]")
    assert tab.evaluate(paper) == "rgb(255, 255, 255)"


def test_a_phone_shows_every_view_without_sideways_scrolling(open_page: Open, sentence: AttentionView) -> None:
    tab = open_page(attention_page(sentence), viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    for view in VIEWS:
        tab.locator(f"[data-view={view}]").tap()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, view
    show(tab, "lines")
    tab.locator(".stage svg text", has_text="▁Hund").first.tap()
    assert reading(tab).startswith("▁Hund looks at ")


@pytest.mark.parametrize(
    "maps",
    [
        [],
        [AttentionMap("a.0.self_attn", [], [], np.zeros((2, 0, 0), dtype=np.float32))],
        [AttentionMap("set.0.mab", ["x"], ["y", "z"], np.zeros((1, 1, 2), dtype=np.float32))],
    ],
    ids=["no maps", "no tokens", "a row that attends to nothing"],
)
def test_what_is_empty_draws_without_an_error(open_page: Open, maps: list[AttentionMap]) -> None:
    tab = open_page(attention_page(AttentionView("empty", "", "", maps)))
    for view in ("heads", "matrix", "lines", "measures", "rollout"):
        if tab.locator(f"[data-view={view}]").is_visible():
            show(tab, view)


def test_a_foreign_document_is_refused_in_words(browser: api.Browser, sentence: AttentionView, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    page = attention_page(sentence)
    content = re.search(r'id="document">(.*?)</script>', page)
    assert content is not None
    file.write_text(page.replace(content[1], json.dumps({"format": "other"})), encoding="utf-8")
    context = browser.new_context()
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(file.as_uri())
    assert "not an attention document" in tab.locator("#viewer").inner_text()
    context.close()
