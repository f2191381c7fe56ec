"""Draws the stack of torch.compile, once for each part that a lesson is about.

    python notebooks/figures/stack.py      # writes the stack*.svg here

Text stays text, so it can be searched and read aloud.  The white ground keeps
it readable on a dark page.
"""

from pathlib import Path

# Name, what it does, and what it hands on to the next.
PARTS = {
    "python": ("your Python", "a call", ""),
    "dynamo": ("Dynamo", "reads bytecode", "FX graph"),
    "aotautograd": ("AOTAutograd", "adds the backward", "aten graphs"),
    "inductor": ("Inductor", "fuses loops", "source code"),
    "kernels": ("kernels", "C++ or Triton", ""),
}
WIDTH, HEIGHT, GAP, TOP = 132, 58, 24, 56
BLUE, PALE, DARK = "#0072B2", "#E8EEF3", "#222222"


def box(number: int, title: str, does: str, marked: bool) -> str:
    """Return one part as a box, filled when it is the one in question."""
    x, middle = (
        12 + number * (WIDTH + GAP),
        12 + number * (WIDTH + GAP) + WIDTH / 2,
    )
    fill, ink = (BLUE, "white") if marked else (PALE, DARK)
    return f"""\
<rect x="{x}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" rx="6"
 fill="{fill}"/>
<text x="{middle}" y="{TOP + 25}" fill="{ink}" font-weight="bold">{title}
</text>
<text x="{middle}" y="{TOP + 45}" fill="{ink}" font-size="13">{does}</text>
"""


def arrow(number: int, label: str) -> str:
    """Return the arrow behind a box, and below it what is handed on."""
    x, y = 12 + (number + 1) * (WIDTH + GAP) - GAP, TOP + HEIGHT / 2
    words = (
        f'<text x="{x + GAP / 2}" y="{TOP + HEIGHT + 20}" fill="{DARK}" '
        f'font-size="13">{label}</text>\n'
    )
    return (
        f'<path d="M{x + 3} {y} H{x + GAP - 9}" stroke="{DARK}" '
        'stroke-width="2"/>\n'
        f'<path d="M{x + GAP - 3} {y} l-8 -5 v10 z" fill="{DARK}"/>\n'
        f"{words if label else ''}"
    )


def guards(marked: bool) -> str:
    """Return the way of a later call, past the compiler."""
    start, end = 12 + WIDTH / 2, 12 + 4 * (WIDTH + GAP) + WIDTH / 2
    ink, width = (BLUE, 3) if marked else (DARK, 1.5)
    style = f'stroke="{ink}" stroke-width="{width}" fill="none"'
    words = "a later call, while its guards hold"
    weight = ' font-weight="bold"' if marked else ""
    return (
        f'<path d="M{start} {TOP - 4} V36 H{end} V{TOP - 10}" {style}/>\n'
        f'<path d="M{end} {TOP - 4} l-5 -8 h10 z" fill="{ink}"/>\n'
        f'<text x="{(start + end) / 2}" y="26" fill="{ink}"{weight}>'
        f"{words}</text>\n"
    )


def stack(*marked: str) -> str:
    """Return the picture as SVG, with the *marked* parts filled."""
    shapes = [guards("guards" in marked)]
    for number, (name, (title, does, hands_on)) in enumerate(PARTS.items()):
        shapes.append(box(number, title, does, name in marked))
        if number < len(PARTS) - 1:
            shapes.append(arrow(number, hands_on))
    width, height = 24 + 5 * WIDTH + 4 * GAP, TOP + HEIGHT + 34
    title = "The stack of torch.compile"
    if marked:
        title += f", marked: {', '.join(marked)}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="15" text-anchor="middle">\n'
        f"<title>{title}</title>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="white"/>\n'
        f"{''.join(shapes)}</svg>\n"
    )


def pictures() -> dict[str, str]:
    """Return the name and the text of each file."""
    named = {"stack.svg": stack(*PARTS)}
    return named | {
        f"stack-{part}.svg": stack(part) for part in (*PARTS, "guards")
    }


if __name__ == "__main__":
    for name, text in pictures().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
