"""`agentkit optimize`: improve the texts of an agent with an evaluation suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentkit._dataclass import dataclass
from agentkit.cli.completion import limits_option
from agentkit.cli.eval import scorers_of_a_file
from agentkit.cli.terminal import ANSWERED, FAILED, INTERRUPTED, LIMIT, shown_word, tell
from agentkit.cli.tools import Fraction, WholeNumber
from agentkit.lines import split_lines

if TYPE_CHECKING:
    from agentkit.agents.agent import Agent
    from agentkit.evals import Improvement
    from agentkit.evals.optimization.search import EvaluatedCandidate
    from agentkit.usage import Limits

_EXAMPLES = """\b
Examples:
  agentkit optimize suite.py --agent bot.txt --budget 2.00
  agentkit optimize suite.py --agent bot.txt --budget 2.00 --proposer gpt-5.4 --out improved.txt
  agentkit optimize cases.csv --scorer numeric --agent bot.txt -m ollama:qwen3 --tokens 500000
  agentkit optimize suite.py --agent bot.txt --budget 3.00 --resume bot.search.jsonl
"""
_FILE = click.Path(path_type=Path)


@click.command("optimize", epilog=_EXAMPLES, short_help="Improve an agent's instruction with its failures.")
@click.argument("suite", metavar="SUITE")
@click.option(
    "--agent", metavar="FILE", help="The agent: a text file, FILE.py, FILE.py:NAME, or a name in the suite's."
)
@click.option("--budget", type=Fraction(0, min_open=True), metavar="DOLLARS", help="What all of it may cost.")
@click.option("--tokens", type=WholeNumber(1), metavar="NUMBER", help="How many tokens all of it may take.")
@limits_option("What else it may take. Repeatable.")
@click.option("-m", "--model", metavar="NAME", help="The agent's model.")
@click.option("--offline", is_flag=True, help="The agent's model is the one in the offline extra.")
@click.option("--proposer", metavar="MODEL", help="The model that writes the texts; the agent's own by default.")
@click.option(
    "--improve", metavar="PART,...", default="instruction", show_default=True, help="instruction, tools, names."
)
@scorers_of_a_file
@click.option(
    "--held-out",
    type=Fraction(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="The share of the cases that the gain is measured on.",
)
@click.option("--rounds", type=WholeNumber(1), default=20, show_default=True, help="Proposals at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the random choices.")
@click.option("--concurrency", type=WholeNumber(1), default=8, show_default=True, help="Runs at the same time.")
@click.option(
    "--out", type=_FILE, metavar="FILE", help="Write the improved agent there; not over a file that is there."
)
@click.option("--force", is_flag=True, help="Write over the file that --out names.")
@click.option(
    "--lineage", type=_FILE, metavar="FILE", help="Store the search in this new file; by default AGENT.search.jsonl."
)
@click.option("--resume", type=_FILE, metavar="FILE", help="Go on with the search in this file.")
def optimize(**options: Any) -> int:
    """Improve the agent by the SUITE: FILE.py, FILE.py:NAME, or a file of cases (.jsonl, .csv).

    A model reads what went wrong in half of the cases and proposes other texts; what is gained is measured on the other
    half. The report and the changes go to stdout, and nothing is written but the search itself, unless --out says so.
    The exit code is 0 when a gain was measured, 1 when there is none, 3 when a limit left it unmeasured.
    """
    return _run(_OptimizeOptions(**options))


@dataclass(frozen=True, slots=True, kw_only=True)
class _OptimizeOptions:
    """The options as given on the command line. Raises UsageError for invalid combinations."""

    suite: str
    agent: str | None
    budget: float | None
    tokens: int | None
    limits: tuple[str, ...]
    model: str | None
    offline: bool
    proposer: str | None
    improve: str
    scorers: tuple[str, ...]
    held_out: float
    rounds: int
    seed: int
    concurrency: int
    out: Path | None
    force: bool
    lineage: Path | None
    resume: Path | None

    def __post_init__(self) -> None:
        if self.budget is None and self.tokens is None:
            raise click.UsageError("The search has no limit. Set one: --budget DOLLARS or --tokens NUMBER.")
        if self.offline and self.model:
            raise click.UsageError("Use --offline or --model, not both: the offline model is another model.")
        if self.lineage and self.resume:
            raise click.UsageError("Use --lineage for a new search, or --resume to continue one.")
        if self.resume is not None and not self.resume.is_file():
            raise click.UsageError(f"There is no search {str(self.resume)!r} to go on with. Leave --resume out.")
        if self.resume is None and self.kept.exists():
            raise click.UsageError(
                f"{self.kept} exists. Continue it with: --resume {self.kept}   Begin another with: --lineage NEWFILE"
            )
        if self.out is not None and self.out.exists() and not self.force:
            raise click.UsageError(f"{self.out} already exists. Name another file, or overwrite it with --force.")
        if self.out is not None and self.file is None:
            raise click.UsageError(
                "--out is for agents in text files. The changes of others are shown: put them into it."
            )

    @property
    def file(self) -> Path | None:
        """The text file of the agent; None if the agent comes from a program or from the settings."""
        path = Path(self.agent) if self.agent else None
        return path if path is not None and path.is_file() and path.suffix != ".py" else None

    @property
    def kept(self) -> Path:
        """The file that stores the search."""
        stem = Path((self.agent or self.suite).partition(".py:")[0]).stem
        return self.resume or self.lineage or Path(f"{stem}.search.jsonl")

    @property
    def all_limits(self) -> Limits:
        """The limits of the whole search. Raises ConfigError."""
        from agentkit.cli.settings import limit_of
        from agentkit.usage import UNLIMITED

        given: dict[str, Any] = dict(map(limit_of, self.limits))
        return replace(UNLIMITED, **{"cost": self.budget, "total_tokens": self.tokens, **given})


def _run(wanted: _OptimizeOptions) -> int:
    """Search, print the report and write the requested files; return the exit code."""
    from agentkit.cli.display import clean
    from agentkit.cli.eval import agents_in, suite_in
    from agentkit.cli.settings import settings_here
    from agentkit.evals import optimize as improved

    settings = settings_here({"provider": "offline" if wanted.offline else None, "model": wanted.model})
    for note in settings.notes:
        tell(note, "yellow")
    suite, beside = suite_in(wanted.suite, wanted.scorers)
    agent = _only_agent(agents_in((wanted.agent,) if wanted.agent else (), beside, settings))
    if wanted.offline or wanted.model:
        agent.llm = settings.llm()
    try:
        found = improved(
            agent,
            suite,
            limits=wanted.all_limits,
            proposer=settings.llm(wanted.proposer) if wanted.proposer else None,
            improve=[part.strip() for part in wanted.improve.split(",")],
            held_out=wanted.held_out,
            rounds=wanted.rounds,
            seed=wanted.seed,
            concurrency=wanted.concurrency,
            path=wanted.kept,
            progress=_tell_progress,
        )
    except KeyboardInterrupt:
        tell(f"Interrupted.\nThe work so far is stored. Continue with: --resume {shown_word(str(wanted.kept))}")
        return INTERRUPTED
    changes = found.diff()
    click.echo(clean("\n\n".join(filter(None, (str(found), changes.rstrip("\n"))))))
    tell(f"The search is kept in {wanted.kept}", faint=True)
    _write(wanted, found)
    return _exit_code(found)


def _only_agent(agents: Mapping[str, Any]) -> Agent[Any]:
    """The selected agent. Raises UsageError if there are several, or if it is a function."""
    from agentkit.agents.agent import Agent

    if len(agents) > 1:
        raise click.UsageError(f"Which agent is meant: {', '.join(agents)}? Name one: --agent NAME")
    ((name, agent),) = agents.items()
    if not isinstance(agent, Agent):
        raise click.UsageError(f"{name} is a function, which has no texts to improve. Name an agent.")
    return agent


def _tell_progress(tried: EvaluatedCandidate) -> None:
    score = "" if tried.score is None else f", score {tried.score:.2f}"
    what = f"round {tried.candidate.round}" if tried.candidate.round else "the original"
    tell(f"{what}: {tried.verdict}{score}", faint=True)


def _write(wanted: _OptimizeOptions, found: Improvement[Any]) -> None:
    """Write the improved agent if --out is given, and name changes that must be made by hand."""
    from agentkit.evals.report import write_whole

    if not found.is_better:
        return
    if any(part != "instruction" for part in found.best.changed(found.original)):
        tell("Descriptions of tools stand in the code of the tools: put them there, as the changes show.", "yellow")
    if wanted.out is not None and wanted.file is not None:
        write_whole(wanted.out, rewritten(wanted.file, found.best.texts.get("instruction")))
        tell(f"Written: {wanted.out}", faint=True)


def rewritten(file: Path, instruction: str | None) -> str:
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
        wanted = replace(old, instruction=instruction.strip(), tools=new.tools)  # some tools are made for each parse
        if new == wanted and new.tools.names == old.tools.names:
            return text
    raise ConfigError(f"The instruction of {file} cannot be replaced. Put it there yourself, as the changes show.")


def _exit_code(found: Improvement[Any]) -> int:
    """The exit code for the result of a search."""
    is_cut_off = found.trained_before is None and found.ended.startswith("the limit")
    if found.gain is None or is_cut_off:
        return LIMIT
    return ANSWERED if found.is_better else FAILED
