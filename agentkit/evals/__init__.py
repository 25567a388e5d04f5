"""Evaluations: cases, scorers and reports with confidence intervals, run in parallel within limits.

A `Suite` of `Case`s is run over agents and models. Its `Report` contains success rates with intervals, latency and
cost, and compares two runs case by case.
"""

from agentkit.evals.case import Case, ExpectedCall, Score
from agentkit.evals.metrics import Metrics
from agentkit.evals.optimization.candidates import Candidate, FailedCase
from agentkit.evals.optimization.optimizer import Improvement, aoptimize, optimize
from agentkit.evals.report import Comparison, Report
from agentkit.evals.scorers import Scorer, contains, exact, json_equal, matches, numeric, semantic, tool_calls
from agentkit.evals.simulated_user import SimulatedUser
from agentkit.evals.suite import Suite
from agentkit.evals.trial import Trial

__all__ = [
    "Candidate",
    "Case",
    "Comparison",
    "ExpectedCall",
    "FailedCase",
    "Improvement",
    "Metrics",
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
