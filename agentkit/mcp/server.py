"""agentkit tools for MCP clients, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from agentkit._dataclass import dataclass
from agentkit.agents.options import check_rules
from agentkit.agents.run_config import HandoffTarget, collect_labels
from agentkit.agents.tool_policy import JudgedCall, ToolPolicyContext, judge_call
from agentkit.decisions import Label, SafetyLevel, Verdict
from agentkit.errors import ConfigError, ToolError
from agentkit.http_security import open_listener, origin_of
from agentkit.mcp.sdk.server import (
    PATH,
    MCPAuth,
    ServedResource,
    check_public_address,
    over_http,
    over_stdio,
    protocol_server,
)
from agentkit.messages import Message, ToolCall, ToolMessage, ToolResult, labels_of
from agentkit.safety.approval import NOBODY, Approval, ApprovalRequest, Approver, ApproverAnswer, Grants, answered
from agentkit.safety.policy import Policy
from agentkit.sessions.session import Session
from agentkit.tooling import execution
from agentkit.tooling.arguments import copy_arguments
from agentkit.tooling.run_context import accepts
from agentkit.tooling.signature import is_asynchronous
from agentkit.tooling.tool import Tool
from agentkit.tooling.toolset import Toolset
from agentkit.tools.files import read_file_in, secret_rule
from agentkit.workspace.change_detection import SKIPPED
from agentkit.workspace.root import Root
from agentkit.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from agentkit.mcp.sdk.server import Ask
    from agentkit.sessions.stores import StoreLocation

CLIENT: Literal["client"] = "client"
"""The approver that asks the person at the client."""

_CLIENT_NAME = "An MCP client"
_MAX_LISTED = 1_000
_POSTPONED = ApproverAnswer(Approval.NO, "The decision was postponed, and a call over MCP cannot wait.")
_REFUSED = ApproverAnswer(Approval.NO, "The user of the client refused it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address for serving over HTTP. `token` is required from clients; a random one by default.

    Port 0 picks a free one. `hosts` are additional host names under which the server is reached. `when_ready` is called
    with URL and token. Raises ConfigError, also if other machines can reach the address and no token is given.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()
    when_ready: Callable[[str, str], object] | None = None

    def __post_init__(self) -> None:
        check_public_address(self.host, self.token)


class ToolServerOptions(TypedDict, total=False):
    """The keyword arguments of `ToolServer`, as accepted by `serve`."""

    name: str
    safety: SafetyLevel | str
    policy: Policy | None
    approve: Approver | Literal["client"] | None
    workspace: Workspace | str | Path | None
    most_calls: int
    resources: Mapping[str, Callable[..., Any]]
    prompts: Iterable[Any]
    files: bool
    sessions: StoreLocation | bool


class ToolServer:
    """Tools served to MCP clients.

    Args:
        tools: Tools, toolsets or plain functions.
        name: The name of the server.
        safety: The level up to which calls run without approval, unless a policy is given.
        policy: The policy that judges calls, as for an agent.
        approve: The approver for calls that need approval: a function, or `"client"` for the person at the client, if
            the client supports asking. By default such calls are denied.
        workspace: The folder for file tools and the shell; the current one by default.
        most_calls: The maximum number of concurrent calls; further ones wait.
        resources: Functions by URI, or by URI template with their arguments as placeholders, such as `notes://{name}`.
            They return a text, bytes, an Image or File, or a value that becomes JSON.
        prompts: Functions that render a prompt from texts: they return a text, or a list of texts, Images and Files.
            Of an agent, the prompt is its instruction, followed by a message.
        files: Whether the files of the workspace are resources, read by `read_file` under the same policy.
        sessions: Where sessions are stored, to offer their transcripts as resources; True for the default place.

    Data-flow rules consider everything that any client has read: a server is assumed to serve one person. Raises
    ConfigError.
    """

    def __init__(
        self,
        tools: Iterable[Any] | Callable[..., Any],
        *,
        name: str = "agentkit",
        safety: SafetyLevel | str = SafetyLevel.NETWORK,
        policy: Policy | None = None,
        approve: Approver | Literal["client"] | None = None,
        workspace: Workspace | str | Path | None = None,
        most_calls: int = 8,
        resources: Mapping[str, Callable[..., Any]] | None = None,
        prompts: Iterable[Any] = (),
        files: bool = False,
        sessions: StoreLocation | bool = False,
    ) -> None:
        tool_workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.tools = Toolset(tools).within(tool_workspace)
        if hosted := next((tool.name for tool in self.tools if tool.spec.hosted is not None), ""):
            raise ConfigError(f"The tool {hosted!r} is run by a model's provider, so it cannot be served.")
        if conditional := next((tool.name for tool in self.tools if tool.conditions), ""):
            raise ConfigError(f"The tool {conditional!r} has a condition on the run, and MCP clients have no run.")
        tool_policy = Policy(SafetyLevel.of(safety)) if policy is None else policy
        check_rules(tool_policy, self.tools)
        lacks_reader = files and "read_file" not in self.tools.names
        servable = self.tools + read_file_in(tool_workspace) if lacks_reader else self.tools
        self._policy_context = ToolPolicyContext(servable, (tool_policy,), Grants(), tool_workspace)
        if isinstance(approve, str) and approve != CLIENT:
            raise ConfigError(f'approve= takes a function or "client"; got {approve!r}.')
        if callable(approve) and not accepts(approve, object()):
            raise ConfigError("approve= takes a function of an ApprovalRequest alone: MCP clients have no run.")
        self.name, self._approve, self._numbers = name, approve, itertools.count(1)
        self.prompts = {each.name: each for each in map(_prompt, prompts)}
        self.resources = [_resource(uri, read) for uri, read in (resources or {}).items()]
        if files:
            self.resources.append(self._files())
        if sessions is not None and sessions is not False:
            self.resources.append(self._sessions(None if sessions is True else sessions))
        self._call_slots = asyncio.Semaphore(most_calls)
        self._read: list[Message] = []  # the first call per label; clients cannot remove entries

    def protocol_server(self) -> Any:
        """Return a server object of the `mcp` package, to be run with its functions. Raises MissingExtra."""
        return protocol_server(self)

    def _files(self) -> ServedResource:
        """Return the files of the workspace that are not secret, as a template."""
        workspace = self._policy_context.workspace

        def names() -> list[str]:
            hidden, files = secret_rule(workspace), Root(workspace.folder).files(".", SKIPPED)
            return list(itertools.islice((path for path, _ in files if not hidden(path)), _MAX_LISTED))

        async def read(path: str) -> str:
            result = await self.answer("read_file", {"path": path})
            if not result.ok:
                raise ToolError(result.error or "It cannot be read.")
            return str(result.value["content"])

        return ServedResource("file:///{+path}", "files", "A text file of the workspace.", read, names)

    def _sessions(self, place: StoreLocation) -> ServedResource:
        """Return the transcripts of the stored sessions, as a template."""

        def names() -> list[str]:
            return [each.name for each in Session.summaries(place)][:_MAX_LISTED]

        async def read(name: str) -> str:
            if name not in await execution.acall(names, None):
                raise ToolError("No session has that name.")
            self._record_read("read_session", frozenset({Label.PRIVATE, Label.UNTRUSTED}))
            return str(await execution.acall(lambda: Session.open(place, name).show(), None))

        return ServedResource("session:///{+name}", "sessions", "The transcript of a session.", read, names)

    async def answer(self, name: str, arguments: Mapping[str, Any], ask: Ask | None = None) -> ToolResult:
        """Judge and execute a call. Errors are reported in the result; `ask` asks the person at the client."""
        call = ToolCall(f"mcp-{next(self._numbers)}", name, json.dumps(arguments))
        judged_call = await self._ask_approver(judge_call(call, self._policy_context, [*self._read]), ask)
        async with self._call_slots:  # calls waiting for approval do not take up capacity
            with collect_labels(**self._nested_call_context()) as found:
                result = await judged_call.arun()
        result = replace(result, labels=result.labels | found)
        self._record_read(name, result.labels)
        return result

    def _record_read(self, name: str, labels: frozenset[Label]) -> None:
        """Record what a client has read."""
        if not labels <= labels_of(self._read):
            self._read.append(ToolMessage(f"mcp-{next(self._numbers)}", name, "", labels))

    def _nested_call_context(self) -> dict[str, Any]:
        """Return how nested calls of programs and agents are judged: by the server's policies and approver."""
        context, read = self._policy_context, labels_of([*self._read])
        approve = partial(self._approver_answer, ask=None) if callable(self._approve) else None
        return {"policies": context.policies, "read": read, "dry_run": context.workspace.dry_run, "approve": approve}

    async def _ask_approver(self, judged_call: JudgedCall, ask: Ask | None) -> JudgedCall:
        """Return the call with the approver's answer applied, if it needs approval."""
        decision = judged_call.decision
        if decision.verdict is not Verdict.ASK:
            return judged_call
        folder = self._policy_context.workspace.folder
        arguments = copy_arguments(judged_call.arguments)  # a copy: the arguments executed are those that were judged
        request = ApprovalRequest(_CLIENT_NAME, judged_call.call.name, arguments, decision, folder, judged_call.call.id)
        answer = await self._approver_answer(request, ask)
        if answer.arguments is not None:  # the approver's changed call is judged like any other
            call = ToolCall(judged_call.call.id, judged_call.call.name, json.dumps(dict(answer.arguments)))
            judged_call = judge_call(call, self._policy_context, [*self._read])
            if judged_call.decision.verdict is not Verdict.ASK:
                return judged_call
        return JudgedCall(
            judged_call.call,
            answered(judged_call.decision, answer),
            judged_call.tool,
            judged_call.arguments,
            by_person=True,
        )

    async def _approver_answer(self, request: ApprovalRequest, ask: Ask | None) -> ApproverAnswer:
        """Return the approver's answer; an exception counts as one."""
        if self._approve == CLIENT:
            if ask is None:
                return NOBODY
            return ApproverAnswer(Approval.ONCE) if await ask(str(request), request.fingerprint) else _REFUSED
        if self._approve is None:
            return NOBODY
        is_async = is_asynchronous(self._approve)
        try:
            answer = ApproverAnswer.of(await execution.acall(partial(self._approve, request), None, is_async=is_async))
        except Exception as error:
            answer = ApproverAnswer.of(error)
        return _POSTPONED if answer.approval is Approval.LATER else answer


def _prompt(source: Any) -> Tool[..., Any]:
    """Return a prompt as a tool, whose parameters are its arguments. Raises ConfigError."""
    if not isinstance(source, HandoffTarget):
        return source if isinstance(source, Tool) else Tool(source)
    if not isinstance(source.instruction, str):
        raise ConfigError(f"The instruction of {source.name!r} is a function, so it cannot be an MCP prompt.")
    instruction = source.instruction

    def with_message(message: str = "") -> str:
        return f"{instruction}\n\n{message}".rstrip()

    return Tool(with_message, source.name, source.description or f"The instruction of the agent {source.name}.")


def _resource(uri: str, read: Callable[..., Any]) -> ServedResource:
    """Return a resource that a function reads. Raises ConfigError."""
    tool = read if isinstance(read, Tool) else Tool(read)

    async def value(**arguments: Any) -> Any:
        result = await tool.ainvoke(arguments)
        if not result.ok:
            raise ToolError(result.error or "It cannot be read.")
        return result.value

    placeholders = set(re.findall(r"{[+#./;?&]?(\w+)\*?}", uri))
    if placeholders != tool.parameters["properties"].keys():
        names = ", ".join(tool.parameters["properties"]) or "none"
        raise ConfigError(f"The placeholders of {uri!r} must be the arguments of its function: {names}.")
    return ServedResource(uri, tool.name, tool.description, value)


def serve(
    tools: Iterable[Any] | Callable[..., Any], *, http: Address | None = None, **options: Unpack[ToolServerOptions]
) -> None:
    """Serve tools until the input ends, or over HTTP until Ctrl-C. `options` are those of `ToolServer`.

    Over stdio, the protocol uses the streams of the process. Raises ConfigError and MissingExtra.
    """
    server = ToolServer(tools, **options).protocol_server()
    asyncio.run(over_stdio(server) if http is None else _over_http(server, http))


async def _over_http(server: Any, address: Address) -> None:
    host = address.host
    host_names = () if ":" in host or not host.strip("0.") else (host,)  # neither a wildcard nor an IPv6 address
    auth = MCPAuth(address.token, (*host_names, *address.hosts))
    with open_listener(host, address.port) as listener:
        if address.when_ready is not None:
            address.when_ready(f"{origin_of(listener)}{PATH}", auth.token)
        await over_http(server, listener, auth)
