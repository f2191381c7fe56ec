"""What a page needs that is opened alone: on GitHub, in Colab, Kaggle or VS Code.

    python -m tools.alone     write the repository's address into every page

A first cell that finds the course, or fetches it; and what answers a prediction lies
behind a click.  Both are in the files only: whoever reads a page as a notebook gets it
without them (`plain`).  The address is that of ``[project.urls]`` in pyproject.toml;
without one, no page has a button, and the first cell only looks around.
"""

from __future__ import annotations

import ast
import copy
import html
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
from jinja2 import Template

from helpers.results import VERSION, write_atomically
from tools.commands import command

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ("[0-9]*.ipynb", "reference/*.ipynb")
CELL = Path(__file__).with_name("alone_cell.txt")
TAG = "alone"
RELEASE = f"v{VERSION}"  # the tag at which the course is fetched
GUESS_FIRST = "the answer is inside: guess first"
_HIDES = "<details><summary>"  # how the HTML of an output begins that is hidden


def address() -> str:
    """Return the repository's address, or "" where none is set."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def ways_in(address: str, page: str = "") -> str:
    """Return links that open a page, or the first one, without an installation."""
    owner_and_name = address.removeprefix("https://github.com/")
    page = f"notebooks/{page or '00_what_can_one_line_buy.ipynb'}"
    ways = {
        "Colab": f"https://colab.research.google.com/github/{owner_and_name}/blob/"
        f"{RELEASE}/{page}",
        "Codespaces": f"https://codespaces.new/{owner_and_name}?quickstart=1",
        "Binder": f"https://mybinder.org/v2/gh/{owner_and_name}/{RELEASE}"
        f"?urlpath=lab/tree/{page}",
    }
    return " · ".join(f"[{name}]({url})" for name, url in ways.items())


def with_address(readme: str, address: str) -> str:
    """Return the README with the address: in its command, and in ways to open it."""
    clone = f"git clone {address or '<address of this repository>'} torch-compile"
    old = r"git clone \S+(?: of this repository>)? torch-compile"
    readme = re.sub(old, clone, readme)
    text = Template(CELL.with_name("alone.md").read_text("utf-8"))
    told = text.render(ways=address and ways_in(address))
    mark = re.compile(r"(<!-- open -->\n).*(<!-- /open -->)", re.DOTALL)
    return mark.sub(lambda found: f"{found[1]}{told}\n{found[2]}", readme)


# --- in a notebook ----------------------------------------------------------------


def prepared(page: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a page as it is stored: with its first cell, and with answers hidden."""
    page = plain(copy.deepcopy(page))
    for cell in answering(page.cells):
        cell.outputs = [_hidden(output) for output in cell.outputs]
    source = CELL.read_text("utf-8").strip()
    source = source.replace("ADDRESS", address()).replace("RELEASE", RELEASE)
    first = nbformat.v4.new_code_cell(source, id=TAG)
    # JupyterLab folds it by the one, and Colab by the other.
    first.metadata = {"cellView": "form", "jupyter": {"source_hidden": True}}
    first.metadata["tags"] = [TAG]
    for place, cell in enumerate(page.cells):
        if "setup" in cell.metadata.get("tags", []):
            page.cells.insert(place, nbformat.from_dict(first))
            break
    return page


def plain(page: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a page without what `prepared` gave it."""
    page.cells = [c for c in page.cells if TAG not in c.metadata.get("tags", [])]
    for cell in page.cells:
        if cell.cell_type == "code":
            cell.outputs = [shown(output) for output in cell.outputs]
    return page


def answering(cells: list[nbformat.NotebookNode]) -> Iterator[nbformat.NotebookNode]:
    """Yield the code cells whose outputs answer a prediction that is still open."""
    still_open: set[str] = set()
    for cell in (cell for cell in cells if cell.cell_type == "code"):
        asked = set(re.findall(r'\bpredict\(\s*"(\S+?)"', cell.source))
        if still_open and not asked:
            yield cell
        revealed = set(re.findall(r'\breveal\(\s*"(\S+?)"', cell.source))
        still_open = (still_open | asked) - revealed


def only_asks(source: str) -> bool:
    """Return whether a cell asks for a prediction in its own words, and no more."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return False
    called = [ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)]
    plain = ast.Assign, ast.AugAssign, ast.Expr
    return called == ["predict"] and all(isinstance(n, plain) for n in tree.body)


def _hidden(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an output behind a click: what is printed becomes HTML that folds."""
    text = output.get("text") or output.get("data", {}).get("text/plain")
    if text is None:  # an error
        return output
    data = dict(output.get("data", {"text/plain": text}))
    inside = data.get("text/html") or f"<pre>{html.escape(text)}</pre>"
    data["text/html"] = f"{_HIDES}{GUESS_FIRST}</summary>{inside}</details>"
    if "text" not in output:
        return nbformat.from_dict({**output, "data": data})
    kept = {"metadata": {"stream": output.name}, "output_type": "display_data"}
    return nbformat.from_dict({**kept, "data": data})


def shown(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an output as the cell gave it, be it hidden or not."""
    page = output.get("data", {}).get("text/html", "")
    if not page.startswith(f"{_HIDES}{GUESS_FIRST}"):
        return output
    data = dict(output["data"])
    if stream := output["metadata"].get("stream"):
        return nbformat.v4.new_output("stream", name=stream, text=data["text/plain"])
    inside = page.partition("</summary>")[2].removesuffix("</details>")
    if inside == f"<pre>{html.escape(data.get('text/plain', ''))}</pre>":
        del data["text/html"]
    else:
        data["text/html"] = inside
    return nbformat.from_dict({**output, "data": data})


def read(path: Path) -> nbformat.NotebookNode:
    """Return the page in a file, without what `prepared` gave it."""
    return plain(nbformat.read(path, as_version=4))


def as_text(page: nbformat.NotebookNode) -> str:
    """Return a page as its file has it: sorted keys, one space of indent."""
    text = nbformat.writes(prepared(page), version=4)
    return text.rstrip("\n") + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write every page anew; say which changed."""
    command("tools.alone", __doc__, "a page cannot be read").parse_args(arguments)
    pages = [p for n in NOTEBOOKS for p in (ROOT / "notebooks").glob(n)]
    texts = {path: as_text(read(path)) for path in pages}
    readme = ROOT / "README.md"
    texts[readme] = with_address(readme.read_text("utf-8"), address())
    for path, text in texts.items():
        if text != path.read_text("utf-8"):
            write_atomically(path, text)
            print(f"{path.name} was written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
