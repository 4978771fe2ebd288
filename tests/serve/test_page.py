"""The page in a real browser, from a real server: typing, pointing, choosing, looking inside, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

from benchmarks.serving import Server, served
from regard import capture
from regard.decode.request import Translation
from regard.decode.translator import Translator
from regard.serve import keys

api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'regard[dev]'")
Page = api.Page
Open = Callable[..., Page]
REFUSED = "Failed to load resource: "  # Chromium says so of every 4xx, and of a server that is gone


@pytest.fixture
def visit(browser: api.Browser) -> Iterator[Open]:
    """Opens a server's page; in the end none has complained, or asked for anything of another host."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def opened(server: Server, **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        context.set_default_timeout(20_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(f"http://127.0.0.1:{server.port}/")
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert [said for said in complaints if not said.startswith(REFUSED)] == []
    assert [url for url in requests if not url.startswith(("http://127.0.0.1:", "blob:", "data:"))] == []
    assert requests


class Keyed(NamedTuple):
    """A server that asks for keys, and two of them."""

    server: Server
    slow: str  # good for five requests a minute
    fast: str


@pytest.fixture(scope="module")
def keyed(reverser: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """It has two models, and takes short texts."""
    folder = tmp_path_factory.mktemp("keyed")
    slow, fast = keys.add(folder / "keys.json", "anna", rate=5), keys.add(folder / "keys.json", "ben", rate=1000)
    options = (f"de-en={reverser}", "--keys", str(folder / "keys.json"), "--max-characters", "500")
    with served(reverser, folder / "log", *options, pair="en-de") as running:
        yield Keyed(running, slow, fast)


def write(tab: Page, text: str) -> None:
    tab.locator("#text").fill(text)


def settled(tab: Page, text: str) -> None:
    """Wait for this translation, whole."""
    tab.wait_for_function(
        """(text) => { const output = document.getElementById("output");
        return output.innerText === text && !output.hasAttribute("aria-busy") && !output.querySelector(".stale"); }""",
        arg=text,
    )


def problem(tab: Page, words: str, place: str = "#problem") -> str:
    found = tab.locator(place, has_text=words)
    found.wait_for()
    return str(found.inner_text())


def best_of(model: Translator, text: str, n_best: int = 4) -> list[Translation]:
    return model.search([text], n_best=n_best)[0]


def word(tab: Page, place: str, number: int) -> Any:
    return tab.locator(f"#{place} .word").nth(number)


def lit(tab: Page, place: str) -> dict[int, float]:
    """The words that are lit as looked at, and how much."""
    found = tab.locator(f"#{place} .word.looked").evaluate_all(
        "all => all.map(one => [Number(one.dataset.word), Number(one.style.getPropertyValue('--weight'))])"
    )
    return dict(found)


def test_typing_gives_a_translation(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url))
    tab.locator("#text").press_sequentially("a b c d e f", delay=5)
    settled(tab, model.translate("a b c d e f"))
    assert len(sent) == 1, "after a pause, not at every key"
    assert tab.locator("#count").inner_text() == "11 / 5,000"
    assert tab.locator("#source-name").inner_text() == "English"
    assert tab.locator("#output").get_attribute("lang") == "de"
    tab.wait_for_function("() => document.getElementById('spoken').textContent !== ''")
    assert tab.locator("#spoken").text_content() == model.translate("a b c d e f")
    tab.locator("#clear").click()
    settled(tab, "")
    assert tab.locator("#ways").is_hidden()
    assert tab.evaluate("document.activeElement.id") == "text"


def test_spacing_is_kept_and_the_translation_copied(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server, permissions=["clipboard-read", "clipboard-write"])
    write(tab, "  a b c\n\n\td e f\n")
    expected = "  {}\n\n\t{}\n".format(*model.translate(["a b c", "d e f"]))
    tab.wait_for_function("() => document.getElementById('output').textContent.endsWith('\\n')")
    assert tab.locator("#output").text_content() == expected
    tab.locator("#copy").click()
    tab.locator("#state", has_text="Copied").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()") == expected


def test_other_translations_are_told_with_scores_and_chosen(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    best = best_of(model, "a b c d e f")
    write(tab, "a b c d e f")
    settled(tab, best[0].text)
    assert tab.locator("#choices .said").all_inner_texts() == [one.text for one in best]
    scores = [float(text.split()[-1].replace("−", "-")) for text in tab.locator(".score").all_inner_texts()]
    assert scores == pytest.approx([one.score for one in best], abs=0.006)
    assert tab.locator(".probability").first.inner_text() == f"{100 * np.exp(best[0].log_prob):.1f} %"
    tab.locator("#choices label").nth(2).click()
    settled(tab, best[2].text)
    tab.locator("#text").press("Control+End")
    tab.locator("#text").press_sequentially("\nx y")
    settled(tab, f"{best[2].text}\n{model.translate('x y')}")  # what was chosen stays chosen
    assert tab.locator("#ways-name").inner_text() == "Sentence 2 of 2"
    word(tab, "output", 0).click()
    assert tab.locator("#ways-source").inner_text() == "a b c d e f"
    assert tab.locator("#choices input").nth(2).is_checked()


def test_a_word_shows_what_it_looked_at_and_what_looked_at_it(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    text = "a b c d e f"
    best = best_of(model, text)[0]
    (looks,) = model.word_looks([best])
    write(tab, text)
    settled(tab, best.text)
    said = best.text.split()
    word(tab, "output", 1).hover()
    expected = {s: float(weight) for s, weight in enumerate(looks[1]) if weight >= 0.02}
    assert lit(tab, "behind") == pytest.approx(expected, abs=1e-3)
    strongest = text.split()[int(looks[1].argmax())]
    assert tab.locator("#reading").inner_text().startswith(f"{said[1]} looked at {strongest} ")
    place = word(tab, "behind", 2).bounding_box()  # the field lies above it, and is what the mouse meets
    tab.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expected = {t: float(weight) for t, weight in enumerate(looks[:, 2]) if weight >= 0.02}
    assert lit(tab, "output") == pytest.approx(expected, abs=1e-3)
    assert tab.locator("#reading").inner_text().startswith("c was looked at by ")
    tab.mouse.move(5, 5)
    assert lit(tab, "output") == lit(tab, "behind") == {}


def test_words_lie_where_the_field_shows_them(visit: Open, server: Server) -> None:
    """The copy under the field breaks lines as the field does: it is as high as the field's text."""
    for width in (1200, 360):
        tab = visit(server, viewport={"width": width, "height": 700})
        heights = "[text.scrollHeight, text.clientHeight, behind.clientHeight]"
        write(tab, "\n" * 20)
        tab.wait_for_timeout(400)  # nothing comes of it
        assert len(set(tab.evaluate(heights))) == 1
        write(tab, "abc def ghi " * 30 + "x" * 80 + "\n\n  a\n")
        tab.locator("#choices label").first.wait_for()
        assert len(set(tab.evaluate(heights))) == 1


def test_keys_do_what_the_mouse_does(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    assert tab.evaluate("document.activeElement.id") == "text"
    tab.keyboard.type("a b c d\ne f g")
    first, second = model.translate(["a b c d", "e f g"])
    settled(tab, f"{first}\n{second}")
    tab.keyboard.press("Control+Home")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#reading").inner_text().startswith("b was looked at by ")
    reached = []
    for _ in range(4):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.id || document.activeElement.name"))
    assert reached == ["copy", "output", "look", "way"]
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#reading").inner_text().startswith(f"{first.split()[0]} looked at ")
    tab.keyboard.press("ArrowDown")
    assert tab.locator("#reading").inner_text().startswith(f"{second.split()[0]} looked at ")
    assert tab.locator("#ways-name").inner_text() == "Sentence 2 of 2"
    tab.keyboard.press("Escape")
    assert tab.locator("#reading").inner_text() == ""
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowDown")
    settled(tab, f"{first}\n{best_of(model, 'e f g')[1].text}")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#viewer[data-ready]")
    tab.wait_for_function("() => document.activeElement.id === 'inside-name'")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert tab.locator("#inside").is_hidden()
    assert tab.evaluate("document.activeElement.id") == "look"


def looked_into(tab: Page) -> str:
    tab.wait_for_selector("#viewer[data-ready]")
    return str(tab.locator("#viewer .texts").inner_text())


def test_look_inside_opens_the_viewer_on_the_models_weights(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    best = best_of(model, "a b c d e f")
    write(tab, "a b c d e f")
    settled(tab, best[0].text)
    with tab.expect_response("**/v1/attention") as waiting:
        tab.locator("#look").click()
    assert waiting.value.request.post_data_json == {"text": "a b c d e f", "model": "run"}
    assert best[0].text in looked_into(tab)
    with capture(model) as maps:
        model.translate("a b c d e f")
    choose(tab, group="Encoder self-attention", layer="0", head="2")
    assert tab.locator("#viewer .chosen").inner_text() == "Encoder self-attention · layer 0 · head 2"
    tab.locator("#viewer .numbers summary").click()
    rows = [row.split("\t") for row in tab.locator("#viewer .numbers tbody").inner_text().splitlines()]
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert np.abs(numbers - maps["encoder.layers.0.self_attn"][0, 2].numpy()).max() <= 0.002 + 0.0005
    for view in ("heads", "lines", "alignment", "rollout", "measures", "decoding"):
        tab.locator(f"[data-view={view}]").click()
        assert tab.locator("#viewer .thumb" if view == "heads" else "#viewer .stage svg text").count() > 5
    tab.locator("[data-step=next]").click()
    assert tab.locator("#viewer .reading").inner_text().startswith("Chosen: ")
    tab.locator("#choices label").nth(1).click()  # another translation is looked into at once, in the same view
    tab.wait_for_function(
        "text => document.querySelector('#viewer .texts')?.innerText.includes(text)", arg=best[1].text
    )
    assert tab.locator("[data-view=decoding]").get_attribute("aria-selected") == "true"
    tab.locator("#close").click()
    assert tab.locator("#inside").is_hidden()


def choose(tab: Page, **controls: str) -> None:
    for name, value in controls.items():
        tab.locator(f"[data-control={name}] select").select_option(value)


def is_old(tab: Page, old: bool) -> str:
    """Wait until what is drawn is marked as of another sentence, or no longer is; what is said of it."""
    tab.wait_for_selector("#inside.old" if old else "#inside:not(.old):not([aria-busy])")
    assert tab.locator("#inside-old").is_visible() == old
    return str(tab.locator("#inside-old").inner_text())


def test_what_is_drawn_of_another_sentence_says_so(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    write(tab, "a b c")
    settled(tab, model.translate("a b c"))
    tab.locator("#look").click()
    told = looked_into(tab)
    assert is_old(tab, False) == ""
    tab.locator("[data-view=lines]").click()
    at_once = tab.evaluate(
        """() => { text.value = "a b c\\nd e f"; text.dispatchEvent(new InputEvent("input"));
        return inside.classList.contains("old"); }"""
    )
    assert at_once, "before anything is translated"
    said = is_old(tab, True)
    assert said == "This is still of “a b c”. Look inside again to see what stands there now."
    settled(tab, "{}\n{}".format(*model.translate(["a b c", "d e f"])))
    assert looked_into(tab) == told
    word(tab, "output", 0).click()  # of the sentence that was looked into
    assert is_old(tab, False) == ""
    word(tab, "output", -1).click()
    assert is_old(tab, True) == said
    tab.locator("#look").click()
    assert is_old(tab, False) == ""
    assert "d e f" in looked_into(tab)
    assert tab.locator("[data-view=lines]").get_attribute("aria-selected") == "true", "in the same view"
    tab.locator("#clear").click()
    tab.locator("#inside").wait_for(state="hidden")
    assert tab.locator("#viewer > *").count() == 0


def test_under_an_error_nothing_is_drawn(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    write(tab, "a b c d e f")
    settled(tab, model.translate("a b c d e f"))
    tab.locator("#look").click()
    looked_into(tab)
    tab.context.set_offline(True)
    tab.locator("#choices label").nth(1).click()
    assert "The server does not answer." in problem(tab, "answer", "#inside-problem")
    assert tab.locator("#viewer > *").count() == 0
    assert tab.locator("#inside-old").is_hidden()
    tab.context.set_offline(False)
    tab.locator("#inside-problem button").click()
    assert best_of(model, "a b c d e f")[1].text in looked_into(tab)
    assert tab.locator("#inside-problem").is_hidden()


def test_what_is_too_long_to_be_looked_into_is_not_offered(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    write(tab, "a b c")
    settled(tab, model.translate("a b c"))
    assert tab.locator("#look-limit").is_hidden()
    tab.locator("#look").click()
    looked_into(tab)
    long = "a b " * 109 + "a b"
    write(tab, long)
    tab.locator("#look:disabled").wait_for()
    said = "Up to 400 characters can be looked into, and this sentence has 439: shorten it."
    assert tab.locator("#look-limit").inner_text() == said
    assert tab.locator("#look").get_attribute("aria-describedby") == "look-limit"
    assert tab.locator("#inside").is_hidden()
    write(tab, f"{long}\na b")  # the limit is of the sentence
    settled(tab, "{}\n{}".format(*model.translate([long, "a b"])))
    tab.locator("#look:enabled").click()
    looked_into(tab)


def test_the_documented_proxy_lets_the_page_open(visit: Open, server: Server) -> None:
    """Behind nginx, an address has the requests of a burst at once: two pages that open, and some to translate."""
    manual = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    (burst,) = re.findall(r"limit_req zone=\w+ burst=(\d+) nodelay;", manual)
    (said,) = re.findall(r"the page makes (\d+) requests as it opens", manual)
    tab = visit(server)
    made: list[str] = []
    tab.on("request", lambda request: made.append(request.url))
    tab.reload()
    tab.wait_for_selector("body[data-ready]")
    tab.wait_for_timeout(300)  # the icon comes last
    assert len(made) == int(said)
    assert 2 * len(made) < int(burst)


def test_what_is_looked_into_is_saved(visit: Open, server: Server, browser: api.Browser, tmp_path: Path) -> None:
    tab = visit(server)
    write(tab, "a b <c>&'\"é😀 d")
    tab.locator("#look").click()
    told = looked_into(tab)
    tab.locator("[data-view=lines]").click()
    choose(tab, layer="0", head="1")
    for kind in ("svg", "png", "html"):
        with tab.expect_download() as waiting:
            tab.locator(f"[data-save={kind}]").click()
        waiting.value.save_as(tmp_path / f"saved.{kind}")
    assert (tmp_path / "saved.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "saved.svg").read_text(encoding="utf-8").startswith("<svg")
    context = browser.new_context(offline=True)
    alone, complaints = context.new_page(), []
    alone.on("console", lambda message: complaints.append(message.text))
    alone.goto((tmp_path / "saved.html").as_uri())
    alone.wait_for_selector("#viewer[data-ready]")
    assert alone.locator(".texts").inner_text() == told
    assert alone.locator(".chosen").inner_text() == "Cross-attention · layer 0 · head 1"
    assert alone.locator("h1").inner_text() == alone.title() == "run"
    assert complaints == []
    context.close()


def test_a_long_text_appears_as_it_is_translated(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    tab.evaluate(
        """() => { window.counts = []; const output = document.getElementById("output");
        new MutationObserver(() => counts.push(output.querySelectorAll(".sentence").length))
            .observe(output, {childList: true}); }"""
    )
    write(tab, "a b\n" * 600)
    tab.wait_for_function("() => counts.at(-1) === 600")
    assert any(0 < count < 600 for count in tab.evaluate("counts"))
    tab.locator("#copy").wait_for()
    assert tab.locator("#output").text_content() == (model.translate("a b") + "\n") * 600


def test_what_is_no_longer_wanted_is_given_up(visit: Open, server: Server, model: Translator, log: Path) -> None:
    tab = visit(server)
    with tab.expect_request("**/v1/translate"):
        write(tab, "z y\n" * 600)
    write(tab, "a b c")
    settled(tab, model.translate("a b c"))
    assert re.search(r"/v1/translate 499 .*, 2,400 characters", log.read_text()), "by the server too"


def test_what_goes_wrong_is_said_with_what_to_change(visit: Open, keyed: Keyed, model: Translator) -> None:
    tab = visit(keyed.server)
    write(tab, "a b c")
    assert "A key is needed. Enter yours above the text." in problem(tab, "key")
    tab.locator("#key").fill("wrong")
    tab.keyboard.press("Enter")
    assert "Not allowed. The key is not known here" in problem(tab, "Not allowed")
    tab.locator("#key").fill(keyed.slow)
    tab.get_by_role("button", name="Use this key").click()
    settled(tab, model.translate("a b c"))
    assert tab.locator("#problem").is_hidden()
    assert tab.locator("#key-form").is_hidden()
    assert tab.evaluate("document.activeElement.id") == "text"
    write(tab, "a" * 502)
    assert "At most 500 characters are translated here: shorten the text by 2." in problem(tab, "shorten")
    assert tab.locator("#count.over").inner_text() == "502 / 500"
    write(tab, "a b")
    settled(tab, model.translate("a b"))
    for i in range(30):  # until the key has made its requests of this minute
        with tab.expect_response("**/v1/translate") as waiting:
            write(tab, "a b" + " c" * i)
        if waiting.value.status == 429:
            break
    said = problem(tab, "Too many")
    assert "Too many requests. This key may make 5 requests a minute: wait a little. It is tried again in" in said
    assert tab.get_by_role("button", name="Try again").is_visible()


def test_languages_are_chosen_and_swapped(visit: Open, keyed: Keyed, model: Translator) -> None:
    tab = visit(keyed.server)
    assert tab.locator("#pair option").all_inner_texts() == ["English → German", "German → English"]
    tab.locator("#pair").select_option(label="German → English")
    assert tab.locator("#source-name").inner_text() == "German"
    assert tab.locator("#text").get_attribute("lang") == "de"
    tab.locator("#key").fill(keyed.fast)
    write(tab, "a b c")
    said = model.translate("a b c")
    settled(tab, said)
    tab.locator("#swap").click()
    assert tab.locator("#source-name").inner_text() == "English"
    assert tab.locator("#text").input_value() == said
    settled(tab, model.translate(said))


def test_looking_inside_needs_a_key_as_well(keyed: Keyed) -> None:
    address = f"http://127.0.0.1:{keyed.server.port}/v1/attention"
    assert httpx.post(address, json={"text": "a b"}).status_code == 401
    bearer = {"Authorization": f"Bearer {keyed.fast}"}
    assert httpx.post(address, json={"text": "a b", "source": "en"}, headers=bearer).status_code == 200


def test_a_server_that_is_gone_is_asked_again(visit: Open, server: Server, model: Translator) -> None:
    tab = visit(server)
    tab.context.set_offline(True)
    write(tab, "d e f")
    assert "The server does not answer." in problem(tab, "answer")
    tab.context.set_offline(False)
    tab.get_by_role("button", name="Try again").click()
    settled(tab, model.translate("d e f"))
    assert tab.locator("#problem").is_hidden()


def test_what_is_typed_is_text(visit: Open, server: Server) -> None:
    tab = visit(server)
    tab.on("dialog", lambda dialog: pytest.fail("a text ran as a script"))
    write(tab, "<img src=x onerror=alert(1)> </textarea><script>alert(2)</script>\n\u200b\n<b>a b</b>")
    tab.locator("#choices label").first.wait_for()
    assert tab.locator("#behind img, #output img, #output script, #choices img, #choices script").count() == 0
    tab.locator("#look").click()
    looked_into(tab)
    assert tab.locator("#viewer img, #viewer script").count() == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_axe_finds_no_serious_fault_and_nothing_scrolls_sideways(
    visit: Open, server: Server, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    tab = visit(server, color_scheme=scheme, viewport={"width": width, "height": 640})

    def check() -> None:
        found = axe.run(tab).response["violations"]
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width

    check()
    write(tab, "a b c d e f. " * 4 + "\n" + "g" * 90)
    tab.locator("#choices label").first.wait_for()
    word(tab, "output", 1).hover()
    check()
    tab.locator("#look").click()
    looked_into(tab)
    check()
    write(tab, "a b c")
    is_old(tab, True)
    tab.locator("#ways:not([inert])").wait_for()
    check()
    write(tab, "a b " * 110)
    tab.locator("#look:disabled").wait_for()
    check()
    write(tab, "a" * 5001)
    problem(tab, "shorten")
    check()


def test_the_page_is_dark_where_the_system_is(visit: Open, server: Server) -> None:
    tab = visit(server, color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(paper)
    write(tab, "a b c")
    tab.locator("#look").click()
    looked_into(tab)
    assert tab.locator("#viewer").get_attribute("data-theme") == "dark"
    tab.emulate_media(color_scheme="light")
    tab.wait_for_selector("#viewer[data-theme=light]")
    light = tab.evaluate(paper)
    assert brightness(dark) < 0.2 < 0.8 < brightness(light)


def brightness(colour: str) -> float:
    return float(np.mean([int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]) / 255)


def test_a_finger_does_what_a_mouse_does(visit: Open, server: Server) -> None:
    tab = visit(server, viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    write(tab, "a b c d e f")
    tab.locator("#choices label").first.wait_for()
    word(tab, "output", 2).tap()
    assert " looked at " in tab.locator("#reading").inner_text()
    tab.locator("#look").tap()
    looked_into(tab)
    for view in ("heads", "lines", "alignment", "decoding"):
        tab.locator(f"[data-view={view}]").tap()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_the_policy_is_strict_and_nothing_breaks_it(visit: Open, server: Server, ask: httpx.Client) -> None:
    policy = ask.get("/").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    tab = visit(server)
    tab.evaluate(
        "document.addEventListener('securitypolicyviolation', (event) => { window.broken = event.blockedURI; })"
    )
    write(tab, "a b c")
    tab.locator("#look").click()
    looked_into(tab)
    tab.locator("[data-view=heads]").click()
    assert tab.evaluate("window.broken ?? 'nothing'") == "nothing"


def test_the_api_has_a_page_for_readers(visit: Open, server: Server) -> None:
    tab = visit(server)
    tab.get_by_role("link", name="API").click()
    tab.wait_for_selector("body[data-ready]")
    assert tab.url.endswith("/docs")
    routes = tab.locator(".route h2").all_inner_texts()
    said = httpx.get(f"http://127.0.0.1:{server.port}/openapi.json").json()["paths"]
    assert routes == [f"{method.upper()} {path}" for path, methods in said.items() for method in methods]
    translate = tab.locator(".route", has_text="POST /v1/translate")
    names = translate.locator("table").first.locator("tbody > tr > th").all_inner_texts()
    assert {"text", "beam", "n_best", "glossary"} <= set(names)
    tab.set_viewport_size({"width": 360, "height": 640})
    tab.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    ends = tab.locator(".wide").evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")
    assert len(ends) > 10
    assert max(ends) <= 360, "each table scrolls inside a box of its own"
    meanings = tab.locator(".wide td:last-child")
    widths = meanings.evaluate_all("all => all.map((one) => one.clientWidth)")
    assert min(widths) >= 200, "and what a field means has room"
