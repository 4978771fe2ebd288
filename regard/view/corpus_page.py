"""What is in a corpus, as one page that opens offline: the picture and the table."""

from __future__ import annotations

import base64
import hashlib
import html

from regard.view.corpus_table import Report, corpus_remarks, corpus_rows
from regard.view.labels import visible

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2333; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
img { width: 100%; } table { border-collapse: collapse; } th { text-align: left; padding-top: 1rem; }
td { padding: .1rem 1.2rem .1rem 0; border-bottom: 1px solid #e3e6ee; } td + td { text-align: right; }
td + td, thead td { font-variant-numeric: tabular-nums; } footer { color: #5b6478; margin-top: 2rem; }
"""


def corpus_page(report: Report, picture: bytes) -> str:
    """The whole report as one file: the picture is inside, nothing is asked of the network, no text is markup."""
    names = list(report["splits"])
    heads = "".join(f"<td>{_escape(name)}</td>" for name in names)
    body = []
    for section, rows in corpus_rows(report).items():
        body.append(f'<tr><th colspan="{len(names) + 1}">{_escape(section)}</th></tr>')
        for label, values in rows:
            cells = "".join(f"<td>{_escape(value)}</td>" for value in values)
            body.append(f"<tr><td>{_escape(label)}</td>{cells}</tr>")
    title = _escape(f"{report['name']}: {' → '.join(report['languages'])}")
    allowed = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'sha256-{allowed}'">
<style>{STYLE}</style></head><body>
<h1>{title}</h1>
<img alt="Lengths, ratios, coverage, repetitions and leakage; the table has the same figures."
 src="data:image/png;base64,{base64.b64encode(picture).decode()}">
<table><thead><tr><td></td>{heads}</tr></thead><tbody>
{chr(10).join(body)}
</tbody></table>
<ul>{"".join(f"<li>{_escape(line)}</li>" for line in corpus_remarks(report))}</ul>
<footer>Words are what white space separates; in vocabularies without the punctuation at their ends and without case.
Repetitions are word for word, leakage is by near form: whatever the case, punctuation,
spacing and numbers. All figures: report.json.</footer>
</body></html>
"""
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _escape(text: str) -> str:
    return html.escape(visible(text))
