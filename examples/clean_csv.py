"""Clean a CSV file with Python code that the model writes, and that runs without access to files and network.

python clean_csv.py [FILE.csv] > cleaned.csv        reads standard input by default
"""

import csv
import sys
from ast import literal_eval
from pathlib import Path

from agentkit import Agent, AgentKitError
from agentkit.tools.system import python_tool_with


def main(path: str = "/dev/stdin") -> None:
    """Print the cleaned rows, and a summary of the changes to standard error."""
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    python, cleaned = python_tool_with(sandbox="required"), [tuple(row.values()) for row in table]

    def clean_table(code: str) -> str:
        """Clean all rows with code that defines clean(row): from a dict of texts to one with these keys, or to None."""
        done: list[dict[str, str] | None] = []
        for start in range(0, len(table), 50):  # the output of one snippet is limited
            result = python(code=f"{code}\nprint([clean(row) for row in {table[start : start + 50]}])")
            if result["status"] != "ok":
                raise ValueError(result.get("error", result["status"]))
            done += literal_eval(result["output"])
        cleaned[:] = dict.fromkeys(tuple(row[key] for key in table[0]) for row in done if row)
        return f"{len(table)} rows became {len(cleaned)} without doubles: {cleaned[:20]}"

    print(Agent("cleaner", [clean_table], "Clean all of it.")(f"It begins with {table[:20]}"), file=sys.stderr)
    csv.writer(sys.stdout).writerows([*table[:1], *cleaned])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except (AgentKitError, OSError) as error:
        sys.exit(f"Error: {error}")
