"""Constituency trees as people look at them: lines in a terminal, and a picture as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Protocol

from regard.view.labels import visible
from regard.view.terminal import cell_width, shorten

NARROWEST = 12
INK, MUTED, LINE, PHRASE = "#1c2333", "#5b6478", "#b9c0d0", "#1f3a93"
CELL, CAPITAL = 8.4, 10.8  # pixels of a letter of a word or tag, of a label
GAP, ROW, MARGIN = 12.0, 44.0, 16.0  # between words, between levels, around it all


class Drawable(Protocol):
    """A tree: its words, their tags, and its brackets as label, first word and one past the last word, outer before
    inner and left before right."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def brackets(self) -> Sequence[tuple[str, int, int]]: ...


@dataclass
class Node:
    """A bracket, or a word with its tag."""

    label: str
    parent: int  # its place among the nodes; -1 for the root
    word: int = -1  # which word, or -1
    bracket: int = -1  # which bracket, or -1
    last: bool = True  # the last child of its parent


def nodes_of(tree: Drawable) -> list[Node]:
    """From left to right, each after the one it hangs from."""
    nodes: list[Node] = []
    newest: dict[int, Node] = {}  # the youngest child of each
    opened: list[tuple[int, int]] = []  # nodes of open brackets, and where they end
    brackets = list(tree.brackets)

    def add(node: Node) -> None:
        if node.parent in newest:
            newest[node.parent].last = False
        newest[node.parent] = node
        nodes.append(node)

    following = 0
    for i, tag in enumerate(tree.tags):
        while following < len(brackets) and brackets[following][1] == i:
            label, _, end = brackets[following]
            add(Node(label, opened[-1][0] if opened else -1, bracket=following))
            opened.append((len(nodes) - 1, end))
            following += 1
        add(Node(tag, opened[-1][0] if opened else -1, word=i))
        while opened and opened[-1][1] == i + 1:
            opened.pop()
    return nodes


# --- in the terminal -------------------------------------------------------------------------------------


def tree_text(tree: Drawable, width: int = 100, remarks: Mapping[int, str] | None = None) -> str:
    """One line for each phrase and each word, under and further in than the phrase it is part of; after a phrase what
    there is to remark on its bracket, by number.

    No line has more than `width` cells: of a very deep branch the left is cut off, and how many levels of it is said,
    of a very long word the end.
    """
    if width < NARROWEST:
        raise ValueError(f"width is {width}; a tree needs at least {NARROWEST} cells")
    nodes = nodes_of(tree)
    if not nodes:
        return shorten("(no parse)", width)
    lines = [line_of(tree, node, above, width) for node, above in with_those_above(nodes)]
    if not remarks:
        return "\n".join(lines)
    edge = min(max(map(cell_width, lines)), width // 2)
    return "\n".join(
        remarked(line, remarks.get(node.bracket, ""), edge, width) for line, node in zip(lines, nodes, strict=True)
    )


def remarked(line: str, remark: str, edge: int, width: int) -> str:
    if not remark:
        return line
    start = line + " " * max(0, edge - cell_width(line)) + "   "
    return start + shorten(visible(remark), max(1, width - cell_width(start)))


def with_those_above(nodes: Sequence[Node]) -> Iterator[tuple[Node, Sequence[Node]]]:
    """Each node with those on the way to it from the root, which is left out."""
    path: list[int] = []
    above: list[Node] = []
    for number, node in enumerate(nodes):
        while path and path[-1] != node.parent:
            path.pop()
            above.pop()
        yield node, above
        path.append(number)
        above.append(node)


def line_of(tree: Drawable, node: Node, above: Sequence[Node], width: int) -> str:
    text = visible(node.label) + (f" {visible(tree.words[node.word])}" if node.word >= 0 else "")
    if not above:
        return shorten(text, width)
    hidden = max(0, len(above) - 1 - (width // 6 - 2))  # half of the width is left for the text
    rails = ["   " if one.last else "│  " for one in above[1 + hidden :]]
    start = (f"…{hidden} " if hidden else "") + "".join(rails) + ("└─ " if node.last else "├─ ")
    return start + shorten(text, width - cell_width(start))


# --- as a picture ----------------------------------------------------------------------------------------


def tree_svg(tree: Drawable) -> str:
    """A standalone SVG. Words stand in a row at the bottom, phrases as near above them as they can; no lines cross.

    The group of each phrase says which bracket it is in `data-bracket`, that of each word which one in `data-word`.
    """
    nodes = nodes_of(tree)
    levels = levels_of(nodes)
    edges = edges_of(tree)
    x = [middle(tree, node, edges) for node in nodes]
    top = max(levels, default=0)
    y = [MARGIN + 14 + (top - level) * ROW for level in levels]
    width, height = edges[-1] + MARGIN, 2 * MARGIN + 14 + top * ROW + 22
    lines = [
        f"M{x[node.parent]:.1f} {y[node.parent] + 6:.1f}v8H{x[i]:.1f}V{y[i] - 14:.1f}"
        for i, node in enumerate(nodes)
        if node.parent >= 0
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="system-ui, sans-serif" font-size="14" '
            f'text-anchor="middle"><title>{xml_text(" ".join(tree.words) or "(no parse)")}</title>',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<path stroke="{LINE}" fill="none" d="{"".join(lines)}"/>',
            *(group(tree, node, x[i], y[i]) for i, node in enumerate(nodes)),
            "</svg>\n",
        ]
    )


def levels_of(nodes: Sequence[Node]) -> list[int]:
    """How high each stands: words at 0, a phrase one above the highest of its parts."""
    levels = [0] * len(nodes)
    for i in range(len(nodes) - 1, 0, -1):  # parts come after the phrase they are of
        above = nodes[i].parent
        if above >= 0:
            levels[above] = max(levels[above], levels[i] + 1)
    return levels


def edges_of(tree: Drawable) -> list[float]:
    """Where the column of each word begins, and where the last ends. Labels are never wider than the words below."""
    columns = [max(wide(word), wide(tag)) for word, tag in zip(tree.words, tree.tags, strict=True)]
    for label, start, end in sorted(tree.brackets, key=lambda one: one[2] - one[1]):
        lacking = wide(label, CAPITAL) - sum(columns[start:end])
        for i in range(start, end) if lacking > 0 else ():
            columns[i] += lacking / (end - start)
    return list(accumulate(columns, initial=MARGIN))


def middle(tree: Drawable, node: Node, edges: Sequence[float]) -> float:
    _, start, end = tree.brackets[node.bracket] if node.bracket >= 0 else ("", node.word, node.word + 1)
    return (edges[start] + edges[end]) / 2


def wide(text: str, letter: float = CELL) -> float:
    return cell_width(visible(text)) * letter + GAP


def group(tree: Drawable, node: Node, x: float, y: float) -> str:
    if node.bracket >= 0:
        return (
            f'<g data-bracket="{node.bracket}"><text x="{x:.1f}" y="{y:.1f}" fill="{PHRASE}" font-weight="600">'
            f"{xml_text(node.label)}</text></g>"
        )
    return (
        f'<g data-word="{node.word}"><text x="{x:.1f}" y="{y:.1f}" fill="{MUTED}" font-size="12">{xml_text(node.label)}'
        f'</text><text x="{x:.1f}" y="{y + 20:.1f}" fill="{INK}">{xml_text(tree.words[node.word])}</text></g>'
    )


def xml_text(text: str) -> str:
    """As XML can hold it."""
    return escape(visible(text).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd"))
