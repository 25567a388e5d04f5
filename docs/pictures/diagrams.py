"""Creates run-loop.svg and layers.svg; the layers are read from pyproject.toml."""

import sys
import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STYLE = """\
<style>
  text { font: 15px system-ui, sans-serif; fill: #1c1e22; } .soft { fill: #5c626c; font-size: 13px; }
  rect { fill: #ffffff; stroke: #8a8f98; rx: 8; } .main { fill: #e9ebfa; stroke: #4453c4; }
  path { stroke: #5c626c; fill: none; marker-end: url(#tip); }
  #tip path { fill: #5c626c; marker-end: none; stroke: none; }
  .paper { fill: #faf9f6; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e4df; } .soft { fill: #9ba1ab; } rect { fill: #1a1d23; stroke: #6b727d; }
    .main { fill: #20244a; stroke: #97a3ff; } path { stroke: #9ba1ab; }
    #tip path { fill: #9ba1ab; } .paper { fill: #121418; }
  }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 L8 4 L0 8 z"/></marker></defs>
"""
LEGEND = "A module imports the rows below its own; modules in one row do not import each other."
STEPS = (
    ("find", "an unknown name gets the closest one"),
    ("validate", "arguments against the schema"),
    ("judge", "allow, ask or deny, with a reason"),
    ("approve", "a person answers an `ask`"),
    ("execute", "in a sandbox, within limits"),
    ("render", "bounded and redacted"),
)


def drawing(width: int, height: int, label: str, parts: list[str]) -> str:
    """An SVG document for light and dark colour schemes."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    return "\n".join(
        [head, STYLE, f'<rect class="paper" width="{width}" height="{height}" rx="0"/>', *parts, "</svg>\n"]
    )


def box(place: tuple[int, int, int, int], title: str, note: str = "", kind: str = "") -> str:
    """A box with a title and an optional note; `place` is x, y, width and height."""
    x, y, width, height = place
    middle, line = x + width // 2, y + height // 2 + (5 if not note else -3)
    text = f'<text x="{middle}" y="{line}" text-anchor="middle" font-weight="600">{escape(title)}</text>'
    more = f'<text class="soft" x="{middle}" y="{line + 19}" text-anchor="middle">{escape(note)}</text>' if note else ""
    shape = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    return shape + text + more


def arrow(path: str, note: str = "", at: tuple[int, int] = (0, 0), anchor: str = "middle") -> str:
    """An arrow along a path, with a note."""
    text = f'<text class="soft" x="{at[0]}" y="{at[1]}" text-anchor="{anchor}">{escape(note)}</text>' if note else ""
    return f'<path d="{path}"/>{text}'


def run_loop() -> str:
    """The diagram of a run: the loop, its driver, the model, and the steps of a tool call."""
    parts = [
        box((20, 20, 200, 56), "Agent.run(prompt)", "run, arun, stream, astream"),
        arrow("M120 76 V118"),
        box((20, 120, 200, 64), "driver", "performs effects"),
        arrow("M220 140 H378", "results", (300, 132)),
        arrow("M380 168 H222", "effects", (300, 186)),
        box((380, 112, 220, 80), "RunLoop", "pure: no I/O, clock or threads", "main"),
        arrow("M600 152 H698", "events", (650, 144)),
        box((700, 120, 200, 64), "Session, listeners", "stored, shown, traced"),
        arrow("M60 184 V258", "ask the model", (68, 226), "start"),
        box((20, 260, 200, 64), "LLM", "provider, fallback, retries"),
        arrow("M190 184 V226 H480 V258", "use tools", (340, 220)),
    ]
    for number, (title, note) in enumerate(STEPS):
        top = 260 + 62 * number
        parts.append(box((340, top, 280, 50), f"{number + 1}  {title}", note, "main" if title == "judge" else ""))
        if number:
            parts.append(arrow(f"M480 {top - 12} V{top - 2}"))
    parts.append(arrow("M620 595 H660 V170 H602", "result", (668, 400), "start"))
    return drawing(920, 640, "The run loop: prompt, model, tool calls with their decisions, and events", parts)


def layers() -> str:
    """The diagram of the package's layers, highest first, from the contract in pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    rows = next(each["layers"] for each in contracts if each["type"] == "layers")
    parts = []
    for number, row in enumerate(rows):
        names, top = row.split(" | "), 16 + 40 * number
        width = 888 // len(names)
        for place, name in enumerate(names):
            parts.append(
                box((16 + width * place, top, width - 6, 32), name.strip(), "", "main" if name == "safety" else "")
            )
    note = f'<text class="soft" x="16" y="{34 + 40 * len(rows)}">{LEGEND}</text>'
    height = 16 + 40 * len(rows)
    return drawing(920, height + 34, "The layers of the package, highest first", [*parts, note])


if __name__ == "__main__":
    for name, text in (("run-loop.svg", run_loop()), ("layers.svg", layers())):
        (HERE / name).write_text(text, "utf-8")
        sys.stdout.write(f"{HERE / name}\n")
