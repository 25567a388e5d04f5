"""Reference page of the errors, grouped as in the exception hierarchy."""

import inspect
import re

from markdown import block, code, first_sentence, flowing, joined, table

from agentkit import errors

_BRANCH = re.compile(r"^[├└]── (?P<name>\w+) +(?P<who>.+)$", re.MULTILINE)


def page() -> str:
    """Render the page."""
    summary, tree, rest = (inspect.getdoc(errors) or "").split("\n\n")
    who = {match["name"]: match["who"] for match in _BRANCH.finditer(tree)}
    opening = f"{summary} All are in `agentkit.errors`; the most common ones can also be imported from `agentkit`."
    sections = [_section(getattr(errors, name), words) for name, words in who.items()]
    return joined(["# Reference: errors", opening, block("text", tree), flowing(rest), *sections])


def _section(branch: type, who: str) -> str:
    kinds = [branch, *branch.__subclasses__()]
    rows = [(code(kind.__name__), first_sentence(kind), _also(kind), _attributes(kind)) for kind in kinds]
    head = ("error", "meaning", "also a", "attributes")
    return joined([f"## {branch.__name__}", f"Handled by: {who}.", table(head, rows)])


def _also(kind: type) -> str:
    foreign = [base for base in kind.__bases__ if not issubclass(base, errors.AgentKitError)]
    return ", ".join(code(base.__name__) for base in foreign)


def _attributes(kind: type) -> str:
    """The attributes of an error, from the parameters of its constructors."""
    owners = [owner for owner in kind.__mro__ if owner.__module__ == errors.__name__ and "__init__" in vars(owner)]
    names = [name for owner in owners for name in inspect.signature(owner.__init__).parameters]
    return ", ".join(dict.fromkeys(code(name) for name in names if name not in {"self", "message"}))
