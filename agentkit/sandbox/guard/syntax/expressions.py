"""Which names and attributes may a program write, and where does a guard read them?

Guards are global names with a leading dot, which no program can spell, read or shadow.
"""

import ast
from typing import TYPE_CHECKING, NamedTuple

from agentkit.sandbox.guard.names import (
    ABOUT_MODULE,
    DEFINABLE,
    DELICATE,
    OF_ENUMS,
    is_dunder,
    is_own,
    mangled,
    may_read,
    may_set,
)

if TYPE_CHECKING:
    from RestrictedPython.transformer import RestrictingNodeTransformer as Engine
else:
    Engine = object

READ, READ_OWN, READ_PLAIN, WRITE, IMPORT, IMPORT_FROM, SHOW, MATCHABLE, BOXED, OPAQUE = GUARDS = (
    ".read",
    ".read_own",
    ".read_plain",
    ".write",
    ".import",
    ".import_from",
    ".show",
    ".matchable",
    ".boxed",
    ".opaque",
)


ATTRIBUTE_HINT = "attributes that lead to Python's own machinery are closed; use the object's public methods"
REFUSED_SYNTAX = {
    "TryStar": ("`except*` is not available here", "catch the exceptions with `except`"),
    "TypeAlias": ("`type X = ...` is not available here", "write `X = ...`"),
    "TypeVar": ("type parameters in brackets are not available here", "write `T = TypeVar('T')` and Generic[T]"),
    "ParamSpec": ("type parameters in brackets are not available here", "write `P = ParamSpec('P')`"),
    "TypeVarTuple": ("type parameters in brackets are not available here", "leave the annotation out"),
}


class Refusal(NamedTuple):
    """One thing that was refused before the run."""

    line: int
    message: str
    hint: str = ""


class Scope(NamedTuple):
    """What a name stands in."""

    kind: str
    class_name: str | None


def call(guard: str, *arguments: ast.expr) -> ast.Call:
    """A call of a guard."""
    return ast.Call(func=ast.Name(guard, ast.Load()), args=list(arguments), keywords=[])


class Expressions(Engine):
    """Names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[Refusal] = []
        self.scopes = [Scope("module", None)]
        self.try_depth = 0
        self.annotations_are_text = False

    def refuse(self, node: ast.AST, message: str, hint: str = "") -> None:
        """Remember that this node may not run."""
        self.refusals.append(Refusal(getattr(node, "lineno", 1), message, hint))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Syntax that nothing here or in the engine mentions; it stays, as a tree with holes cannot be visited."""
        self.not_allowed(node)
        return node

    def not_allowed(self, node: ast.AST) -> None:
        """The engine's word for syntax that it does not let through."""
        kind = type(node).__name__
        self.refuse(node, *REFUSED_SYNTAX.get(kind, (f"this kind of syntax ({kind}) is not available here",)))

    def visit_TryStar(self, node: ast.AST) -> ast.AST:
        """`except*` calls methods of exceptions that their classes may forge."""
        return self.generic_visit(node)

    def error(self, node: ast.AST, info: str) -> None:
        """The engine's word for anything else that it objects to."""
        self.refuse(node, info)

    def in_scope(self, kind: str, node: ast.AST, class_name: str | None) -> ast.AST:
        """Visit the contents of a class or function."""
        self.scopes.append(Scope(kind, class_name))
        depth, self.try_depth = self.try_depth, 0
        node = self.node_contents_visit(node)
        self.try_depth = depth
        self.scopes.pop()
        return node

    def visit_all(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Visit statements, each of which may become several."""
        visited: list[ast.stmt] = []
        for node in nodes:
            result = self.visit(node)
            visited.extend(result if isinstance(result, list) else [result])
        return visited

    # Names

    def check(self, node: ast.AST, name: str | None) -> None:
        """Refuse a name that must not be bound or read here."""
        if name is None or not name.startswith("_") or is_own(name):
            return
        scope = self.scopes[-1].kind
        if scope == "class" and (name in DEFINABLE or name in OF_ENUMS):
            return
        if scope == "module" and name in ABOUT_MODULE:
            return
        if name == "__class__":
            hint = "write type(self)"
        elif is_dunder(name):
            hint = "special methods are defined inside a class, and only those that cannot reach Python's own objects"
        else:
            hint = "names that begin and end with an underscore are reserved: choose another"
        self.refuse(node, f"the name {name!r} is not available here", hint)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A variable; `__name__` and `__doc__` can be read."""
        if not (isinstance(node.ctx, ast.Load) and node.id in {"__name__", "__doc__", "__debug__"}):
            self.check(node, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter."""
        self.check(node, node.arg)
        return self.node_contents_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """A named argument."""
        self.check(node.value, node.arg)
        return self.node_contents_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.AST:
        """`global` binds names."""
        return self.check_names(node, node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        """`nonlocal` binds names."""
        return self.check_names(node, node.names)

    def check_names(self, node: ast.AST, names: list[str]) -> ast.AST:
        """Check each name that a statement binds."""
        for name in names:
            self.check(node, name)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """`except ... as name`."""
        self.check(node, node.name)
        return self.node_contents_visit(node)

    # Attributes

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`a.b` is read through a guard; `a.b = c` is set on what a guard lets through."""
        name = mangled(node.attr, self.scopes[-1].class_name)
        reads = isinstance(node.ctx, ast.Load)
        if not (may_read(name) if reads else may_set(name)):
            self.refuse_attribute(node, name)
        node = self.node_contents_visit(node)
        if not reads:
            told = [ast.Constant(name)] if name.startswith("_") else []
            node.value = ast.copy_location(call(WRITE, node.value, *told), node)
            return ast.fix_missing_locations(node)
        guard = READ if name in DELICATE or name.startswith("_") else READ_PLAIN
        if is_own(name):
            guard = READ_OWN
        return ast.fix_missing_locations(ast.copy_location(call(guard, node.value, ast.Constant(name)), node))

    def refuse_attribute(self, node: ast.AST, name: str) -> None:
        """Say that no object's attribute of this name can be used."""
        self.refuse(node, f"the attribute {name!r} is not available here", ATTRIBUTE_HINT)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`a.b += c` reads what it sets, once; the names that need a look at the object cannot be looked at here."""
        if isinstance(node.target, ast.Attribute) and node.target.attr in DELICATE:
            self.refuse_attribute(node, node.target.attr)
        return self.node_contents_visit(node)

    def plain(self, node: ast.AST) -> ast.AST:
        """Let the node through with its contents visited."""
        return self.node_contents_visit(node)
