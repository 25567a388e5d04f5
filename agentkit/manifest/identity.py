"""Machine-independent identities of code, folders, commands and hosts."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import io
import json
import linecache
import os
import re
import sys
import tempfile
import textwrap
import tokenize
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from agentkit.errors import NoProvider
from agentkit.llm.client import LLM, split_model
from agentkit.llm.detection import PROVIDERS, arguments_for_model, detect, same_endpoint_arguments
from agentkit.llm.endpoint import Endpoint, LLMArguments, display_url
from agentkit.llm.providers.openai import SERVICES, provider_of
from agentkit.manifest.schema import ALWAYS_YES, ENVIRONMENT, HERE, IN_MEMORY, ON_THIS_MACHINE, THEN
from agentkit.redaction import is_secret_name, redact, stored_text_redactor
from agentkit.sessions.session import Session
from agentkit.settings import Secret
from agentkit.text_encoding import split_lines
from agentkit.usage import Price

COLLECTIONS = (list, tuple, set, frozenset, dict)

_MAX_VALUES, _MAX_DEPTH = 10_000, 10
_FOLDERS = "a folder of this machine"


def describe_value(name: str, value: Any, *, texts: bool = True) -> str:
    """A name with its value: numbers, bools, None, texts and collections of these; the type of any other value.

    Texts are replaced by their type without `texts`, and if the name or the text is that of a secret. A leading folder
    of this machine is left out.
    """
    leaves = islice(_leaves(name, value, texts=texts, depth=0), _MAX_VALUES)
    return f"{name} = {' '.join(leaves)}"


def _leaves(name: str, value: Any, *, texts: bool, depth: int) -> Iterator[str]:
    if value is None or isinstance(value, bool | int | float):
        yield repr(value)
    elif isinstance(value, str):
        yield repr(_portable(value)) if texts and not _is_secret(name, value) else "str"
    elif not isinstance(value, COLLECTIONS) or depth > _MAX_DEPTH:
        yield type(value).__name__
    elif isinstance(value, Mapping):
        yield "{"
        for key in sorted(value, key=repr):
            yield from _leaves("", key, texts=texts, depth=depth + 1)
            yield ":"
            yield from _leaves(key if isinstance(key, str) else name, value[key], texts=texts, depth=depth + 1)
        yield "}"
    else:
        yield "("
        found = [" ".join(_leaves(name, each, texts=texts, depth=depth + 1)) for each in islice(value, _MAX_VALUES)]
        yield from sorted(found) if isinstance(value, Set) else found
        yield ")"


def _is_secret(name: str, text: str) -> bool:
    return is_secret_name(name.rpartition(".")[2]) or redact(text) != text


def _portable(text: str) -> str:
    for folder in (Path.cwd(), Path.home()):
        text = re.sub(rf"\A{re.escape(str(folder))}(?=/|\Z)", _FOLDERS, text)
    return text


OURS = "agentkit."
"""Prefix of the names of agentkit's own code."""

FALSE_CLAIM = "not agentkit's "
"""Prefix of the name of code that falsely claims to be agentkit's."""

_FOLDER = Path(__file__).parents[1]

_FOREIGN = frozenset({*sys.stdlib_module_names, "agentkit"})
"""Modules whose values are not included, as they can differ between machines."""

_MAX_FUNCTIONS = 100

_YES = frozenset({"Approval.ONCE", "Approval.RUN", "Approval.ALWAYS", "Approval.PATTERN"})
_DefinitionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def code_of(thing: Any) -> str:
    """`module.name sha256:…` of a function, a class or an instance; for agentkit's own code only the name.

    The hash covers its source without comments, the numbers and functions it was created with, and the variables of
    its module and its closure that it references: plain values, and functions of the same module.
    """
    definition = _definition(thing)
    name = f"{module_of(thing)}.{definition.__qualname__}"
    if name.startswith(OURS):
        return name
    parts = [*_source_texts(definition), *_bound_values(thing), *referenced_variables(thing)]
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
    return f"{name} sha256:{digest}"


def module_of(thing: Any) -> str:
    """The module of a function, a class or an instance's class; marked if it falsely claims to be agentkit's."""
    definition = _definition(thing)
    module = str(getattr(definition, "__module__", None) or "builtins")
    return module if not module.startswith(OURS) or _is_written_by_us(definition) else f"{FALSE_CLAIM}{module}"


def is_ours(thing: Any) -> bool:
    """Whether a function, a class or an instance is from agentkit."""
    return module_of(thing).startswith(OURS)


def _is_written_by_us(definition: Any) -> bool:
    """Verify that code is agentkit's: its file is in our folder, or our module contains it."""
    if inspect.isfunction(definition):
        return Path(definition.__code__.co_filename).is_relative_to(_FOLDER)
    found: Any = sys.modules.get(definition.__module__)
    for name in definition.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is definition


def approver_of(approve: Callable[..., Any] | None) -> str | None:
    """The identity of an approver, with a prefix if it approves everything."""
    if approve is None:
        return None
    nodes = [node for node, _ in _source_nodes(_definition(approve))]
    approves_all = bool(nodes) and all(map(_always_approves, nodes))
    return f"{ALWAYS_YES if approves_all else ''}{code_of(approve)}"


def _definition(thing: Any) -> Any:
    """The function or class whose source defines what `thing` does."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    if inspect.ismethod(thing):
        return thing.__func__
    return thing if inspect.isroutine(thing) or isinstance(thing, type) else type(thing)


def _source_texts(definition: Any) -> list[str]:
    """The source of a function or a class without comments; if several share a line, the source of all."""
    return [_without_comments(text) for _, text in _source_nodes(definition)]


def _source_nodes(definition: Any) -> Iterator[tuple[_DefinitionNode, str]]:
    """The syntax tree and source of a function or a class; empty if the source is not available."""
    # The file of a function or of a class's methods, from their code: the module can be gone from sys.modules
    functions = vars(definition).values() if isinstance(definition, type) else (definition,)
    files = (each.__code__.co_filename for each in functions if inspect.isfunction(each))
    file = next(files, "")
    linecache.checkcache(file)
    source = "".join(linecache.getlines(file))
    lines = split_lines(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda) and _is_definition(node, "<lambda>", definition):
            yield node, f"({ast.get_source_segment(source, node)})"
        elif isinstance(node, _DefinitionNode) and _is_definition(node, getattr(node, "name", ""), definition):
            yield node, textwrap.dedent("\n".join(lines[_first_line(node) - 1 : node.end_lineno]))


def _is_definition(node: _DefinitionNode, name: str, definition: Any) -> bool:
    if isinstance(definition, type):
        return isinstance(node, ast.ClassDef) and name == definition.__name__
    code = definition.__code__
    return (_first_line(node), name) == (code.co_firstlineno, code.co_name)


def _first_line(node: _DefinitionNode) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _without_comments(text: str) -> str:
    """The source without comments and blank lines."""
    lines = split_lines(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _bound_values(thing: Any) -> Iterator[str]:
    """The numbers and functions that code is bound to: arguments of partials, closure cells, fields."""
    if isinstance(thing, functools.partial):
        yield from map(_plain, (*thing.args, *thing.keywords.values()))
        yield from _bound_values(thing.func)
    elif inspect.ismethod(thing):
        yield from _bound_values(thing.__self__)
    elif inspect.isfunction(thing):
        yield from map(_plain, (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()))
        yield from (_plain(_cell_content(cell)) for cell in thing.__closure__ or ())
    elif not isinstance(thing, type):
        yield from map(_plain, getattr(thing, "__dict__", {}).values())


def _plain(value: Any) -> str:
    """A value in a form that is identical on every machine and contains no secret."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if inspect.isfunction(value):
        return "\n".join([value.__qualname__, *_source_texts(value)])
    return describe_value("", value, texts=False) if isinstance(value, COLLECTIONS) else type(value).__name__


def referenced_variables(thing: Any) -> Iterator[str]:
    """Variables that code references, by name: plain values, and functions and classes of its module with their source.

    The first 100 functions are followed recursively. Of the program's modules the plain values that the code names are
    included; of any other object its type.
    """
    waiting, known = list(_functions(thing)), set[int]()
    while waiting and len(known) < _MAX_FUNCTIONS:
        function = waiting.pop(0)
        if id(function) in known:
            continue
        known.add(id(function))
        for name, value in sorted(_variables(function), key=lambda each: each[0]):
            is_code = inspect.isfunction(value) or isinstance(value, type)
            if not is_code:
                yield describe_value(name, value)
            elif value.__module__ == function.__module__ and not is_ours(value):
                yield "\n".join([name, *_source_texts(value)])
                waiting += _functions(value)


def _functions(thing: Any) -> Iterator[types.FunctionType]:
    """The functions that run when code runs: itself, the methods of a class, and those in its closure."""
    definition = _definition(thing)
    for each in vars(definition).values() if isinstance(definition, type) else (definition,):
        inner = getattr(each, "__func__", getattr(each, "fget", each))
        if inspect.isfunction(inner):
            yield inner
            yield from (cell for cell in map(_cell_content, inner.__closure__ or ()) if inspect.isfunction(cell))


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals and closure variables that a function reads, and the module attributes that it names."""
    names = set(_code_names(function.__code__))
    around = zip(function.__code__.co_freevars, map(_cell_content, function.__closure__ or ()), strict=True)
    yield from ((name, value) for name, value in around if not inspect.isfunction(value))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if not isinstance(value, types.ModuleType):
            yield name, value
        elif value.__name__.partition(".")[0] not in _FOREIGN:
            yield from ((f"{name}.{each}", vars(value)[each]) for each in names & vars(value).keys())


def _code_names(code: types.CodeType) -> Iterator[str]:
    """The names that code reads, including nested functions."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _code_names(each)


def _cell_content(cell: Any) -> Any:
    """The content of a closure cell; None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _always_approves(node: _DefinitionNode) -> bool:
    """Whether all answers in the source are approvals."""
    if isinstance(node, ast.Lambda):
        return _is_approval(node.body)
    if isinstance(node, ast.ClassDef):
        calls = [
            each for each in node.body if isinstance(each, _DefinitionNode) and getattr(each, "name", "") == "__call__"
        ]
        return bool(calls) and all(map(_always_approves, calls))
    answers = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(answers) and all(answer is not None and _is_approval(answer) for answer in answers)


def _is_approval(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition("agentkit.")[2] in _YES or (
        isinstance(node, ast.Constant) and node.value is True
    )


TEMPORARY = "a temporary folder"
FROM_PROGRAM = "given by the program"
"""Source of an API key that is not read from an environment variable."""

_KEYS = {"openai": "OPENAI_API_KEY", "azure": "AZURE_OPENAI_API_KEY"}
_ANSWER_SETTINGS = frozenset(
    {
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "reasoning_effort",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "stop",
    }
)
"""Settings that only affect how an answer is generated."""

_ANY_KEY = Secret("any")
_DIGEST_CHARS = 16


def format_folder(folder: str | Path, home: Path) -> str:
    """A folder relative to `home`, the folder of the program; a hash if it is unrelated."""
    place, origin = Path(folder).resolve(), home.resolve()
    if place.is_relative_to(origin):
        return place.relative_to(origin).as_posix()
    shared, user_home, temporary = (
        Path(path).resolve() for path in (_shared(place, origin), Path.home(), tempfile.gettempdir())
    )
    if shared.parts[1:] and not user_home.is_relative_to(shared) and not temporary.is_relative_to(shared):
        return Path(os.path.relpath(place, origin)).as_posix()
    if place.is_relative_to(temporary):
        return TEMPORARY
    if place.is_relative_to(user_home):
        return "/".join(["~", *place.relative_to(user_home).parts])
    return f"elsewhere sha256:{sha256(os.fsencode(place)).hexdigest()[:_DIGEST_CHARS]}"


def _shared(one: Path, two: Path) -> str:
    return os.path.commonpath([one, two])


def format_command(words: Iterable[str], home: Path) -> str:
    """A command without secrets, with its file paths relative to `home`."""
    import shlex

    hidden = stored_text_redactor()
    return shlex.join(hidden(_format_word(word, home)) for word in words)


def _format_word(word: str, home: Path) -> str:
    if word == sys.executable:
        return "python"
    path = Path(word)
    return f"{format_folder(path.parent, home)}/{path.name}".removeprefix("./") if path.is_absolute() else word


def format_url(url: str) -> str:
    """A URL without secrets."""
    return stored_text_redactor()(display_url(url))


def session_kind(session: Session | str | None) -> str:
    """The kind of session store."""
    if session is None or (isinstance(session, Session) and session.store is None):
        return IN_MEMORY
    store = ON_THIS_MACHINE if isinstance(session, str) else type(session.store).__name__
    return {
        "SQLiteSessionStore": ON_THIS_MACHINE,
        "InMemorySessionStore": IN_MEMORY,
        "PostgresSessionStore": "kept on a server",
    }.get(store, store)


def model_facts(known: LLM | str | None) -> Iterator[tuple[str, str | None]]:
    """The facts of the model and its fallbacks that the program sets, independent of the environment.

    `known` is the client or the name of its model; None if the program sets neither.
    """
    parts = [dict(_model_facts(arguments, llm)) for arguments, llm in _model_arguments(known)]
    for name in parts[0]:
        values = (facts[name] for facts in parts)
        yield name, THEN.join(dict.fromkeys(value for value in values if value is not None)) or None


def _model_arguments(known: LLM | str | None) -> Iterator[tuple[LLMArguments, LLM | None]]:
    """The arguments of each model that can answer, and its client if it exists."""
    if isinstance(known, LLM):
        yield from ((each.arguments, each) for each in known.with_fallbacks(explicit=True))
        return
    named, behind = split_model(known)
    first = LLMArguments(model=named)
    yield first, None
    yield from ((arguments_for_model(name) or same_endpoint_arguments(name, first), None) for name in behind)


def _model_facts(arguments: LLMArguments, llm: LLM | None) -> Iterator[tuple[str, str | None]]:
    endpoint = _endpoint(arguments)
    provider = endpoint.provider if endpoint else _provider_name(arguments) or ENVIRONMENT
    yield "client", None if llm is None or type(llm) is LLM else code_of(type(llm))
    yield "host", _host(endpoint, provider)
    yield "key", _key(arguments, provider)
    yield "name", (endpoint.model if endpoint and arguments.model else arguments.model) or ENVIRONMENT
    yield "price", None if llm is None or llm.price is None else format_price(llm.price)
    yield "provider", provider
    yield "settings", None if llm is None else _settings_identity(llm.settings)


def _settings_identity(settings: Mapping[str, Any]) -> str | None:
    """Request settings other than those of answers: they can enable tools that the provider runs itself."""
    others = {name: value for name, value in settings.items() if name not in _ANSWER_SETTINGS}
    if not others:
        return None
    text = json.dumps(others, sort_keys=True, default=lambda value: type(value).__qualname__)
    return f"{', '.join(sorted(others))} sha256:{sha256(text.encode()).hexdigest()}"


def format_price(price: Price) -> str:
    """The configured price of a model: the cost limit of its runs depends on it."""
    return f"{price.input} and {price.output} US dollars per million tokens"


def _provider_name(arguments: LLMArguments) -> str | None:
    """The provider set by the program; None if the environment decides."""
    prefix = (arguments.model or "").partition(":")[0].lower()
    if arguments.client is not None:
        return provider_of(arguments.client)
    if arguments.provider or prefix in PROVIDERS:
        return (arguments.provider or prefix).lower()
    if arguments.azure_endpoint or arguments.azure_token_provider:
        return "azure"
    return "openai" if arguments.base_url or arguments.api_key else None


def _endpoint(arguments: LLMArguments) -> Endpoint | None:
    """The model's endpoint as set by the program, ignoring the environment and assuming a key."""
    if _provider_name(arguments) is None:
        return None
    try:
        return detect(replace(arguments, api_key=_ANY_KEY), {})[0]
    except NoProvider:  # the environment sets the rest
        return None


def _host(endpoint: Endpoint | None, provider: str) -> str | None:
    if endpoint is not None and endpoint.base_url:
        return endpoint.shown_url.partition("://")[2].partition("/")[0]
    return None if provider in {"offline", "local"} else ENVIRONMENT


def _key(arguments: LLMArguments, provider: str) -> str | None:
    if arguments.api_key or arguments.azure_token_provider or arguments.client is not None:
        return FROM_PROGRAM
    if provider == ENVIRONMENT:
        return ENVIRONMENT
    service = SERVICES.get(provider)
    return _KEYS.get(provider) or (service.key_variable or None if service else None)


def workspace_facts(workspace: Any, home: Path, *, is_used: bool) -> Iterator[tuple[str, str | None]]:
    """The workspace folder and the persistence of its journal; None for both if no tool uses the workspace."""
    if not is_used:
        yield from (("folder", None), ("journal", None))
        return
    yield "folder", format_folder(workspace.folder, home) if workspace.is_fixed else HERE
    yield "journal", IN_MEMORY if workspace.journal.folder is None else ON_THIS_MACHINE
