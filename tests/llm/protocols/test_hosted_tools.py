"""Tests for the declaration of hosted tools and the report of their use, for each protocol."""

import json

import pytest

from agentkit import LLM
from agentkit.errors import BadResponse, ConfigError
from agentkit.llm.protocols.hosted_tools import declaration_of, uses_in_blocks, uses_in_items, uses_in_message
from agentkit.testing import FakeServer, raw
from agentkit.tools.hosted import HostedTool

DECLARED = [
    (HostedTool("web_search"), "responses", {"type": "web_search"}),
    (HostedTool("web_search"), "messages", {"type": "web_search_20250305", "name": "web_search"}),
    (
        HostedTool("web_search", allowed_domains=["who.int"]),
        "responses",
        {"type": "web_search", "filters": {"allowed_domains": ["who.int"]}},
    ),
    (
        HostedTool("web_search", allowed_domains=["who.int"], max_uses=2),
        "messages",
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["who.int"], "max_uses": 2},
    ),
    (HostedTool("code_execution"), "responses", {"type": "code_interpreter", "container": {"type": "auto"}}),
    (HostedTool("code_execution"), "messages", {"type": "code_execution_20250825", "name": "code_execution"}),
    (HostedTool("code_execution", container="c_1"), "responses", {"type": "code_interpreter", "container": "c_1"}),
    (HostedTool("mcp", name="wiki", server_label="w"), "responses", {"type": "mcp", "server_label": "w"}),
    (
        HostedTool("web_fetch_20260318", name="web_fetch"),
        "messages",
        {"type": "web_fetch_20260318", "name": "web_fetch"},
    ),
    (HostedTool("browser_search"), "chat", {"type": "browser_search"}),
]


@pytest.mark.for_each(("tool", "protocol", "wanted"), DECLARED)
def test_each_protocol_has_a_separate_declaration(tool, protocol, wanted):
    """A hosted tool of several providers is declared in each provider's format, and any other one unchanged."""
    assert declaration_of(tool.spec, protocol) == wanted


def test_unsupported_hosted_tool_raises_config_error():
    """An unsupported hosted tool raises ConfigError with an alternative, before a request is sent."""
    with FakeServer() as server:
        llm = LLM(base_url=server.base_url, model="m", protocol="chat")
        with pytest.raises(ConfigError, match=r"no hosted tool 'web_search'.*web_search_tool"):
            llm.complete("Does it rain?", tools=[HostedTool("web_search")])
        assert server.requests == []


def test_offline_model_rejects_hosted_tools():
    """The offline model rejects hosted tools."""
    with pytest.raises(ConfigError, match="no hosted tools such as 'web_search'"):
        LLM("offline").complete("Does it rain?", tools=[HostedTool("web_search")])


ITEMS = [
    (
        {"type": "web_search_call", "action": {"type": "search", "query": "rain"}, "status": "completed"},
        "web_search",
        "",
    ),
    ({"type": "web_search_call", "status": "failed"}, "web_search", "it failed"),
    ({"type": "code_interpreter_call", "code": "1+1", "outputs": [{"logs": "2"}]}, "code_execution", ""),
    ({"type": "file_search_call", "queries": ["rain"], "results": None}, "file_search", ""),
    ({"type": "mcp_call", "server_label": "wiki", "name": "read", "arguments": "{}", "error": None}, "wiki", ""),
    ({"type": "mcp_call", "server_label": "wiki", "name": "read", "error": "no such page"}, "wiki", "no such page"),
    ({"type": "image_generation_call", "result": "iVBOR"}, "image_generation", ""),
]


@pytest.mark.parametrize(("item", "name", "why"), ITEMS)
def test_response_items_report_hosted_tools(item, name, why):
    """Each item reports its tool, its arguments without the result, and its error."""
    (used,) = uses_in_items([{"id": "x_1", **item}])
    assert (used.call.id, used.call.name) == ("x_1", name)
    assert (why in used.error) if why else not used.error
    assert not {"result", "results", "outputs", "status"} & json.loads(used.call.arguments).keys()


@pytest.mark.parametrize(
    "kind", ["message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "mcp_list_tools", None]
)
def test_client_tool_calls_are_not_hosted_tool_uses(kind):
    """Client tool calls and unrelated items are not reported as hosted tool uses."""
    assert uses_in_items([{"type": kind, "id": "x_1"}]) == ()


PAGE = {"url": "https://who.int", "title": "Health"}
CITED = {"type": "url_citation", **PAGE, "start_index": 0, "end_index": 3}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "Yes.", "annotations": [CITED, CITED]}]}
FOUND = [
    (uses_in_items, [{"type": "web_search_call", "action": {"sources": [{"type": "url", **PAGE}]}}]),
    (uses_in_items, [{"type": "web_search_call"}, SAID]),
    (
        uses_in_blocks,
        [
            {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s_1",
                "content": [{"type": "web_search_result", "encrypted_content": "…", **PAGE}],
            },
        ],
    ),
    (uses_in_message, {"annotations": [{"type": "url_citation", "url_citation": PAGE}]}),
    (uses_in_message, {"executed_tools": [{"type": "search", "search_results": {"results": [PAGE]}}]}),
]


@pytest.mark.parametrize(("read", "text"), FOUND)
def test_found_pages_are_reported_once(read, text):
    """Each page found is reported once with its address and title, in every provider's format."""
    assert [use.sources for use in read(text)] == [(PAGE,)]


def test_cited_pages_belong_to_the_last_search():
    """Cited pages are reported as sources of the last search only."""
    items = [{"type": "web_search_call"}, {"type": "web_search_call"}, {"type": "code_interpreter_call"}, SAID]
    assert [len(use.sources) for use in uses_in_items(items)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("computer_call", "Remove the hosted tool of that type"),
        ("local_shell_call", "Remove the hosted tool of that type"),
        ("mcp_approval_request", "require_approval='never'"),
    ],
)
def test_unsupported_call_raises_bad_response(kind, says):
    """A call that the client cannot execute raises BadResponse with the tool to declare instead."""
    body = json.dumps({"status": "completed", "output": [{"type": kind, "id": "x_1"}]}).encode()
    with FakeServer(raw(body, headers={"Content-Type": "application/json"})) as server:
        llm = LLM(base_url=server.base_url, model="m", protocol="responses", max_retries=0)
        with pytest.raises(BadResponse, match=says):
            llm.complete("Click on it.")


def test_shell_call_in_a_container_is_a_hosted_tool_use():
    """A shell call in the provider's container is a hosted tool use, and a local one is not."""
    items = [{"type": "shell_call", "id": "s_1", "environment": {"type": "container_reference"}}]
    assert [use.call.name for use in uses_in_items(items)] == ["shell"]
    assert uses_in_items([{"type": "shell_call", "environment": {"type": "local"}}]) == ()


def test_blocks_report_hosted_tools():
    """The block of a hosted tool use is matched with the block of its result."""
    blocks = [
        {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {"query": "rain"}},
        {"type": "web_search_tool_result", "tool_use_id": "s_1", "content": [{"type": "web_search_result"}]},
        {"type": "server_tool_use", "id": "s_2", "name": "bash_code_execution", "input": {"command": "ls"}},
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "s_2",
            "content": {"type": "bash_code_execution_tool_result_error", "error_code": "unavailable"},
        },
        {"type": "mcp_tool_use", "id": "s_3", "name": "read", "server_name": "wiki", "input": {}},
        {"type": "tool_use", "id": "t_1", "name": "ours", "input": {}},
    ]
    rows = [(each.call.id, each.call.name, each.error) for each in uses_in_blocks(blocks)]
    assert rows == [
        ("s_1", "web_search", ""),
        ("s_2", "code_execution", "The provider could not use code_execution: unavailable."),
        ("s_3", "read", ""),
    ]


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ({"executed_tools": [{"type": "search", "arguments": '{"query": "rain"}', "output": "…"}]}, ["search"]),
        ({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://who.int"}}]}, ["web_search"]),
        ({"annotations": [{"type": "file"}]}, []),
        ({"annotations": None, "executed_tools": "?"}, []),
        ({}, []),
    ],
)
def test_chat_message_reports_hosted_tools(message, names):
    """Hosted tools are read from a message's list of tools or from its citations."""
    assert [used.call.name for used in uses_in_message(message)] == names


WHOLE = {
    "responses": {
        "status": "completed",
        "output": [
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It rains."}]},
        ],
    },
    "messages": {
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "content": [
            {"type": "server_tool_use", "id": "ws_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "ws_1", "content": [{"type": "web_search_result"}]},
            {"type": "text", "text": "It rains."},
        ],
    },
    "chat": {
        "choices": [
            {
                "finish_reason": "stop",
                "message": {
                    "role": "assistant",
                    "content": "It rains.",
                    "executed_tools": [{"type": "web_search", "arguments": '{"query": "q"}', "output": "rain"}],
                },
            }
        ]
    },
}


@pytest.mark.parametrize("protocol", WHOLE)
def test_response_reports_hosted_tools(protocol):
    """A response contains the text and the hosted tools that were used, and no tool calls."""
    body = json.dumps(WHOLE[protocol]).encode()
    with FakeServer(raw(body, headers={"Content-Type": "application/json"})) as server:
        response = LLM(base_url=server.base_url, model="m", protocol=protocol).complete("Does it rain?")
    assert (response.text, response.tool_calls) == ("It rains.", ())
    assert [used.call.name for used in response.hosted] == ["web_search"]
