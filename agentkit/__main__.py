"""`python -m agentkit` and the `agentkit` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its code."""
    from agentkit.cli.main import run

    raise SystemExit(run())


if __name__ == "__main__":
    main()
