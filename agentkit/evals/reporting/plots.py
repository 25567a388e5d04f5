"""How do figures look? Plots of rectangles, lines and circles, which need no script (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentkit.evals.reporting.figures import Figures
from agentkit.safety.markup import Child, Markup, element
from agentkit.wording import one_line

_WIDTH, _LEFT, _RIGHT, _ROW = 640, 8, 8, 44
_INNER = _WIDTH - _LEFT - _RIGHT
_TICKS = 5
_MOST_NAME_CHARS = 32


def rates(figures: Sequence[Figures]) -> Markup:
    """The success rate of each agent as a bar, with its interval as a line across its end."""
    rows: list[Child] = []
    for index, each in enumerate(figures):
        top, rate = index * _ROW, each.rate
        rows += [
            _label(each.agent, str(rate) if rate.trials else "not done", top),
            element("rect", x=_LEFT, y=top + 20, width=_INNER, height=12, rx=2, class_="well"),
            element("rect", x=_LEFT, y=top + 20, width=_scaled(rate.value, 1.0), height=12, rx=2, class_="rate"),
            _line(_at(rate.low, 1.0), _at(rate.high, 1.0), top + 26),
            *(_line(_at(end, 1.0), _at(end, 1.0), top + 21, top + 31) for end in (rate.low, rate.high)),
        ]
    marks = [(share / 4, f"{25 * share} %") for share in range(5)]
    return _plot(rows, len(figures), marks, 1.0, "Success rates, with 95 % intervals; the table above says the same")


def latencies(figures: Sequence[Figures]) -> Markup | None:
    """How long each answer took, as a dot; the median as a line. None when nothing was answered."""
    longest = max((each.seconds[-1] for each in figures if each.seconds), default=0.0)
    if longest <= 0:
        return None
    step = _step(longest)
    most = step * math.ceil(longest / step)
    rows: list[Child] = []
    for index, each in enumerate(figures):
        top, median = index * _ROW, each.latency(0.5)
        rows += [
            _label(each.agent, f"median {median:.2f} s, 90 % within {each.latency(0.9):.2f} s", top),
            *(element("circle", cx=_at(seconds, most), cy=top + 28, r=4, class_="dot") for seconds in each.seconds),
            _line(_at(median, most), _at(median, most), top + 20, top + 36),
        ]
    marks = [(step * count, f"{step * count:g} s") for count in range(round(most / step) + 1)]
    return _plot(rows, len(figures), marks, most, "Seconds to each answer; the table above has median and 90 %")


def _plot(rows: list[Child], count: int, marks: list[tuple[float, str]], most: float, told: str) -> Markup:
    height = count * _ROW
    grid: list[Child] = []
    for value, word in marks:
        x = _at(value, most)
        anchor = "start" if value == 0 else "end" if value >= most else "middle"
        grid.append(element("line", x1=x, x2=x, y1=4, y2=height, class_="grid"))
        grid.append(element("text", word, x=x, y=height + 16, text_anchor=anchor, class_="tick"))
    return element("svg", grid, rows, viewBox=f"0 0 {_WIDTH} {height + 22}", role="img", aria_label=told)


def _label(name: str, figure: str, top: float) -> Child:
    return [
        element("text", one_line(name, _MOST_NAME_CHARS), x=_LEFT, y=top + 14),
        element("text", figure, x=_WIDTH - _RIGHT, y=top + 14, text_anchor="end", class_="figure"),
    ]


def _line(x1: float, x2: float, y1: float, y2: float | None = None) -> Markup:
    return element("line", x1=x1, x2=x2, y1=y1, y2=y1 if y2 is None else y2, class_="interval")


def _step(longest: float) -> float:
    """A round interval between the ticks of the axis, so that there are only a few up to the longest time."""
    rough = longest / _TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * step for step in (1, 2, 5, 10) if size * step >= rough)


def _scaled(value: float, most: float) -> float:
    return round(_INNER * value / most, 1)


def _at(value: float, most: float) -> float:
    return round(_LEFT + _scaled(value, most), 1)
