"""Judgement of shell commands."""

from agentkit.safety.shell.judge import Judgment, confirm_judgment, examine_command, judge_command

__all__ = ["Judgment", "confirm_judgment", "examine_command", "judge_command"]
