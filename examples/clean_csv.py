"""Clean a CSV file: the model writes Python for it, which runs where it can reach neither files nor network.

python clean_csv.py [FILE.csv] > cleaned.csv        without a file it reads standard input
"""

import csv
import sys
from ast import literal_eval
from pathlib import Path

from agentkit import Agent, AgentKitError
from agentkit.tools.system import python_tool_with


def main(path: str = "/dev/stdin") -> None:
    """Print the cleaned rows; what was changed goes to standard error."""
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    python, cleaned = python_tool_with(sandbox="required"), [tuple(row.values()) for row in table]

    def clean_table(code: str) -> str:
        """Clean all rows with code that defines clean(row): from a dict of texts to one with these keys, or to None."""
        done: list[dict[str, str] | None] = []
        for start in range(0, len(table), 50):  # what one snippet may print is bounded
            told = python(code=f"{code}\nprint([clean(row) for row in {table[start : start + 50]}])")
            if told["status"] != "ok":
                raise ValueError(told.get("error", told["status"]))
            done += literal_eval(told["output"])
        cleaned[:] = dict.fromkeys(tuple(row[key] for key in table[0]) for row in done if row)
        return f"{len(table)} rows became {len(cleaned)} without doubles: {cleaned[:20]}"

    print(Agent("cleaner", [clean_table], "Clean all of it.")(f"It begins with {table[:20]}"), file=sys.stderr)
    csv.writer(sys.stdout).writerows([*table[:1], *cleaned])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (AgentKitError, OSError) as error:
        sys.exit(f"Nothing cleaned: {error}")
