"""Pages that the proof in the browser must refuse, and one that it must not."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nbformat.v4 import new_code_cell, new_notebook

from tests.proof.browser import look
from tests.proof.common import markdown
from tests.refresh import KERNEL, as_text

SLIDER = """\
import io
import ipywidgets
from matplotlib.figure import Figure

slider = ipywidgets.IntSlider(description="n", continuous_update=False)
picture = ipywidgets.Image()


def draw(change=None):
    figure, file = Figure(figsize=(2, 1)), io.BytesIO()
    figure.subplots().plot(range({drawn} + 2))
    figure.savefig(file)
    picture.value = file.getvalue()


slider.observe(draw, "value")
draw()
display(ipywidgets.VBox([slider, picture]))"""
LOUD = """\
import ipywidgets
button, shown = ipywidgets.Button(description="go"), ipywidgets.HTML("ready")
button.on_click(lambda _: setattr(shown, "value", "ValueError: no such program"))
display(ipywidgets.VBox([button, shown]))"""
SCRIPT = "from IPython.display import Javascript\nJavascript({!r})"
FOLD = "from IPython.display import HTML\nHTML('<details><summary>look</summary>{}')"
# JupyterLab leaves the error of a widget whose kernel has gone, unless that is hidden.
AWAKE = "from IPython.display import HTML\nHTML('<style>.jp-OutputArea-output"
AWAKE += ".jupyter-widgets:not(:has(*)) {display: none}</style>')"
PAGES = {  # name -> its cells, and a part of each fault that must be found
    "sound": (
        [AWAKE, SLIDER.format(drawn="slider.value"), FOLD.format("<p>words</p>")],
        [],
    ),
    "error": (
        ["1 / 0", "2"],
        ["ZeroDivisionError: division", "1 cell did not run, from '2'"],
    ),
    "dies": (["import os\nos._exit(1)"], ["did not run"]),
    "warns": (["import warnings\nwarnings.warn('old')"], ["a warning in stderr"]),
    "numb": (
        [AWAKE, SLIDER.format(drawn="3")],
        ["a slider beside 'n 0' changes neith"],
    ),
    "loud": ([AWAKE, LOUD], ["ends in ValueError"]),
    "dead": ([SLIDER.format(drawn="slider.value")], ["opened again: Error displaying"]),
    "fold": ([FOLD.format("")], ["the fold 'look' folds nothing"]),
    "console": ([SCRIPT.format("console.error('boom')")], ["console: boom"]),
    "request": (
        [SCRIPT.format("fetch('http://127.0.0.1:9/x').catch(() => null)")],
        ["request: http://127.0.0.1:9/x", "console: Failed to load"],
    ),
}


def refused() -> int:
    """Look at each page; return 1 when a fault was missed or made up."""
    with tempfile.TemporaryDirectory() as home:
        paths = [Path(home) / f"{name}.ipynb" for name in PAGES]
        for path in paths:
            cells = [new_code_cell(source) for source in PAGES[path.stem][0]]
            path.write_text(
                as_text(new_notebook(cells=cells, metadata={"kernelspec": KERNEL})),
                encoding="utf-8",
            )
        rows = [_verdict(row) for row in look(paths, (False,))]
    print(markdown(rows))
    return int(any(row["verdict"] != "as it should be" for row in rows))


def _verdict(row: dict) -> dict:
    name, found = row["notebook"], row["found"]
    wanted = PAGES[name][1]
    said = [f"missed: {part}" for part in wanted if part not in found]
    said += ["made up"] if found != "nothing" and not wanted else []
    verdict = "; ".join(said) or "as it should be"
    print(f"{name}: {verdict}", flush=True)
    return {"page": name, "found": found, "verdict": verdict}
