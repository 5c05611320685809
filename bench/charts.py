"""SVG charts: lines over turns, with both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 74, 190, 44, 48
COLOURS = {
    "clew": "#c2410c",
    "clew update": "#f59e0b",
    "raw": "#6b7280",
    "langgraph": "#1d4ed8",
    "langgraph delta": "#60a5fa",
    "agentflow": "#047857",
    "agentflow+redis": "#34d399",
    "llmfy": "#7c3aed",
    "openai": "#be185d",
    "openai sqlalchemy": "#f472b6",
}
OTHER = "#111827"
Points = Sequence[tuple[float, float]]


def chart(title: str, unit: str, lines: Mapping[str, Points]) -> str:
    """Return a chart of `lines`, each with its name at its end; the `unit`
    of the values is "ms" or "B"."""
    points = [point for line in lines.values() for point in line]
    across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, decades=False)
    upward = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, decades=True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold" fill="{OTHER}">{escape(title)}</text>',
    ]
    for value in upward.ticks:
        y = upward.place(value)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(_text(LEFT - 8, y + 4, _label(value, unit), anchor="end"))
    below = HEIGHT - BOTTOM + 18
    parts += [_text(across.place(x), below, f"{x:g}", anchor="middle") for x in sorted({x for x, _ in points})]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "turns", anchor="middle"))
    ends = _apart({name: upward.place(line[-1][1]) for name, line in lines.items() if line})
    for name, line in lines.items():
        colour = COLOURS.get(name, OTHER)
        places = " ".join(f"{across.place(x):.1f},{upward.place(y):.1f}" for x, y in line)
        width = 3 if name.startswith("clew") else 1.5
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [
            f'<circle cx="{across.place(x):.1f}" cy="{upward.place(y):.1f}" r="3" fill="{colour}"/>' for x, y in line
        ]
        told = f"{name}: {_label(line[-1][1], unit)}"
        parts.append(_text(WIDTH - RIGHT + 10, ends[name] + 4, told, colour=colour))
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


def _label(value: float, unit: str) -> str:
    if unit != "B":
        return f"{value:.3g} {unit}"
    for size, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} B"


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#374151") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
