"""Trees on the terminal and as pictures."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from regard.data.trees import NO_PARSE, Tree, tree_of
from regard.view.terminal import cell_width
from regard.view.trees import tree_svg, tree_text

CAT = tree_of("(S (NP (DT the) (NN cat)) (VP (VBD sat) (ADVP (RB down))) (. .))")
SPACE = "{http://www.w3.org/2000/svg}"


def test_the_tree_in_the_terminal() -> None:
    assert tree_text(CAT).split("\n") == [
        "S",
        "├─ NP",
        "│  ├─ DT the",
        "│  └─ NN cat",
        "├─ VP",
        "│  ├─ VBD sat",
        "│  └─ ADVP",
        "│     └─ RB down",
        "└─ . .",
    ]


def test_a_word_alone_and_no_parse() -> None:
    assert tree_text(tree_of("(UH yes)")) == "UH yes"
    assert tree_text(NO_PARSE) == "(no parse)"
    assert ElementTree.fromstring(tree_svg(NO_PARSE)).find(f"{SPACE}title").text == "(no parse)"  # type: ignore[union-attr]


def test_no_line_is_wider_than_asked() -> None:
    deep = "".join(f"(X{i} (NN 日本語の長い単語) " for i in range(60)) + "(NN end)" + 60 * ")"
    for width in (12, 20, 40, 100):
        lines = tree_text(tree_of(deep), width).split("\n")
        assert len(lines) == 121
        assert max(map(cell_width, lines)) <= width
    assert "…45 " in lines[-1]  # levels that are not shown
    with pytest.raises(ValueError, match="at least 12"):
        tree_text(CAT, 11)


def test_a_tree_of_any_depth_is_drawn() -> None:
    depth = 5 * sys.getrecursionlimit()
    tree = tree_of(depth * "(X (NN a) " + "(NN b)" + depth * ")")
    assert tree_text(tree).count("\n") == 2 * depth
    assert tree_svg(tree).count("data-bracket") == depth


def test_what_acts_on_a_terminal_is_spelt_out() -> None:
    tree = Tree(("\x1b[31mred\u202e",), ("NN",), ())
    assert "\x1b" not in tree_text(tree)
    assert "\u202e" not in tree_text(tree)


def texts(svg: str) -> list[tuple[str, float, float]]:
    """Text, x and y of everything written in the picture."""
    found = ElementTree.fromstring(svg).iter(f"{SPACE}text")
    return [(one.text or "", float(one.attrib["x"]), float(one.attrib["y"])) for one in found]


def test_the_picture_has_every_bracket_and_word_in_its_place() -> None:
    svg = tree_svg(CAT)
    root = ElementTree.fromstring(svg)
    groups = list(root.iter(f"{SPACE}g"))
    brackets = {int(one.attrib["data-bracket"]): one[0].text for one in groups if "data-bracket" in one.attrib}
    words = {int(one.attrib["data-word"]): (one[0].text, one[1].text) for one in groups if "data-word" in one.attrib}
    assert brackets == {i: one.label for i, one in enumerate(CAT.brackets)}
    assert words == dict(enumerate(zip(CAT.tags, CAT.words, strict=True)))
    place = {text: (x, y) for text, x, y in texts(svg)}
    assert place["the"][0] < place["cat"][0] < place["sat"][0] < place["down"][0]
    assert len({place[word][1] for word in CAT.words[:-1]}) == 1  # one row
    assert place["S"][1] < place["VP"][1] < place["ADVP"][1] < place["RB"][1] < place["down"][1]
    assert place["the"][0] < place["NP"][0] < place["cat"][0]
    assert place["ADVP"][0] == place["down"][0]


def test_nothing_in_a_row_overlaps() -> None:
    tree = tree_of(
        "(S (WHADVP-LONG-LABEL (RB a)) (VERYLONGLABEL (NN b) (NN c)) (X (NN internationalise)) (NP (NN 日本語) (. ,)))"
    )
    rows: dict[float, list[tuple[float, str]]] = {}
    for text, x, y in texts(tree_svg(tree)):
        rows.setdefault(y, []).append((x, text))
    width = float(ElementTree.fromstring(tree_svg(tree)).attrib["width"])
    for row in rows.values():
        ends = [(x - cell_width(text) * 4.2, x + cell_width(text) * 4.2) for x, text in sorted(row)]
        assert all(left[1] < right[0] for left, right in pairwise(ends))
        assert ends[0][0] > 0
        assert ends[-1][1] < width


def test_lines_do_not_cross() -> None:
    """Each is a step down, a way across and a way down: no way across meets a way down of another phrase."""
    tree = tree_of(
        "(S (NP (DT a) (NN b)) (VP (V c) (NP (NP (D d)) (PP (I e) (NP (NP (N f) (N g)) (, h) (NP (N i)))))))"
    )
    path = ElementTree.fromstring(tree_svg(tree)).find(f"{SPACE}path")
    assert path is not None
    across, down = [], []
    for x, y, to, end in re.findall(r"M([\d.]+) ([\d.]+)v8H([\d.]+)V([\d.]+)", path.attrib["d"]):
        across.append((float(y) + 8, *sorted((float(x), float(to)))))
        down.append((float(to), float(y) + 8, float(end)))
    assert len(down) == len(tree.words) + len(tree.brackets) - 1
    for y, left, right in across:
        assert not any(left < x < right and top < y < bottom for x, top, bottom in down)


def test_any_text_makes_sound_xml() -> None:
    odd = Tree(("<&>\"'", "\x00\x1b", "\ufffe\uffff", "\ud800"), ("A&B", "<", ">", '"'), ())
    written = [text for text, _, _ in texts(tree_svg(odd))]
    assert written[:2] == ["A&B", "<&>\"'"]
    tree_svg(odd).encode("utf-8")
