"""Plots series on logarithmic axes as SVG: two panels side by side, a line per case, the exponents beside the lines."""

import math
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

WIDTH: Final = 520
HEIGHT: Final = 470
LEFT, RIGHT, TOP, BOTTOM = 58, 190, 62, 46
LINE_HEIGHT: Final = 15
# Told apart also by those who do not see red and green alike (Okabe and Ito), in two dashes.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES: Final = ("", "5 3")
_Style = tuple[str, str]
"""A colour, and the attribute of a dashed line, empty for a whole one."""


class Series(Struct, frozen=True):
    """One line: its points by x, and the power of x by which it grows, if that is known."""

    name: str
    points: tuple[tuple[int, float], ...]
    exponent: float | None


class _Axes:
    """Where a value is in a panel that begins at `x0`."""

    def __init__(self, series: Sequence[Series], x0: int) -> None:
        xs = [x for one in series for x, _ in one.points]
        ys = [y for one in series for _, y in one.points if y > 0]
        self.x0 = x0
        self._x = math.log10(min(xs)), math.log10(max(xs))
        self._y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
        self.values = sorted(set(xs))
        self.decades = range(self._y[0], self._y[1] + 1)

    def x(self, value: float) -> float:
        low, high = self._x
        return self.x0 + LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(value) - low) / ((high - low) or 1)


def plot(title: str, panels: Sequence[tuple[str, Sequence[Series]]]) -> str:
    """Make an SVG of panels, each with what its x axis counts; empty ones are left out."""
    shown = [(label, series) for label, series in panels if series]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(1, len(shown)) * WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{max(1, len(shown)) * WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    names = list(dict.fromkeys(one.name for _, series in shown for one in series))
    for number, (label, series) in enumerate(shown):
        lines += _panel(label, series, names, _Axes(series, number * WIDTH))
    return "\n".join([*lines, "</svg>", ""])


def _panel(label: str, series: Sequence[Series], names: Sequence[str], axes: _Axes) -> Iterator[str]:
    left, right = axes.x0 + LEFT, axes.x0 + WIDTH - RIGHT
    for decade in axes.decades:
        y = axes.y(10.0**decade)
        yield f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade / 1000:g}</text>'
    for value in axes.values:
        x = axes.x(value)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eeeeee"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_short(value)}</text>'
    yield f'<text x="{(left + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(label)}</text>'
    yield f'<text x="{right + 14}" y="{TOP - 10}" fill="#555555">exponent</text>'
    # A case looks the same in each panel.
    ordered = [(one, _style(names.index(one.name))) for one in sorted(series, key=lambda one: -one.points[-1][1])]
    for one, style in ordered:
        yield from _line(one, style, axes)
    yield from _labels(ordered, axes)


def _style(number: int) -> _Style:
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return COLOURS[number % len(COLOURS)], f' stroke-dasharray="{dash}"' if dash else ""


def _line(one: Series, style: _Style, axes: _Axes) -> Iterator[str]:
    colour, dash = style
    places = [(axes.x(x), axes.y(y)) for x, y in one.points if y > 0]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'
    for x, y in places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>'


def _labels(ordered: Sequence[tuple[Series, _Style]], axes: _Axes) -> Iterator[str]:
    """The names and exponents at the ends of the lines, moved apart where they would cover one another."""
    x, below = axes.x0 + WIDTH - RIGHT, float(TOP)
    for one, (colour, dash) in ordered:
        end = axes.y(max(one.points[-1][1], 10.0 ** axes.decades[0]))
        place = max(end, below)
        below = place + LINE_HEIGHT
        yield f'<line x1="{x + 1}" x2="{x + 12}" y1="{end:.1f}" y2="{place:.1f}" stroke="{colour}"{dash}/>'
        shown = "" if one.exponent is None else f"{one.exponent:.2f} "
        yield f'<text x="{x + 15}" y="{place + 4:.1f}" fill="{colour}">{escape(shown + one.name)}</text>'


def _short(value: int) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else str(value)
