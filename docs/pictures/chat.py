"""Creates chat.svg and chat-narrow.svg: a chat with the offline model in tmux, 80 and 46 columns wide.

Run it with `python docs/pictures/chat.py`. It needs tmux and the offline extra.
"""

import io
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURES = {"chat.svg": (80, 60), "chat-narrow.svg": (46, 80)}
"""The columns and rows of the terminal of each picture."""
SAID = (
    # the input, and a text that the screen shows after the answer
    ("How much is 1250 * 0.17?", "212.5"),
    ("Write the text 'hello world' into the file notes.txt", "Allow it?"),
    ("y", "To undo this: /undo"),
    ("/undo", "Undo this?"),
    ("y", "Removed"),
)
BACKGROUND, TEXT, GREY, WHITE = (22, 24, 29), (214, 217, 224), (127, 134, 148), (255, 255, 255)
HUES = ((240, 113, 120), (126, 198, 120), (229, 192, 92), (97, 163, 238), (198, 120, 221), (86, 182, 194))
THEME = TerminalTheme(BACKGROUND, TEXT, [BACKGROUND, *HUES, TEXT], [GREY, *HUES, WHITE])
DRAWING = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img"
  aria-label="A chat at a terminal in which a call is asked about, approved and taken back">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""


def tmux(*arguments: str) -> str:
    """Run a command of a separate tmux server and return its output."""
    command = ["tmux", "-L", "agentkit-picture", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def until(text: str) -> None:
    """Wait until the screen shows a text."""
    for _ in range(1_800):
        if text in tmux("capture-pane", "-p"):
            return
        time.sleep(0.1)
    raise SystemExit(f"{text!r} did not come:\n{tmux('capture-pane', '-p')}")


def conversation(columns: int, rows: int) -> str:
    """The screen at the end of the conversation, with its colours."""
    with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory(prefix="trip-") as folder:
        variables = {"AGENTKIT_STATE": state, "XDG_CONFIG_HOME": state, "PYTHONPATH": str(Path(__file__).parents[2])}
        named = [f"-e{name}={value}" for name, value in variables.items()]
        command = shlex.join([sys.executable, "-m", "agentkit", "chat", "--offline", "-t", "calculator,write_file"])
        tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", folder, *named, command)
        try:
            until("/help")
            for line, answer in SAID:
                tmux("send-keys", "-l", line)
                tmux("send-keys", "Enter")
                until(answer)
                time.sleep(1)
            shown = tmux("capture-pane", "-e", "-p")
        finally:
            tmux("kill-server")
    return re.sub(rf"{re.escape(folder)}", "~/trip", shown)


def drawn(screen: str, columns: int) -> str:
    """Render the screen as an SVG document."""
    lines = screen.rstrip().split("\n")
    while lines and not Text.from_ansi(lines[-2]).plain.strip():
        del lines[-2]  # the empty rows above the last line, which tmux shows at the bottom
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi("\n".join(lines)))
    return console.export_svg(title="agentkit chat --offline", theme=THEME, code_format=DRAWING, unique_id="chat")


if __name__ == "__main__":
    for name, (columns, rows) in PICTURES.items():
        Path(__file__).with_name(name).write_text(drawn(conversation(columns, rows), columns), "utf-8")
