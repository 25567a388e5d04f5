"""Tests for the settings of the Messages protocol."""

import pytest

from agentkit.llm.protocols.anthropic import with_settings

ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def manual(budget):
    """Thinking with a token budget."""
    return {"type": "enabled", "budget_tokens": budget}


# the settings; the fields that are sent
SETTINGS = {
    "nothing": ({}, {}),
    "a limit of other protocols": ({"max_completion_tokens": 5}, {"max_tokens": 5}),
    "a limit of Responses": ({"max_output_tokens": 5}, {"max_tokens": 5}),
    "one stop sequence": ({"stop": "END"}, {"stop_sequences": ["END"]}),
    "several stop sequences": ({"stop": ["A", "B"]}, {"stop_sequences": ["A", "B"]}),
    "a temperature": ({"temperature": 0.0, "top_k": 3}, {"temperature": 0.0, "top_k": 3}),
    "an effort": ({"reasoning_effort": "high"}, {"output_config": {"effort": "high"}, "thinking": ADAPTIVE}),
    "the least effort": ({"reasoning_effort": "minimal"}, {"output_config": {"effort": "low"}, "thinking": ADAPTIVE}),
    "no effort": ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
    "effort and thinking": (
        {"reasoning_effort": "low", "thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}},
    ),
    "a configuration": (
        {"reasoning_effort": "low", "output_config": {"effort": "max"}},
        {"output_config": {"effort": "max"}, "thinking": ADAPTIVE},
    ),
    "a choice": ({"tool_choice": "none", "parallel_tool_calls": False}, {"tool_choice": {"type": "none"}}),
    "one call at most": (
        {"parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "choice in the format of chat": (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "tool", "name": "f"}},
    ),
    "choice in its own format": ({"tool_choice": {"type": "any"}}, {"tool_choice": {"type": "any"}}),
    "a budget": ({"thinking": manual(2_000), "max_tokens": 2_001}, {"thinking": manual(2_000), "max_tokens": 2_001}),
    "a budget above the limit": (
        {"thinking": manual(9_000), "max_tokens": 4_000},
        {"thinking": manual(2_000), "max_tokens": 4_000},
    ),
    "budget larger than the answer": ({"thinking": manual(9_000), "max_tokens": 100}, {"max_tokens": 100}),
}


@pytest.mark.for_each(("settings", "sent"), SETTINGS.values(), ids=SETTINGS)
def test_settings_of_any_protocol_are_translated(settings, sent):
    """Settings of any protocol are translated, and those of this protocol are sent unchanged."""
    body = with_settings({"model": "m"}, settings)
    fields = {name: value for name, value in body.items() if name in sent or name not in {"model", "max_tokens"}}
    assert fields == sent


# the model and the settings; the maximum length of the answer
LIMITS = {
    "model of another vendor": ("qwen3", {}, 16_000),
    "model without thinking": ("claude-haiku-4-5", {}, 16_000),
    "model without thinking at another server": ("anthropic/claude-3-haiku", {}, 16_000),
    "optional thinking": ("claude-opus-4-8", {"reasoning_effort": "low"}, 32_000),
    "thinking with a budget": ("claude-haiku-4-5", {"thinking": manual(20_000)}, 36_000),
    "thinking by default": ("claude-sonnet-5-5", {}, 32_000),
    "disabled thinking": ("claude-sonnet-5-5", {"reasoning_effort": "none"}, 16_000),
    "explicit maximum": ("claude-sonnet-5-5", {"max_tokens": 7}, 7),
}


@pytest.mark.for_each(("model", "settings", "most"), LIMITS.values(), ids=LIMITS)
def test_max_tokens_is_always_sent(model, settings, most):
    """max_tokens is always sent, and includes the tokens of a thinking model's reasoning."""
    assert with_settings({"model": model}, settings)["max_tokens"] == most
