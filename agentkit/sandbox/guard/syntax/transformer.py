"""What of Python's syntax is let through, and where do guards stand in it?

The engine refuses every kind of syntax that has no `visit_` method, so what a new Python adds stays refused until it
is looked at.
"""

import ast

from agentkit.sandbox.guard.facades.modules import TABLE, missing, names_of
from agentkit.sandbox.guard.names import LITERALS, is_own, may_be_matched
from agentkit.sandbox.guard.syntax.expressions import GUARDS, IMPORT, IMPORT_FROM, OPAQUE, SHOW, Expressions, call
from agentkit.sandbox.guard.syntax.patterns import Patterns


class Language(Patterns):
    """The visitor: what it does not mention is the engine's default."""

    # Assignment and iteration: plain, as no container here answers differently to a guard

    visit_For = visit_With = visit_comprehension = visit_Call = visit_Subscript = Expressions.plain

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """An assignment; `__slots__` and `__match_args__` are literals."""
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if names & LITERALS and self.scopes[-1].kind == "class" and len(node.targets) == 1:
            if not is_literal_of_names(node.value):
                self.refuse(node, "this must be a literal list of plain names", 'write `__slots__ = ("x", "y")`')
            return node
        return self.node_contents_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """An annotated variable.

        Dataclasses look for the word ClassVar in annotations kept as text, in a module that is not there.
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
        """An annotation is an expression like others, unless it is kept as text, which nothing here evaluates."""
        return node if self.annotations_are_text else self.visit(node)

    # Functions and classes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """A function: its decorators and defaults belong to the scope around it."""
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
        """A lambda."""
        return self.in_scope("function", node, self.scopes[-1].class_name)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class: its body sees the guards as globals whatever namespace it fills."""
        self.check(node, node.name)
        self.in_scope("class", node, node.name)
        kept = [f".{number}" for number in range(self.most_looked_at)]
        node.body.insert(int(has_doc(node.body)), ast.copy_location(ast.Global([*GUARDS, *kept]), node.body[0]))
        return node

    # Modules

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """The program: the value of a last expression is shown."""
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
        """`try`: an import in it may be missing without stopping the program before it starts."""
        self.try_depth += bool(node.handlers)
        node.body = self.visit_all(node.body)
        self.try_depth -= bool(node.handlers)
        node.handlers = [self.visit(handler) for handler in node.handlers]
        node.orelse = self.visit_all(node.orelse)
        node.finalbody = self.visit_all(node.finalbody)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """`import a.b as c` asks the guard for a facade."""
        statements = []
        for alias in node.names:
            name, _, _ = alias.name.partition(".")
            self.check_module(node, alias.name)
            self.check(node, alias.asname or name)
            wanted = call(IMPORT, ast.Constant(alias.name), ast.Constant(alias.asname or ""))
            statements.append(assign(alias.asname or name, wanted, node))
        return statements

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        """`from a import b` asks the guard for one name of a facade; `*` is all of its names."""
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
            wanted = call(IMPORT_FROM, ast.Constant(module), ast.Constant(name))
            statements.append(assign(bound, wanted, node))
        return statements

    def check_module(self, node: ast.AST, module: str) -> None:
        """Refuse a module that is not there before anything runs, unless the program is ready for that."""
        if module not in TABLE and not self.try_depth:
            self.refuse(node, *missing(module))


def assign(name: str, value: ast.expr, node: ast.stmt) -> ast.stmt:
    """`name = value`, said to stand where the node stands."""
    return assign_to(ast.Name(name, ast.Store()), value, node)


def assign_to(target: ast.expr, value: ast.expr, node: ast.stmt) -> ast.stmt:
    """`target = value`, said to stand where the node stands."""
    statement = ast.Assign(targets=[target], value=value)
    return ast.fix_missing_locations(ast.copy_location(statement, node))


def has_doc(body: list[ast.stmt]) -> bool:
    """Whether the first statement is a documentation text."""
    return isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def parameters(arguments: ast.arguments) -> list[str]:
    """The names of the positional parameters."""
    found = [*arguments.posonlyargs, *arguments.args, *([arguments.vararg] if arguments.vararg else [])]
    return [argument.arg for argument in found]


def opaque(name: str, node: ast.stmt) -> ast.stmt:
    """A statement that takes real tracebacks away from a name."""
    return assign(name, call(OPAQUE, ast.Name(name, ast.Load())), node)


def is_literal_of_names(node: ast.expr) -> bool:
    """Whether the expression is one name, or a list or tuple of names, each a plain string."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return all(
        isinstance(part, ast.Constant)
        and type(part.value) is str
        and (may_be_matched(part.value) or is_own(part.value))
        for part in parts
    )
