"""explore(): the table in advance, and what the widget does when it is moved."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from helpers import explore
from helpers.errors import InputError
from helpers.gpu import explorer
from helpers.gpu.explorer import ELEMENTS, Explorer, access_sizes

pytest.importorskip("triton")
FLOAT, HALF = torch.float32, torch.bfloat16
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def made() -> list[int]:
    """The lengths for which a program was asked for, in order."""
    return []


@pytest.fixture(scope="module")
def explored(made: list[int]) -> Explorer:
    def make(n: int) -> Any:
        made.append(n)

        def chain(x: torch.Tensor) -> torch.Tensor:
            for _ in range(n):
                x = torch.sin(x) * 2 + 1
            return x

        return chain

    return explore(make, ("h100", "t4"), (FLOAT, HALF), (1, 2, 3))


def test_the_table_is_a_small_grid(explored: Explorer, made: list[int]) -> None:
    rows = [(s.gpu, s.dtype, s.length) for s in explored.settings]
    wanted = [("h100", d, n) for d in ("float32", "bfloat16") for n in (1, 3)]
    assert rows == [*wanted, ("t4", "float32", 3)] and made[:5] == [1, 3, 1, 3, 3]
    assert all(cell.startswith("⟨") for cell in explored.table().rows[0][-2:])
    assert Explorer.from_json(explored.to_json()) == explored


def test_a_kernel_changes_with_the_program(explored: Explorer) -> None:
    one, three, half = explored.settings[:3]
    sines = [setting.source.count("tl_math.sin") for setting in (one, three)]
    assert sines == [1, 3]
    assert one.bytes == three.bytes == 2 * half.bytes == 2 * 4 * ELEMENTS
    assert one.load_bytes in (8, 16) and one.registers <= three.registers


def test_the_widget_compiles_each_setting_once(
    explored: Explorer, made: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    gpu, dtype, length, _ = explored.widget().children
    before = len(made)
    for n in (2, 1, 2):
        length.value = n
    assert made[before:] == [2] and (gpu.value, dtype.value) == ("h100", FLOAT)
    tables = capsys.readouterr().out.split("GPU ")[1:]
    lengths = [table.splitlines()[2].split()[2] for table in tables]
    assert lengths == ["1", "2", "1", "2"]


def displayed(
    explored: Explorer, monkeypatch: pytest.MonkeyPatch, live: bool
) -> list[dict[str, Any]]:
    """Return what is displayed, one bundle of MIME types after another."""
    bundles: list[dict[str, Any]] = []
    monkeypatch.setattr(explorer, "watched", lambda: live)
    monkeypatch.setattr("IPython.display.display", lambda x, raw: bundles.append(x))
    explored._ipython_display_()
    return bundles


def test_the_widget_is_shown_where_it_is_live(
    explored: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, widget = displayed(explored, monkeypatch, live=True)
    assert table == {"text/plain": str(explored), "text/html": explored._repr_html_()}
    assert "<table>" in table["text/html"]
    assert WIDGET in widget and "sliders stand here" in widget["text/plain"]
    # Elsewhere, and where it was read from a file, there is the table alone.
    assert displayed(explored, monkeypatch, live=False) == [table]
    assert displayed(Explorer(explored.settings), monkeypatch, live=True) == [table]


def test_what_is_missing_is_said() -> None:
    with pytest.raises(InputError, match="no Triton kernel"):
        explore(lambda n: lambda x: 3, ("h100",), (FLOAT,), (1,))


def test_the_width_of_loads_is_read_from_ptx() -> None:
    hint = "ld.global.L1::evict_first.L2::cache_hint.v4.b32 { %r1 }, [ %rd1 ], %rd2;"
    for ptx, sizes in (
        ("\t@%p1 ld.global.v4.b32 { %r1 }, [ %rd1 + 0 ];\n", [16]),
        ("ld.global.b16 %rs1, [x];\nld.global.v2.b32 {a}, [x];\n", [2, 8]),
        (hint, [16]),
        ("st.global.v4.b32 [x], {a};", []),
    ):
        assert access_sizes(ptx) == sizes
    assert access_sizes("st.global.v4.b32 [x], {a};", "st") == [16]
