"""How good is an agent? Cases, scorers and reports with intervals, run in parallel within limits.

A `Suite` of `Case`s is run over agents and models; its `Report` says how often they are right, how sure that is, how
long it took and what it cost, and compares two runs case by case. Nothing is loaded before it is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentkit.evals.case import Case as Case
    from agentkit.evals.case import ExpectedCall as ExpectedCall
    from agentkit.evals.optimizing.candidates import Candidate as Candidate
    from agentkit.evals.optimizing.failures import Failure as Failure
    from agentkit.evals.optimizing.improvement import Improvement as Improvement
    from agentkit.evals.optimizing.optimizer import aoptimize as aoptimize
    from agentkit.evals.optimizing.optimizer import optimize as optimize
    from agentkit.evals.reporting.comparing import Comparison as Comparison
    from agentkit.evals.reporting.figures import Figures as Figures
    from agentkit.evals.reporting.report import Report as Report
    from agentkit.evals.score import Score as Score
    from agentkit.evals.scoring.calls import tool_calls as tool_calls
    from agentkit.evals.scoring.judging import semantic as semantic
    from agentkit.evals.scoring.numbers import numeric as numeric
    from agentkit.evals.scoring.scorer import Scorer as Scorer
    from agentkit.evals.scoring.texts import contains as contains
    from agentkit.evals.scoring.texts import exact as exact
    from agentkit.evals.scoring.texts import json_equal as json_equal
    from agentkit.evals.scoring.texts import matches as matches
    from agentkit.evals.suite import Suite as Suite
    from agentkit.evals.trial import Trial as Trial
    from agentkit.evals.user import SimulatedUser as SimulatedUser

__all__ = [
    "Candidate",
    "Case",
    "Comparison",
    "ExpectedCall",
    "Failure",
    "Figures",
    "Improvement",
    "Report",
    "Score",
    "Scorer",
    "SimulatedUser",
    "Suite",
    "Trial",
    "aoptimize",
    "contains",
    "exact",
    "json_equal",
    "matches",
    "numeric",
    "optimize",
    "semantic",
    "tool_calls",
]


def __getattr__(name: str) -> object:
    """Import what is offered when the first of it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'agentkit.evals' has no attribute {name!r}")
    from agentkit.evals import case, score, suite, trial, user
    from agentkit.evals.optimizing import candidates, failures, improvement, optimizer
    from agentkit.evals.reporting import comparing, figures, report
    from agentkit.evals.scoring import calls, judging, numbers, scorer, texts

    homes = (
        case,
        score,
        suite,
        trial,
        user,
        candidates,
        failures,
        improvement,
        optimizer,
        comparing,
        figures,
        report,
        calls,
        judging,
        numbers,
        scorer,
        texts,
    )
    return next(vars(home)[name] for home in homes if name in vars(home))


def __dir__() -> list[str]:
    return list({*globals(), *__all__})
