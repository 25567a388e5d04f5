"""Runs one prompt with one library: `worker.py LIBRARY BASE_URL FOLDER PROMPT`, where that library is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_agentkit(url: str, folder: str, prompt: str) -> None:
    """Run the coding agent of agentkit."""
    from agentkit import LLM
    from agentkit.agents.coding import coding_agent

    llm = LLM(base_url=url, model="m", api_key="none")
    coding_agent(folder, llm=llm, safety="system").run(prompt).raise_for_status()


def run_deepagents(url: str, folder: str, prompt: str) -> None:
    """Run deepagents with the files and the shell of a folder."""
    from deepagents import create_deep_agent
    from deepagents.backends import LocalShellBackend
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=url, model="m", api_key="none")
    backend = LocalShellBackend(root_dir=folder, virtual_mode=True, inherit_env=True)
    agent: Any = create_deep_agent(model=model, backend=backend)
    agent.invoke({"messages": [{"role": "user", "content": prompt}]}, {"recursion_limit": 100})


def run_smolagents(url: str, folder: str, prompt: str) -> None:
    """Run a CodeAgent of smolagents with tools for files and the shell."""
    from smolagents import CodeAgent, OpenAIServerModel, tool

    os.chdir(folder)

    def read_file(path: str) -> str:
        """Read a file in the workspace.

        Args:
            path: The file, relative to the workspace.
        """
        return Path(path).read_text()

    def search_files(pattern: str) -> str:
        """Find the lines of files in the workspace that match a regular expression.

        Args:
            pattern: The regular expression.
        """
        files = [path for path in sorted(Path().rglob("*")) if path.is_file() and path.suffix != ".pyc"]
        lines = [(path, number, line) for path in files for number, line in enumerate(path.read_text().splitlines(), 1)]
        return "\n".join(f"{path}:{number}: {line}" for path, number, line in lines if re.search(pattern, line))

    def edit_file(path: str, old_text: str, new_text: str) -> str:
        """Replace a text in a file of the workspace.

        Args:
            path: The file, relative to the workspace.
            old_text: The text to replace; it occurs once.
            new_text: The replacement.
        """
        Path(path).write_text(Path(path).read_text().replace(old_text, new_text, 1))
        return "edited"

    def write_file(path: str, content: str) -> str:
        """Write a file in the workspace.

        Args:
            path: The file, relative to the workspace.
            content: The whole new content.
        """
        Path(path).write_text(content)
        return "written"

    def run_shell(command: str) -> str:
        """Run a shell command in the workspace.

        Args:
            command: The command.
        """
        done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    tools = [tool(each) for each in (read_file, search_files, edit_file, write_file, run_shell)]
    model = OpenAIServerModel(model_id="m", api_base=url, api_key="none")
    CodeAgent(tools=tools, model=model, verbosity_level=0).run(prompt)


if __name__ == "__main__":
    library, *arguments = sys.argv[1:]
    {"agentkit": run_agentkit, "deepagents": run_deepagents, "smolagents": run_smolagents}[library](*arguments)
