"""How does a model write a program that calls tools? One tool runs it in the sandbox; each call of it is judged."""

from agentkit.programs.program import ProgramTool as ProgramTool
from agentkit.programs.program import program_tool as program_tool

__all__ = ["ProgramTool", "program_tool"]
