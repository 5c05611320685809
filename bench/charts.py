"""SVG charts for light and dark pages: lines over turns with logarithmic axes, and bars."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 74, 190, 44, 48
COLOURS = {
    "clew": ("#c2410c", "#fb923c"),
    "clew update": ("#b45309", "#fbbf24"),
    "raw": ("#6b7280", "#9ca3af"),
    "langgraph": ("#1d4ed8", "#60a5fa"),
    "langgraph delta": ("#0369a1", "#7dd3fc"),
    "agentflow": ("#047857", "#34d399"),
    "agentflow+redis": ("#0f766e", "#5eead4"),
    "llmfy": ("#7c3aed", "#a78bfa"),
    "openai": ("#be185d", "#f472b6"),
    "openai sqlalchemy": ("#9d174d", "#f9a8d4"),
}
"""Colours of lines and bars, on light and on dark pages."""
OTHER = ("#111827", "#f3f4f6")
PAPER, INK, NOTE, GRID = ("#ffffff", "#14151a"), OTHER, ("#374151", "#c9ccd3"), ("#e5e7eb", "#33363f")
Points = Sequence[tuple[float, float]]


def style(names: Iterable[str]) -> str:
    """Return the style sheet of a picture: its own background, so that it is readable on any page."""
    both = {"paper": PAPER, "ink": INK, "note": NOTE, "grid": GRID, **{_css(n): COLOURS.get(n, OTHER) for n in names}}
    rules = [
        "".join(f".{name}{{fill:{each[shade]};stroke:{each[shade]}}}" for name, each in both.items())
        for shade in (0, 1)
    ]
    return f"<style>text{{stroke:none!important}}{rules[0]}@media (prefers-color-scheme:dark){{{rules[1]}}}</style>"


def _css(name: str) -> str:
    return re.sub(r"[^a-z]+", "-", name)


def chart(title: str, unit: str, lines: Mapping[str, Points]) -> str:
    """Return a chart of `lines`, each with its name at its end; the `unit`
    of the values is "ms" or "B"."""
    points = [point for line in lines.values() for point in line]
    across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, decades=False)
    upward = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, decades=True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        style(lines),
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="ink" x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for value in upward.ticks:
        y = upward.place(value)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 8, y + 4, label(value, unit), anchor="end"))
    below = HEIGHT - BOTTOM + 18
    parts += [_text(across.place(x), below, f"{x:g}", anchor="middle") for x in sorted({x for x, _ in points})]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "turns", anchor="middle"))
    ends = _apart({name: upward.place(line[-1][1]) for name, line in lines.items() if line})
    for name, line in lines.items():
        kind = _css(name)
        places = " ".join(f"{across.place(x):.1f},{upward.place(y):.1f}" for x, y in line)
        width = 3 if name.startswith("clew") else 1.5
        parts.append(f'<polyline class="{kind}" points="{places}" style="fill:none" stroke-width="{width}"/>')
        parts += [
            f'<circle class="{kind}" cx="{across.place(x):.1f}" cy="{upward.place(y):.1f}" r="3"/>' for x, y in line
        ]
        told = f"{name}: {label(line[-1][1], unit)}"
        parts.append(_text(WIDTH - RIGHT + 10, ends[name] + 4, told, kind=kind))
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """A logarithmic scale between two ends."""

    def __init__(self, values: Sequence[float], begin: float, end: float, *, decades: bool) -> None:
        low, high = min(values), max(values)
        if decades:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
        self._low = math.log(low)
        self._span = (math.log(high) - self._low) or 1.0
        self._begin, self._length = begin, end - begin
        self.ticks = (
            [10**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)] if decades else []
        )

    def place(self, value: float) -> float:
        return self._begin + (math.log(value) - self._low) / self._span * self._length


def _apart(places: Mapping[str, float], *, least: float = 15) -> dict[str, float]:
    """Return `places`, moved down where two would overlap."""
    found: dict[str, float] = {}
    last = -least
    for name, place in sorted(places.items(), key=lambda each: each[1]):
        last = found[name] = max(place, last + least)
    return found


def label(value: float, unit: str) -> str:
    """Return a value with its unit: "2.61 MB", "0.824 ms", "11,369/s"."""
    if unit == "/s":
        return f"{value:,.0f}/s"
    if unit != "B":
        return f"{value:.3g} {unit}"
    for size, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} B"


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "note") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def bars(title: str, unit: str, values: Mapping[str, float], names: Mapping[str, str]) -> str:
    """Return a chart with a horizontal bar for each of `values`, in proportion. `names` are what the bars are called."""
    height = TOP + 34 * len(values) + 14
    begin, longest = 190, 420
    scale = longest / max(values.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        style(values),
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="ink" x="20" y="26" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for row, (name, value) in enumerate(values.items()):
        y = TOP + 34 * row
        length = max(value * scale, 2)
        parts.append(_text(begin - 12, y + 18, names.get(name, name), anchor="end"))
        parts.append(f'<rect class="{_css(name)}" x="{begin}" y="{y + 2}" width="{length:.1f}" height="24" rx="2"/>')
        parts.append(_text(begin + length + 8, y + 18, label(value, unit), kind="ink"))
    return "\n".join([*parts, "</svg>", ""])
