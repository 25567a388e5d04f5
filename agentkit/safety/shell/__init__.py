"""Which shell commands may run?"""

from agentkit.safety.shell.judge import check_examples, judge_command

__all__ = ["check_examples", "judge_command"]
