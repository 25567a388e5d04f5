"""How good is an agent? Cases, scorers and reports with intervals, run in parallel within limits.

A `Suite` of `Case`s is run over agents and models; its `Report` says how often they are right, how sure that is, how
long it took and what it cost, and compares two runs case by case.
"""

from agentkit.evals.case import Case, ExpectedCall
from agentkit.evals.optimizing.candidates import Candidate
from agentkit.evals.optimizing.failures import Failure
from agentkit.evals.optimizing.improvement import Improvement
from agentkit.evals.optimizing.optimizer import aoptimize, optimize
from agentkit.evals.reporting.comparing import Comparison
from agentkit.evals.reporting.figures import Figures
from agentkit.evals.reporting.report import Report
from agentkit.evals.score import Score
from agentkit.evals.scoring.calls import tool_calls
from agentkit.evals.scoring.judging import semantic
from agentkit.evals.scoring.numbers import numeric
from agentkit.evals.scoring.scorer import Scorer
from agentkit.evals.scoring.texts import contains, exact, json_equal, matches
from agentkit.evals.suite import Suite
from agentkit.evals.trial import Trial
from agentkit.evals.user import SimulatedUser

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
