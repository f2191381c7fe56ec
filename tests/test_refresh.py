"""The script that executes notebooks: what it stores, and what it refuses."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.refresh import as_text, deviation, main, normalised


def notebook(folder, *sources):
    path = folder / "01_is_it_so.ipynb"
    cells = [new_code_cell(source) for source in sources]
    path.write_text(as_text(normalised(new_notebook(cells=cells))), encoding="utf-8")
    return path


def test_it_executes_and_stores_and_the_readers_progress_does_not_leak(
    tmp_path, course_home, capsys
):
    course_home.mkdir()
    guess = '{"predictions": {"01.p1": {"guess": "2 graphs", "right": true}}}'
    (course_home / "progress.json").write_text(guess)
    path = notebook(
        tmp_path,
        "import os\nfrom pathlib import Path\nprint(Path.cwd().name, flush=True)\n"
        "print(os.environ['COURSE_STRICT'], os.environ['HELPERS_QUIET'])",
        "from course import predict, score, start\nstart('01')\n"
        "predict('01.p1', '?', ['1 graph', '2 graphs'])\nscore('01')",
        "1 + 1",
    )
    assert main(["--force", str(path)]) == 0
    first, second, third = nbformat.read(path, as_version=4).cells
    assert [o.text for o in first.outputs] == [f"{tmp_path.name}\n1 1\n"]
    assert third.outputs[0]["data"] == {"text/plain": "2"}
    assert [c.execution_count for c in (first, second, third)] == [1, 2, 3]
    text = path.read_text(encoding="utf-8")
    assert "Your guess: none yet" in text and "0 of 1 made" in text
    assert (course_home / "progress.json").read_text() == guess
    assert deviation(path) is None and "s: ok" in capsys.readouterr().out
    path.write_text(text.replace('"name": "python3"', '"name": "mine"'))
    assert '"name": "mine"' in deviation(path)
    path.write_text(text.replace('"metadata": {}', '"metadata": {"execution": {}}', 1))
    assert "execution" in deviation(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("from course import claim\nclaim('one is two', 1 == 2)", "ClaimFailed"),
        ("object()", "a memory address in text/plain"),
    ],
)
def test_nothing_is_stored_when_a_cell_fails_or_prints_what_it_must_not(
    source, message, tmp_path, capsys
):
    path = notebook(tmp_path, source)
    before = path.read_text(encoding="utf-8")
    assert main(["--force", str(path)]) == 1
    assert message in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == before
