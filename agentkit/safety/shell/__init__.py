"""Judgement of shell commands."""

from agentkit.safety.shell.judge import Judgment, check_examples, examine_command, judge_command, settled

__all__ = ["Judgment", "check_examples", "examine_command", "judge_command", "settled"]
