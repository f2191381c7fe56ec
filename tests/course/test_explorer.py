"""explore(): the table in advance, and what the widget does when it is moved."""

import pytest
import torch

from course.ch08 import explorer
from course.ch08.explorer import ELEMENTS, Explorer, explore
from course.gpu_code import access_sizes
from helpers.errors import InputError

pytest.importorskip("triton")
FLOAT, HALF = torch.float32, torch.bfloat16
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def made():
    """The lengths for which a program was asked for, in order."""
    return []


@pytest.fixture(scope="module")
def explored(made):
    def make(n):
        made.append(n)

        def chain(x):
            for _ in range(n):
                x = torch.sin(x) * 2 + 1
            return x

        return chain

    return explore(make, ("h100", "t4"), (FLOAT, HALF), (1, 2, 3))


def test_the_table_is_a_small_grid(explored, made):
    rows = [(s.gpu, s.dtype, s.length) for s in explored.settings]
    wanted = [("h100", d, n) for d in ("float32", "bfloat16") for n in (1, 3)]
    assert rows == [*wanted, ("t4", "float32", 3)] and made[:5] == [1, 3, 1, 3, 3]
    first, row = explored.settings[0], explored.table().rows[0]
    assert row[:7] == ("h100", "float32", "1", "1", "1", "1", "8 MiB")
    used = f"⟨{first.registers}⟩", f"⟨{first.occupancy:.0%}⟩"
    assert row[7:] == (first.block, f"{first.load_bytes} B", *used)
    assert first.block.startswith("XBLOCK ")
    assert "t4, float32, length 3" in explored._repr_html_()
    assert Explorer.from_json(explored.to_json()) == explored


def test_a_kernel_changes_with_the_program(explored):
    one, three, half = explored.settings[:3]
    sines = [setting.source.count("tl_math.sin") for setting in (one, three)]
    assert sines == [1, 3]
    assert one.bytes == three.bytes == 2 * half.bytes == 2 * 4 * ELEMENTS
    assert one.load_bytes in (8, 16) and one.registers <= three.registers


def test_the_widget_compiles_each_setting_once(explored, made, capsys):
    gpu, dtype, length, _ = explored.widget().children
    before = len(made)
    for n in (2, 1, 2):
        length.value = n
    assert made[before:] == [2] and (gpu.value, dtype.value) == ("h100", FLOAT)
    tables = capsys.readouterr().out.split("GPU ")[1:]
    rows = [table.splitlines()[2].split()[:3] for table in tables]
    assert rows == [["h100", "float32", n] for n in "1212"]
    assert dtype.options == (("float32", FLOAT), ("bfloat16", HALF))
    assert not length.continuous_update  # each setting compiles


def displayed(explored, monkeypatch, live):
    """Return what is displayed, one bundle of MIME types after another."""
    bundles = []
    monkeypatch.setattr(explorer, "watched", lambda: live)

    def display(bundle, raw):
        assert raw is True
        bundles.append(bundle)

    monkeypatch.setattr("IPython.display.display", display)
    explored._ipython_display_()
    return bundles


def test_the_widget_is_shown_where_it_is_live(explored, monkeypatch):
    table, widget = displayed(explored, monkeypatch, live=True)
    assert table == {"text/plain": str(explored), "text/html": explored._repr_html_()}
    assert "<table>" in table["text/html"]
    asleep = "In a live notebook, sliders stand here."
    assert WIDGET in widget and widget["text/plain"] == asleep
    # Elsewhere, and where it was read from a file, there is the table alone.
    assert displayed(explored, monkeypatch, live=False) == [table]
    assert displayed(Explorer(explored.settings), monkeypatch, live=True) == [table]


def test_of_two_kernels_that_which_moves_more_is_measured():
    two = explore(lambda n: lambda x: x - x[:n].sum(), ("h100",), (FLOAT,), (8,))
    (setting,) = two.settings
    assert (setting.kernels, setting.load_bytes) == (2, 16)
    first, second = setting.source.split("\n@triton.jit\n")
    assert "tl.sum(" in first and "tl.sum(" not in second
    filled = explore(
        lambda n: lambda x: torch.full_like(x, n), ("h100",), (FLOAT,), (1,)
    )
    assert filled.settings[0].load_bytes == 0


def test_what_is_missing_is_said():
    with pytest.raises(
        InputError, match=r"^make\(1\) becomes no Triton kernel on h100$"
    ):
        explore(lambda n: lambda x: 3, ("h100",), (FLOAT,), (1,))
    with pytest.raises(InputError, match="lower this for Tesla T4"):
        explore(lambda n: torch.sin, ("t4",), (HALF,), (1,))


def test_the_width_of_loads_is_read_from_ptx():
    hint = "ld.global.L1::evict_first.L2::cache_hint.v4.b32 { %r1 }, [ %rd1 ], %rd2;"
    for ptx, sizes in (
        ("\t@%p1 ld.global.v4.b32 { %r1 }, [ %rd1 + 0 ];\n", [16]),
        ("ld.global.b16 %rs1, [x];\nld.global.v2.b32 {a}, [x];\n", [2, 8]),
        (hint, [16]),
        ("st.global.v4.b32 [x], {a};", []),
    ):
        assert access_sizes(ptx) == sizes
    assert access_sizes("st.global.v4.b32 [x], {a};", "st") == [16]
