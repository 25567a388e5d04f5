"""How are patterns matched, whose attributes Python reads without a guard?"""

import ast

from agentkit.sandbox.guard.names import may_be_matched
from agentkit.sandbox.guard.syntax.expressions import BOXED, MATCHABLE, Expressions, call


class Patterns(Expressions):
    """`match` statements.

    The classes of a case are looked at by a case in front of it that never matches, and keeps them under names of
    its own; the values that patterns compare with are read by a guard.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[ast.expr] = []
        self.most_looked_at = 0

    visit_Match = visit_MatchSequence = visit_MatchSingleton = visit_MatchOr = Expressions.plain

    def visit_match_case(self, node: ast.match_case) -> list[ast.match_case]:
        """One case, with the one that looks at its classes."""
        around, self.looked_at = self.looked_at, []
        node.pattern = self.visit(node.pattern)
        looked_at, self.looked_at = self.looked_at, around
        node.guard = self.visit(node.guard) if node.guard else None
        node.body = self.visit_all(node.body)
        if not looked_at:
            return [node]
        self.most_looked_at = max(self.most_looked_at, len(looked_at))
        never = ast.UnaryOp(ast.Not(), ast.Tuple(looked_at, ast.Load()))
        skipped = ast.copy_location(ast.Pass(), node.pattern)
        never = ast.fix_missing_locations(ast.copy_location(never, node.pattern))
        look = ast.match_case(ast.copy_location(ast.MatchAs(), node.pattern), never, [skipped])
        return [look, node]

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        """A constant or `Color.RED`, whose attributes Python reads without a guard."""
        node.value = self.compared(node.value)
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        """`Point(x=0)` reads attributes without a guard, so only names that are harmless on every object."""
        wanted = call(MATCHABLE, self.visit(node.cls), ast.Constant(len(node.patterns)))
        kept = f".{len(self.looked_at)}"
        self.looked_at.append(ast.NamedExpr(ast.Name(kept, ast.Store()), wanted))
        node.cls = ast.copy_location(ast.Name(kept, ast.Load()), node.cls)
        for name in node.kwd_attrs:
            if not may_be_matched(name):
                self.refuse_attribute(node, name)
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        node.kwd_patterns = [self.visit(pattern) for pattern in node.kwd_patterns]
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        """`{"kind": kind, **rest}`."""
        self.check(node, node.rest)
        node.keys = [self.compared(key) for key in node.keys]
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        return node

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> ast.AST:
        """`pattern as name`, or a name alone."""
        self.check(node, node.name)
        return self.node_contents_visit(node)

    visit_MatchStar = visit_MatchAs

    def compared(self, node: ast.expr) -> ast.expr:
        """A constant, or an attribute that a guard reads and puts where a pattern can take it from."""
        if not isinstance(node, ast.Attribute):
            return node
        boxed = ast.Attribute(call(BOXED, self.visit(node)), "value", ast.Load())
        return ast.fix_missing_locations(ast.copy_location(boxed, node))
