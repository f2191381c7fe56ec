"""explore(): the table in advance, and what the widget does when it is moved."""

import sys
from unittest import mock

import pytest
import torch

from helpers import explore
from helpers.errors import InputError
from helpers.gpu import explorer
from helpers.gpu.explorer import Explorer, Live, Setting, widest_load

FLOAT, HALF = torch.float32, torch.bfloat16


def make(n):
    def chain(x):
        for _ in range(n):
            x = torch.sin(x) * 2 + 1
        return x

    return chain


@pytest.fixture
def counted(monkeypatch):
    """A stand-in for the compiler that counts how often it is asked."""
    asked = []

    def setting(_, elements, gpu, dtype, length):
        asked.append((gpu, dtype, length))
        if length == 13:
            raise InputError("no such program\nand a second line")
        numbers = (length, 1, 1, 1, 8, "XBLOCK 64, 4 warps", 16, 20, 0.5)
        return Setting(gpu, "float32", *numbers, "tmp0 = 1\n")

    monkeypatch.setattr(explorer, "_setting", setting)
    return asked


def test_a_real_kernel_changes_with_the_program():
    pytest.importorskip("triton")
    found = explore(make, ("h100",), (FLOAT,), (1, 3), elements=1 << 12)
    one, three = found.settings
    assert (one.source.count("tl_math.sin"), three.source.count("tl_math.sin")) == (
        1,
        3,
    )
    assert one.bytes == three.bytes == 2 * 4 * (1 << 12)
    assert one.load_bytes in (8, 16) and one.registers <= three.registers
    assert Explorer.from_json(found.to_json()) == found


def test_the_table_is_a_small_grid(counted):
    found = explore(make, ("h100", "t4"), (FLOAT, HALF), (1, 2, 4))
    wanted = [("h100", d, n) for d in (FLOAT, HALF) for n in (1, 4)]
    assert counted == [*wanted, ("t4", FLOAT, 4)]
    assert len(found.table().rows) == 5
    assert found.table().rows[0][-2:] == ("⟨20⟩", "⟨50%⟩")


def test_going_back_to_a_setting_compiles_nothing(counted):
    live = explore(make, ("h100",), (FLOAT,), (1, 2, 4)).live
    before = len(counted)
    gpu, dtype, length = live.widget.children[0].children
    length.value = 2
    assert counted[before:] == [("h100", FLOAT, 2)]
    length.value = 1
    length.value = 2
    assert len(counted) == before + 1
    assert (gpu.value, dtype.value) == ("h100", FLOAT)


def test_the_widget_says_that_it_is_busy(counted, monkeypatch):
    live = Live(make, ("h100",), (FLOAT,), (1, 2), 64)
    _, busy, shown = live.widget.children
    seen, page = [], Live.page
    monkeypatch.setattr(
        Live, "page", lambda *key: seen.append(busy.value) or page(*key)
    )
    live.widget.children[0].children[2].value = 2
    assert "compiling" in seen[0] and "<progress>" in seen[0]
    assert busy.value == "h100, float32, length 2" and "<td" in shown.value


def test_an_error_is_one_line_and_the_widget_lives_on(counted):
    live = Live(make, ("h100",), (FLOAT,), (1, 13), 64)
    length, shown = live.widget.children[0].children[2], live.widget.children[2]
    length.value = 13
    assert "InputError: no such program</pre>" in shown.value
    length.value = 1
    assert "tmp0" in shown.value


WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def shown(counted, monkeypatch):
    """What is displayed, one bundle of MIME types after another."""
    bundles = []
    widget = {WIDGET: {"model_id": "1"}, "text/plain": "VBox(children=())"}
    live = mock.Mock(_repr_mimebundle_=lambda: widget)
    monkeypatch.setattr(Live, "widget", live)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr("IPython.display.display", lambda x, raw: bundles.append(x))
    return bundles


@pytest.mark.parametrize("quiet", ["0", "1"])
def test_the_widget_is_only_shown_where_it_is_live(shown, monkeypatch, quiet):
    monkeypatch.setenv("COURSE_QUIET", quiet)
    found = explore(make, ("h100",), (FLOAT,), (1, 2))
    found._ipython_display_()
    assert [WIDGET in each for each in shown] == [False, True][: 2 - int(quiet)]
    Explorer(found.settings)._ipython_display_()  # read from a file: nothing to ask
    twin = {"text/plain": str(found), "text/html": found._repr_html_()}
    assert shown[-1] == twin and len(shown) == 3 - int(quiet)


def test_without_its_kernel_the_widget_is_one_sentence(shown, monkeypatch):
    monkeypatch.setenv("COURSE_QUIET", "0")
    explore(make, ("h100",), (FLOAT,), (1, 2))._ipython_display_()
    table, widget = shown
    assert "display: none" in table["text/html"] and "<table>" in table["text/html"]
    assert "sliders stand here" in widget["text/plain"] and "VBox" not in str(widget)


def test_what_is_missing_is_said():
    with pytest.raises(InputError, match="function of n"):
        explore(None)
    with pytest.raises(InputError, match="at least one GPU"):
        explore(make, gpus=())


def test_the_width_of_loads_is_read_from_ptx():
    assert widest_load("\t@%p1 ld.global.v4.b32 { %r1 }, [ %rd1 + 0 ];\n") == 16
    assert widest_load("ld.global.b16 %rs1, [x];\nld.global.v2.b32 {a}, [x];\n") == 8
    hint = "ld.global.L1::evict_first.L2::cache_hint.v4.b32 { %r1 }, [ %rd1 ], %rd2;"
    assert widest_load(hint) == 16
    assert widest_load("st.global.v4.b32 [x], {a};") == 0
