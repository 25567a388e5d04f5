"""The syntax transformer: refuses syntax that is not listed and guards accesses.

The engine refuses every kind of syntax without a `visit_` method, so syntax of new Python versions is refused until it
has been reviewed.

Guards are global names with a leading dot, which are not valid in programs: they can neither read nor shadow them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from agentkit.sandbox.guard.module_facades import TABLE, missing, names_of
from agentkit.sandbox.guard.name_rules import (
    DEFINABLE,
    DELICATE,
    ENUM_NAMES,
    LITERALS,
    MODULE_METADATA,
    is_dunder,
    is_own,
    mangled,
    may_be_matched,
    may_read,
    may_set,
)

if TYPE_CHECKING:
    from RestrictedPython.transformer import RestrictingNodeTransformer as Engine
else:
    Engine = object

READ, READ_OWN, READ_PLAIN, WRITE, IMPORT, IMPORT_FROM, SHOW, MATCHABLE, BOXED, OPAQUE = GUARDS = (
    *(".read", ".read_own", ".read_plain", ".write", ".import", ".import_from", ".show", ".matchable", ".boxed"),
    *(".opaque",),
)


ATTRIBUTE_HINT = "attributes that lead to Python's own machinery are closed; use the object's public methods"
REFUSED_SYNTAX = {
    "TryStar": ("`except*` is not available here", "catch the exceptions with `except`"),
    "TypeAlias": ("`type X = ...` is not available here", "write `X = ...`"),
    "TypeVar": ("type parameters in brackets are not available here", "write `T = TypeVar('T')` and Generic[T]"),
    "ParamSpec": ("type parameters in brackets are not available here", "write `P = ParamSpec('P')`"),
    "TypeVarTuple": ("type parameters in brackets are not available here", "leave the annotation out"),
}


class SyntaxRefusal(NamedTuple):
    """A piece of code refused before the run."""

    line: int
    message: str
    hint: str = ""


class NameScope(NamedTuple):
    """The scope of a name: module, class or function."""

    kind: str
    class_name: str | None


def call(guard: str, *arguments: ast.expr) -> ast.Call:
    """Create a call of a guard."""
    return ast.Call(func=ast.Name(guard, ast.Load()), args=list(arguments), keywords=[])


class Expressions(Engine):
    """Names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[SyntaxRefusal] = []
        self.scopes = [NameScope("module", None)]
        self.try_depth = 0
        self.annotations_are_text = False

    def refuse(self, node: ast.AST, message: str, hint: str = "") -> None:
        """Record that this node must not run."""
        self.refusals.append(SyntaxRefusal(getattr(node, "lineno", 1), message, hint))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Refuse unknown syntax; the node stays, because a tree with holes cannot be visited."""
        self.not_allowed(node)
        return node

    def not_allowed(self, node: ast.AST) -> None:
        """Handle the engine's refusal of a kind of syntax."""
        kind = type(node).__name__
        self.refuse(node, *REFUSED_SYNTAX.get(kind, (f"this kind of syntax ({kind}) is not available here",)))

    def visit_TryStar(self, node: ast.AST) -> ast.AST:
        """Refuse `except*`: it calls methods of exceptions that their classes can forge."""
        return self.generic_visit(node)

    def error(self, node: ast.AST, info: str) -> None:
        """Handle any other error reported by the engine."""
        self.refuse(node, info)

    def in_scope(self, kind: str, node: ast.AST, class_name: str | None) -> ast.AST:
        """Visit the contents of a class or function."""
        self.scopes.append(NameScope(kind, class_name))
        depth, self.try_depth = self.try_depth, 0
        node = self.node_contents_visit(node)
        self.try_depth = depth
        self.scopes.pop()
        return node

    def visit_all(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Visit statements, each of which can be replaced by several."""
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
        if scope == "class" and (name in DEFINABLE or name in ENUM_NAMES):
            return
        if scope == "module" and name in MODULE_METADATA:
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
        """Check a parameter."""
        self.check(node, node.arg)
        return self.node_contents_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """Check a keyword argument."""
        self.check(node.value, node.arg)
        return self.node_contents_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.AST:
        """Check the names of `global`."""
        return self.check_names(node, node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        """Check the names of `nonlocal`."""
        return self.check_names(node, node.names)

    def check_names(self, node: ast.AST, names: list[str]) -> ast.AST:
        """Check each name that a statement binds."""
        for name in names:
            self.check(node, name)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Check `except ... as name`."""
        self.check(node, node.name)
        return self.node_contents_visit(node)

    # Attributes

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Read `a.b` through a guard; assign `a.b = c` to the object that a guard returns."""
        name = mangled(node.attr, self.scopes[-1].class_name)
        reads = isinstance(node.ctx, ast.Load)
        if not (may_read(name) if reads else may_set(name)):
            self.refuse_attribute(node, name)
        node = self.node_contents_visit(node)
        if not reads:
            name_argument = [ast.Constant(name)] if name.startswith("_") else []
            node.value = ast.copy_location(call(WRITE, node.value, *name_argument), node)
            return ast.fix_missing_locations(node)
        guard = READ if name in DELICATE or name.startswith("_") else READ_PLAIN
        if is_own(name):
            guard = READ_OWN
        return ast.fix_missing_locations(ast.copy_location(call(guard, node.value, ast.Constant(name)), node))

    def refuse_attribute(self, node: ast.AST, name: str) -> None:
        """Refuse an attribute name on every object."""
        self.refuse(node, f"the attribute {name!r} is not available here", ATTRIBUTE_HINT)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Refuse `a.b += c` for delicate names, whose object cannot be checked in this position."""
        if isinstance(node.target, ast.Attribute) and node.target.attr in DELICATE:
            self.refuse_attribute(node, node.target.attr)
        return self.node_contents_visit(node)

    def plain(self, node: ast.AST) -> ast.AST:
        """Allow the node and visit its contents."""
        return self.node_contents_visit(node)


class Patterns(Expressions):
    """`match` statements.

    A case that never matches is inserted before each case. It checks the classes of the case and stores them under
    reserved names. Values that patterns compare with are read by a guard.
    """

    def __init__(self) -> None:
        super().__init__()
        self.class_checks: list[ast.expr] = []
        self.max_class_checks = 0

    visit_Match = visit_MatchSequence = visit_MatchSingleton = visit_MatchOr = Expressions.plain

    def visit_match_case(self, node: ast.match_case) -> list[ast.match_case]:
        """Visit one case and insert the case that checks its classes."""
        around, self.class_checks = self.class_checks, []
        node.pattern = self.visit(node.pattern)
        class_checks, self.class_checks = self.class_checks, around
        node.guard = self.visit(node.guard) if node.guard else None
        node.body = self.visit_all(node.body)
        if not class_checks:
            return [node]
        self.max_class_checks = max(self.max_class_checks, len(class_checks))
        never = ast.UnaryOp(ast.Not(), ast.Tuple(class_checks, ast.Load()))
        skipped = ast.copy_location(ast.Pass(), node.pattern)
        never = ast.fix_missing_locations(ast.copy_location(never, node.pattern))
        look = ast.match_case(ast.copy_location(ast.MatchAs(), node.pattern), never, [skipped])
        return [look, node]

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        """Guard the attribute access in `Color.RED`, which Python would read without a guard."""
        node.value = self.compared(node.value)
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        """Allow only names that are harmless on every object: `Point(x=0)` reads attributes without a guard."""
        imported = call(MATCHABLE, self.visit(node.cls), ast.Constant(len(node.patterns)))
        kept = f".{len(self.class_checks)}"
        self.class_checks.append(ast.NamedExpr(ast.Name(kept, ast.Store()), imported))
        node.cls = ast.copy_location(ast.Name(kept, ast.Load()), node.cls)
        for name in node.kwd_attrs:
            if not may_be_matched(name):
                self.refuse_attribute(node, name)
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        node.kwd_patterns = [self.visit(pattern) for pattern in node.kwd_patterns]
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        """Check `{"kind": kind, **rest}`."""
        self.check(node, node.rest)
        node.keys = [self.compared(key) for key in node.keys]
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        return node

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> ast.AST:
        """Check the name in `pattern as name`."""
        self.check(node, node.name)
        return self.node_contents_visit(node)

    visit_MatchStar = visit_MatchAs

    def compared(self, node: ast.expr) -> ast.expr:
        """Return a constant unchanged; wrap an attribute read by a guard so that a pattern can use it."""
        if not isinstance(node, ast.Attribute):
            return node
        boxed = ast.Attribute(call(BOXED, self.visit(node)), "value", ast.Load())
        return ast.fix_missing_locations(ast.copy_location(boxed, node))


class GuardTransformer(Patterns):
    """The complete transformer; everything else uses the engine's defaults."""

    # Assignment and iteration need no guard: no container here behaves differently for one

    visit_For = visit_With = visit_comprehension = visit_Call = visit_Subscript = Expressions.plain

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Visit an assignment; `__slots__` and `__match_args__` must be literals."""
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if names & LITERALS and self.scopes[-1].kind == "class" and len(node.targets) == 1:
            if not is_literal_of_names(node.value):
                self.refuse(node, "this must be a literal list of plain names", 'write `__slots__ = ("x", "y")`')
            return node
        return self.node_contents_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Visit an annotated variable.

        Dataclasses search textual annotations for ClassVar in a module that does not exist here.
        """
        if self.annotations_are_text and "ClassVar" in ast.unparse(node.annotation).partition("[")[0]:
            return (
                self.visit(assign_to(node.target, node.value, node))
                if node.value
                else ast.copy_location(ast.Pass(), node)
            )
        node.target = self.visit(node.target)
        node.annotation = self.visit_annotation(node.annotation)
        if node.value:
            node.value = self.visit(node.value)
        return node

    def visit_annotation(self, node: ast.expr) -> ast.expr:
        """Visit an annotation unless annotations are text, which is never evaluated here."""
        return node if self.annotations_are_text else self.visit(node)

    # Functions and classes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Visit a function; its decorators and defaults belong to the enclosing scope."""
        self.check(node, node.name)
        leaves = self.scopes[-1].kind == "class" and node.name in {"__exit__", "__aexit__"}
        self.in_scope("function", node, self.scopes[-1].class_name)
        if leaves:
            start = int(has_doc(node.body))
            node.body[start:start] = [opaque(name, node) for name in parameters(node.args)]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_Await = visit_AsyncFor = visit_AsyncWith = Expressions.plain

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Visit a lambda."""
        return self.in_scope("function", node, self.scopes[-1].class_name)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Visit a class; its body accesses the guards as globals, whatever namespace it fills."""
        self.check(node, node.name)
        self.in_scope("class", node, node.name)
        kept = [f".{number}" for number in range(self.max_class_checks)]
        node.body.insert(int(has_doc(node.body)), ast.copy_location(ast.Global([*GUARDS, *kept]), node.body[0]))
        return node

    # Modules

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """Visit the program; the value of a final expression is shown."""
        self.annotations_are_text = any(
            isinstance(child, ast.ImportFrom)
            and child.module == "__future__"
            and not child.level
            and any(alias.name == "annotations" for alias in child.names)
            for child in node.body
        )
        last = node.body[-1] if node.body else None
        node = self.node_contents_visit(node)
        if isinstance(last, ast.Expr):
            last.value = ast.fix_missing_locations(ast.copy_location(call(SHOW, last.value), last.value))
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Visit `try`; an import inside it can be missing without the program being refused before it starts."""
        self.try_depth += bool(node.handlers)
        node.body = self.visit_all(node.body)
        self.try_depth -= bool(node.handlers)
        node.handlers = [self.visit(handler) for handler in node.handlers]
        node.orelse = self.visit_all(node.orelse)
        node.finalbody = self.visit_all(node.finalbody)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """Replace `import a.b as c` by a guard call that returns a facade."""
        statements = []
        for alias in node.names:
            name, _, _ = alias.name.partition(".")
            self.check_module(node, alias.name)
            self.check(node, alias.asname or name)
            imported = call(IMPORT, ast.Constant(alias.name), ast.Constant(alias.asname or ""))
            statements.append(assign(alias.asname or name, imported, node))
        return statements

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        """Replace `from a import b` by a guard call that returns one name of a facade; `*` binds all of its names."""
        module = node.module or ""
        if module == "__future__" and not node.level:
            return self.check_names(node, [alias.asname or alias.name for alias in node.names])
        self.check_module(node, "." * node.level + module)
        names = [(alias.name, alias.asname or alias.name) for alias in node.names]
        if names == [("*", "*")]:
            if len(self.scopes) > 1:
                self.refuse(node, "`import *` is only allowed at the top of the code", "import the names one by one")
            names = [(name, name) for name in names_of(module)]
        found = ast.Expr(call(IMPORT, ast.Constant(module), ast.Constant("*")))
        statements: list[ast.stmt] = [ast.fix_missing_locations(ast.copy_location(found, node))]
        for name, bound in names:
            self.check(node, bound)
            imported = call(IMPORT_FROM, ast.Constant(module), ast.Constant(name))
            statements.append(assign(bound, imported, node))
        return statements

    def check_module(self, node: ast.AST, module: str) -> None:
        """Refuse an unavailable module before the run, unless the program handles the error."""
        if module not in TABLE and not self.try_depth:
            self.refuse(node, *missing(module))


def assign(name: str, value: ast.expr, node: ast.stmt) -> ast.stmt:
    """Create `name = value` at the position of the node."""
    return assign_to(ast.Name(name, ast.Store()), value, node)


def assign_to(target: ast.expr, value: ast.expr, node: ast.stmt) -> ast.stmt:
    """Create `target = value` at the position of the node."""
    statement = ast.Assign(targets=[target], value=value)
    return ast.fix_missing_locations(ast.copy_location(statement, node))


def has_doc(body: list[ast.stmt]) -> bool:
    """Whether the first statement is a docstring."""
    return isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def parameters(arguments: ast.arguments) -> list[str]:
    """The names of the positional parameters."""
    found = [*arguments.posonlyargs, *arguments.args, *([arguments.vararg] if arguments.vararg else [])]
    return [argument.arg for argument in found]


def opaque(name: str, node: ast.stmt) -> ast.stmt:
    """Create a statement that replaces tracebacks in a variable."""
    return assign(name, call(OPAQUE, ast.Name(name, ast.Load())), node)


def is_literal_of_names(node: ast.expr) -> bool:
    """Whether the expression is a literal name or a list or tuple of literal names."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return all(
        isinstance(part, ast.Constant)
        and type(part.value) is str
        and (may_be_matched(part.value) or is_own(part.value))
        for part in parts
    )
