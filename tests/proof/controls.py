"""Moves each slider, list, button and fold of a page, and looks what changes."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

AREA = ".jp-Cell-outputArea"  # all outputs of one cell
CONTROLS = {
    "slider": ".noUi-handle",
    "list": "select",
    "button": "button",
    "box": "input[type=checkbox], input[type=radio]",
}
FOLD = "details > summary"
PATIENCE = 60_000  # milliseconds: what is moved may compile first
# The toolbar shows an idle kernel before there is one, so this asks for both.
IDLE = """() => {
  if (!window.jupyterapp) return true;  // a page without a kernel
  const kernel = jupyterapp.shell?.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""
# What a reader looks at: pictures and tables, or else the text beside the controls,
# whose own readings change whether anything listens or not.
LOOK = """async (area) => {
  const own = 'button, select, .widget-slider, .widget-dropdown';
  const seen = [...area.querySelectorAll('table, pre, img, svg, canvas')]
      .filter(part => !part.closest(own));
  if (!seen.length) {
    const copy = area.cloneNode(true);
    copy.querySelectorAll(own).forEach(control => control.remove());
    return copy.textContent;
  }
  const look = async (part) => {
    if (part.tagName !== 'IMG' && part.tagName !== 'CANVAS') return part.outerHTML;
    if (part.tagName === 'IMG') await part.decode().catch(() => null);
    const drawn = document.createElement('canvas');
    drawn.width = part.naturalWidth || part.width;
    drawn.height = part.naturalHeight || part.height;
    drawn.getContext('2d').drawImage(part, 0, 0);
    return drawn.toDataURL();
  };
  return (await Promise.all(seen.map(look))).join('\\n');
}"""


@dataclass(frozen=True)
class Move:
    """A control that was moved, and what is wrong with what came of it, if anything."""

    control: str
    wrong: str = ""


def move_all(page: Page, patience: int = PATIENCE) -> list[Move]:
    """Move each control in each output, and fold and unfold what folds."""
    found = []
    for area in page.locator(AREA).all():
        for kind, selector in CONTROLS.items():
            for control in area.locator(selector).all():
                if control.is_visible() and control.is_enabled():
                    wrong = _moved(page, area, kind, control, patience)
                    found.append(Move(kind, wrong))
        folds = [each for each in area.locator(FOLD).all() if each.is_visible()]
        found += [Move("fold", _folded(area, fold)) for fold in folds]
    return found


def _moved(
    page: Page, area: Locator, kind: str, control: Locator, patience: int
) -> str:
    from playwright.sync_api import Error

    before, said = area.evaluate(LOOK), area.inner_text()
    name = f"a {kind} beside {' '.join(said.split())[:40]!r}"
    try:
        _move(kind, control)
        if not _changed(page, area, before, patience):
            return f"{name} changes neither picture nor table nor text"
        page.wait_for_function(IDLE, timeout=patience)
    except Error as error:
        return f"{name}: {error.message.splitlines()[0]}"
    raised = set(_errors(area.inner_text())) - set(_errors(said))
    return f"{name} ends in {', '.join(raised)}" if raised else ""


def _changed(page: Page, area: Locator, before: str, patience: int) -> bool:
    until = time.monotonic() + patience / 1000
    while area.evaluate(LOOK) == before:
        if time.monotonic() > until:
            return False
        page.wait_for_timeout(200)
    return True


def _errors(text: str) -> list[str]:
    return re.findall(r"\b\w*(?:Error|Exception)\b", text)


def _move(kind: str, control: Locator) -> None:
    if kind == "slider":
        at_the_end = control.get_attribute("aria-valuenow") == control.get_attribute(
            "aria-valuemax"
        )
        control.focus()
        control.press("ArrowLeft" if at_the_end else "ArrowRight")
    elif kind == "list":
        state = "node => [node.selectedIndex, node.options.length]"
        chosen, options = control.evaluate(state)
        control.select_option(index=(chosen + 1) % options)
    else:
        control.click()


def _folded(area: Locator, fold: Locator) -> str:
    """Click twice; the text that can be seen must differ in between."""
    title = fold.inner_text()[:40]
    texts = [area.inner_text()]
    for _ in range(2):
        fold.click()
        texts.append(area.inner_text())
    return "" if texts[0] != texts[1] else f"the fold {title!r} folds nothing"
