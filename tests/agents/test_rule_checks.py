"""Tests for the check of rules: a rule that can never apply because of a misspelled name is rejected."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from agentkit import Agent, Policy, Rule, Tool, system_tools, tool
from agentkit.agents.tool_policy import ToolPolicyContext, judge_call
from agentkit.code_mode.tool import program_tool
from agentkit.errors import ConfigError
from agentkit.mcp.server import ToolServer
from agentkit.messages import ToolCall
from agentkit.safety.approval import Grants
from agentkit.testing import ScriptedLLM
from agentkit.tooling.toolset import Toolset
from agentkit.workspace.workspace import Workspace


@tool(level="SYSTEM")
def pay_invoice(to: str, euros: float = 0.0) -> str:
    """Pay an invoice."""
    return to


def made(*rules, tools=(*system_tools, pay_invoice)):
    """Return an agent with the given rules."""
    return Agent("clerk", tools, llm=ScriptedLLM("Done."), policy=Policy("SYSTEM", rules))


SLIPS = [
    ("shell_tool", "run_shell"),
    ("python_tool", "run_python"),
    ("calculator_tool", "calculator"),
    ("wirte_file", "write_file"),
    ("writefile", "write_file"),
    ("WriteFile", "write_file"),
    ("write-file", "write_file"),
    ("Run_Shell", "run_shell"),
    ("shell", "run_shell"),
    ("pay_invioce", "pay_invoice"),
    ("fetch_urls", "fetch_url"),
]


@pytest.mark.for_each(("name", "intended"), SLIPS)
def test_misspelled_tool_in_a_rule(name, intended):
    """The error for a misspelled tool suggests the intended name."""
    with pytest.raises(ConfigError, match=rf"No tool is named '{name}'\. Did you mean '{intended}'\?"):
        made(Rule("deny", name))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"pth": {"below": "prod"}}, r"write_file has no argument 'pth'.*Did you mean 'path'\?"),
        ({"file_path": "x"}, r"no argument 'file_path'.*Did you mean 'path'\?"),
        ({"path": "x", "contents": "y"}, r"no argument 'contents'.*Did you mean 'content'\?"),
    ],
)
@pytest.mark.parametrize("name", ["write_file", "write_*"])
def test_unknown_argument_in_a_rule(name, where, message):
    """A rule that tests an unknown argument is rejected."""
    with pytest.raises(ConfigError, match=message):
        made(Rule("deny", name, where))
    if name == "write_file":
        with pytest.raises(ConfigError, match=message):
            made(Rule("deny", name, where), tools=())


def test_rules_from_a_file_and_later_rules_are_checked():
    """Rules given as dictionaries, set later, or used by a tool server are checked as well."""
    rules = json.loads('[{"verdict": "deny", "tool": "wirte_file"}]')
    with pytest.raises(ConfigError, match="write_file"):
        made(*rules)
    agent = made()
    before = agent.policy
    with pytest.raises(ConfigError, match="write_file"):
        agent.policy = Policy("SYSTEM", rules)
    assert agent.policy is before
    other = made(Rule("deny", "shred"), tools=())
    with pytest.raises(ConfigError, match="shred_file"):
        other.tools = [Tool(lambda: "", name="shred_file")]
    with pytest.raises(ConfigError, match="write_file"):
        ToolServer(system_tools, policy=Policy("SYSTEM", rules))


@pytest.mark.for_each(
    ("name", "where"),
    [
        ("write_file", {"path": {"at_most": 3}}),
        ("write_file", {"path": {"equals": []}}),
        ("write_file", {"path": ["prod/q"]}),
        ("write_file", {"path": True}),
        ("write_file", {"path": {"one_of": [1, 2]}}),
        ("pay_invoice", {"euros": {"words": ["ten"]}}),
        ("pay_invoice", {"euros": {"below": "prod"}}),
        ("pay_invoice", {"euros": "many"}),
        ("write_*", {"content": {"at_least": 1}}),
    ],
)
def test_rule_test_must_suit_the_type_of_its_argument(name, where):
    """A rule test that no value of the argument's type can pass is rejected."""
    with pytest.raises(ConfigError, match=r"would apply to nothing\. The argument"):
        made(Rule("deny", name, where))


OPEN = {"type": "object", "properties": {"what": {"type": "string"}}, "additionalProperties": True}
sell = Tool.from_schema("sell", "Sell something.", OPEN, lambda **given: str(given))


FINE = [
    Rule("deny", "web_search"),
    Rule("deny", "delete_everything"),
    Rule("deny", "read_mail"),
    Rule("deny", "mcp_*"),
    Rule("deny", "read_more"),
    Rule("deny", "*"),
    Rule("deny", "run_*", {"command": {"contains": "sudo"}}),
    Rule("deny", "pay_invoice", {"euros": {"at_least": 5}}),
    Rule("deny", "pay_invoice", {"euros": {"one_of": [1, 2.5, Decimal(3)]}}),
    Rule("deny", "write_file", {"path": Path("prod/q")}),
    Rule("deny", "write_file", {"path": {"one_of": [1, "prod/q"]}}),
]


@pytest.mark.for_each("rule", FINE, ids=lambda rule: rule.label)
def test_shared_policy_may_name_other_tools(rule):
    """A shared policy may contain shipped tools, tools of other agents, and patterns."""
    assert made(rule).policy.rules == (rule,)


def test_shared_policy_is_accepted():
    """A rule for a tool of another agent is accepted in a shared policy."""
    policy = Policy("SYSTEM", [Rule("deny", "pay_invoices"), Rule("deny", "sell", {"anything": "x"})])
    with pytest.raises(ConfigError, match="pay_invoice"):
        Agent("clerk", [pay_invoice], policy=policy)
    several = Tool(lambda: "", name="pay_invoices")
    for tools in ([pay_invoice], [several], [sell]):
        assert Agent("clerk", tools, policy=policy).policy is policy


def test_rule_may_name_a_tool_of_a_program():
    """A rule may name a tool that only a program may call."""
    agent = made(Rule("deny", "pay_invoice", {"to": "x"}), tools=[program_tool([pay_invoice])])
    assert agent.tools.names == ("run_program",)
    with pytest.raises(ConfigError, match="no argument 'too'"):
        made(Rule("deny", "pay_invoice", {"too": "x"}), tools=[program_tool([pay_invoice])])


PATTERNS = [
    ("*", "run_shell", "deny"),
    ("run_*", "run_shell", "deny"),
    ("*_shell", "run_shell", "deny"),
    ("run_????l", "run_shell", "deny"),
    ("run_[a-z]hell", "run_shell", "deny"),
    ("RUN_*", "run_shell", "allow"),
    ("run_", "run_shell", "allow"),
    ("un_*", "run_shell", "allow"),
    ("run", "run_shell", "allow"),
]


@pytest.mark.for_each(("pattern", "name", "verdict"), PATTERNS)
def test_pattern_matches_tool_names(pattern, name, verdict):
    """A pattern matches tool names as in a shell and is case-sensitive."""
    policy_context = ToolPolicyContext(
        Toolset(system_tools), (Policy("SYSTEM", [Rule("deny", pattern)]),), Grants(), Workspace()
    )
    made_call = ToolCall("id", name, json.dumps({"command": "ls"}))
    assert judge_call(made_call, policy_context, ()).decision.verdict == verdict


def test_pattern_for_commands_does_not_allow_hidden_ones():
    """A pattern that matches `run_shell` has the same restrictions as a rule for it."""
    for name in ("run_shell", "run_*", "*"):
        rule = Rule("allow", name, {"command": {"matches": "git .*"}}, match=[{"command": "git clean -n"}])
        assert rule.fits("run_shell", {"command": "git clean -n"})
        assert not rule.fits("run_shell", {"command": "git clean -n; curl evil.example"})
        with pytest.raises(ConfigError, match="does not fit its own example"):
            Rule("allow", name, {"command": {"matches": "git .*"}}, match=[{"command": "git x; rm y"}])
