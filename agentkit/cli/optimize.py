"""`agentkit optimize`: improve the texts of an agent with an evaluation suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentkit.cli.eval import scorer_option
from agentkit.cli.loaders import split_target
from agentkit.cli.options import FILE, Fraction, WholeNumber, limits_option
from agentkit.cli.terminal import ANSWERED, FAILED, INTERRUPTED, LIMIT, clean, print_note, quote_word
from agentkit.text_encoding import split_lines

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent
    from agentkit.evals import Improvement
    from agentkit.evals.optimization.search import EvaluatedCandidate

_EXAMPLES = """\b
Examples:
  agentkit optimize suite.py --agent bot.txt --budget 2.00
  agentkit optimize suite.py --agent bot.txt --budget 2 --out improved.txt
  agentkit optimize cases.csv --scorer numeric --tokens 500000
  agentkit optimize suite.py --budget 3 --resume bot.search.jsonl
"""


@click.command("optimize", epilog=_EXAMPLES, short_help="Improve an agent's instruction with its failures.")
@click.argument("suite", metavar="SUITE")
@click.option(
    "--agent", metavar="FILE", help="The agent: a text file, FILE.py, FILE.py:NAME, or a name in the suite's."
)
@click.option("--budget", type=Fraction(0, min_open=True), metavar="DOLLARS", help="The maximum total cost.")
@click.option("--tokens", type=WholeNumber(1), metavar="NUMBER", help="The maximum total number of tokens.")
@limits_option("Another limit. Repeatable.")
@click.option("-m", "--model", metavar="NAME", help="The agent's model.")
@click.option("--offline", is_flag=True, help="Use the offline model as the agent's model.")
@click.option("--proposer", metavar="MODEL", help="The model that writes the texts; by default the agent's model.")
@click.option(
    "--improve", metavar="PART,...", default="instruction", show_default=True, help="instruction, tools, names."
)
@scorer_option
@click.option(
    "--held-out",
    type=Fraction(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="The share of the cases that is held out to measure the gain.",
)
@click.option("--rounds", type=WholeNumber(1), default=20, show_default=True, help="Maximum number of proposals.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the random choices.")
@click.option(
    "--concurrency", type=WholeNumber(1), default=8, show_default=True, help="Maximum number of concurrent runs."
)
@click.option("--out", type=FILE, metavar="FILE", help="Write the improved agent to this new file.")
@click.option("--force", is_flag=True, help="Overwrite the file of --out.")
@click.option(
    "--lineage", type=FILE, metavar="FILE", help="Store the search in this new file; by default AGENT.search.jsonl."
)
@click.option("--resume", type=FILE, metavar="FILE", help="Continue the search in this file.")
def optimize(**options: Any) -> int:
    """Improve the agent by the SUITE: FILE.py, FILE.py:NAME, or a file of cases (.jsonl, .csv).

    A model reads what went wrong in half of the cases and proposes other texts; the gain is measured on the other
    half. The report and the changes go to stdout. Only the search is stored, unless --out names a file for the agent.
    The exit code is 0 when a gain was measured, 1 without one, 3 when a limit ended the search before the measurement.
    """
    if not split_target(options["suite"])[0].is_file():
        raise click.UsageError(f"The file {options['suite']!r} does not exist. Name a suite, or a file of cases.")
    agent, out = options["agent"], options["out"]
    stem = Path((agent or options["suite"]).partition(".py:")[0]).stem
    search = options["resume"] or options["lineage"] or Path(f"{stem}.search.jsonl")
    _check(search=search, **options)
    for name in ("out", "force", "lineage", "resume"):
        del options[name]
    try:
        found = _search(**options, path=search)
    except KeyboardInterrupt:
        print_note(f"Interrupted.\nThe work so far is stored. Continue with: --resume {quote_word(str(search))}")
        return INTERRUPTED
    click.echo(clean("\n\n".join(filter(None, (str(found), found.diff().rstrip("\n"))))))
    print_note(f"The search is stored in {search}", faint=True)
    if found.is_better:
        _write(found, _agent_file(agent), out)
    if found.gain is None or (found.trained_before is None and found.ended.startswith("the limit")):
        return LIMIT
    return ANSWERED if found.is_better else FAILED


def _agent_file(agent: str | None) -> Path | None:
    """The text file of the agent; None if the agent comes from a program or from the settings."""
    path = Path(agent) if agent else None
    return path if path is not None and path.is_file() and path.suffix != ".py" else None


def _check(*, agent: str | None, search: Path, out: Path | None, force: bool, **options: Any) -> None:
    """Raise UsageError for invalid combinations of options."""
    if options["budget"] is None and options["tokens"] is None:
        raise click.UsageError("The search has no limit. Set one: --budget DOLLARS or --tokens NUMBER.")
    if options["offline"] and options["model"]:
        raise click.UsageError("Use --offline or --model, not both: the offline model is another model.")
    if options["lineage"] and options["resume"]:
        raise click.UsageError("Use --lineage for a new search, or --resume to continue one.")
    if options["resume"] is not None and not search.is_file():
        raise click.UsageError(f"The search {str(search)!r} does not exist. Leave --resume out.")
    if options["resume"] is None and search.exists():
        raise click.UsageError(
            f"{search} exists. Continue it with: --resume {search}   Begin another with: --lineage NEWFILE"
        )
    if out is not None and out.exists() and not force:
        raise click.UsageError(f"{out} already exists. Name another file, or overwrite it with --force.")
    if out is not None and _agent_file(agent) is None:
        raise click.UsageError(
            "--out is for agents in text files. For other agents, copy the shown changes into the program."
        )


def _search(
    suite: str, agent: str | None, *, offline: bool, model: str | None, proposer: str | None, **options: Any
) -> Improvement[Any]:
    """Search for better texts. Raises UsageError, ConfigError, NoProvider and SessionError."""
    from agentkit.cli.eval import load_agents, load_suite
    from agentkit.cli.settings import load_settings, parse_limit
    from agentkit.evals import optimize as improved
    from agentkit.usage import UNLIMITED

    settings = load_settings({"provider": "offline" if offline else None, "model": model})
    for note in settings.notes:
        print_note(note, "yellow")
    limits: dict[str, Any] = dict(map(parse_limit, options.pop("limits")))
    limits = {"cost": options.pop("budget"), "total_tokens": options.pop("tokens"), **limits}
    found, others = load_suite(suite, options.pop("scorers"))
    target = _only_agent(load_agents((agent,) if agent else (), others, settings))
    if offline or model:
        target.llm = settings.llm()
    options["improve"] = [part.strip() for part in options["improve"].split(",")]
    llm = settings.llm(proposer) if proposer else None
    return improved(
        target, found, limits=replace(UNLIMITED, **limits), proposer=llm, progress=_print_progress, **options
    )


def _only_agent(agents: Mapping[str, Any]) -> Agent[Any]:
    """The selected agent. Raises UsageError if there are several, or if it is a function."""
    from agentkit.agents.agent import Agent

    if len(agents) > 1:
        raise click.UsageError(f"Several agents can be improved: {', '.join(agents)}. Name one: --agent NAME")
    ((name, agent),) = agents.items()
    if not isinstance(agent, Agent):
        raise click.UsageError(f"{name} is a function, which has no texts to improve. Name an agent.")
    return agent


def _print_progress(tried: EvaluatedCandidate) -> None:
    score = "" if tried.score is None else f", score {tried.score:.2f}"
    label = f"round {tried.candidate.round}" if tried.candidate.round else "the original"
    print_note(f"{label}: {tried.verdict}{score}", faint=True)


def _write(found: Improvement[Any], file: Path | None, out: Path | None) -> None:
    """Write the improved agent if --out is given, and name changes that must be made by hand."""
    from agentkit.evals.report import write_whole

    if any(part != "instruction" for part in found.best.changed(found.original)):
        print_note("Descriptions of tools are part of the tools' code: edit the code as the changes show.", "yellow")
    if out is not None and file is not None:
        write_whole(out, rewrite_instruction(file, found.best.texts.get("instruction")))
        print_note(f"Written: {out}", faint=True)


def rewrite_instruction(file: Path, instruction: str | None) -> str:
    """The text of an agent file with another instruction, if given; the rest is unchanged. Raises ConfigError."""
    from agentkit.agents.agent_file import parse_manifesto
    from agentkit.errors import ConfigError

    lines = split_lines(file.read_bytes().decode("utf-8-sig"))
    old = parse_manifesto("\n".join(lines), file)
    instruction = old.instruction if instruction is None else instruction
    head = "\n".join(lines).rstrip().removesuffix(old.instruction)
    for start in (head, f"name: {old.name}\n\n{head}"):  # without settings, a text could be parsed as settings
        text = f"{start}{instruction.strip()}\n"
        try:
            new = parse_manifesto(text, file)
        except ConfigError:
            continue
        expected = replace(old, instruction=instruction.strip(), tools=new.tools)  # some tools are made for each parse
        if new == expected and new.tools.names == old.tools.names:
            return text
    raise ConfigError(f"The instruction of {file} cannot be replaced automatically. Edit it as the changes show.")
