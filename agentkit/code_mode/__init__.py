"""Code mode: the model writes a program that calls tools in the sandbox."""

from agentkit.code_mode.tool import ProgramTool as ProgramTool
from agentkit.code_mode.tool import program_tool as program_tool

__all__ = ["ProgramTool", "program_tool"]
