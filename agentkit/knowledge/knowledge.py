"""What do the documents say? Knowledge: documents in, passages out, each with its source and position."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Never

from agentkit.errors import ConfigError, MissingExtra, ToolError
from agentkit.knowledge import finding
from agentkit.knowledge.answering import MOST_PASSAGES, KnowledgeTool, knowledge_tool
from agentkit.knowledge.collection import Collection, check_search, checked_metadata
from agentkit.knowledge.cutting import Cut, cut
from agentkit.knowledge.finding import Found
from agentkit.knowledge.passages import Document, Passage, Report, Scope, Wanted, checked_wanted
from agentkit.knowledge.ranking import Rerank, Rewrite, reranked, wordings
from agentkit.knowledge.reading.formats import KINDS, READING_VERSION, Content, read, read_text
from agentkit.knowledge.stores.opening import Place
from agentkit.knowledge.stores.store import Kept, embedded_text
from agentkit.knowledge.vectors import Embedding, refuse_awaiting
from agentkit.naming import refuse_made
from agentkit.safety.addresses import AddressRules
from agentkit.tools.web.connection import Connection
from agentkit.tools.web.texts import without_controls

_RERANKED = 20
"""How many passages are judged at most by `rerank=`."""

_SPACE = "knowledge"
_MEANT = "An address begins with https:// or http://; a text of your own is added by add_text()."


class Knowledge(Collection):
    """Documents that are searched for passages, in one file that any number of processes may share.

    Args:
        place: A file, `:memory:`, the URL of a PostgreSQL database, or a store.
        name: One place may hold several collections of documents, which know nothing of each other.
        embed: What makes vectors of texts, so that passages are found by meaning, too: the name of a model, as in
            `openai:text-embedding-3-small`, an LLM, or a function.
        embed_question: The same for questions, where a model has another one for these.
        rewrite: A function that gives other wordings of a question, or `rewrite_with(llm)`.
        rerank: A function that puts passages in order, or `rerank_with(llm)`.
        passage_chars, overlap_chars: How long a passage may be, and how much of it the next one tells again.
        connection: How web pages are fetched, when not as `fetch_url` does.
        folder: The folder whose files `refresh` may read; by default the current one and the one of the file, unless
            that is the user's home or lies above it. A file of somebody else may name any place of this machine.

    Raises ConfigError for arguments that cannot be, and KnowledgeError when the place cannot be read or written.
    """

    def __init__(
        self,
        place: Place,
        *,
        name: str = "default",
        embed: Embedding | None = None,
        embed_question: Embedding | None = None,
        rewrite: Rewrite | None = None,
        rerank: Rerank | None = None,
        passage_chars: int = 1_200,
        overlap_chars: int = 150,
        connection: Connection | None = None,
        folder: str | os.PathLike[str] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_made(Knowledge, unknown)
        super().__init__(place, f"{_SPACE}/{without_controls(name)}", embed, embed_question)
        self.name = name
        refuse_awaiting("rewrite", rewrite)
        refuse_awaiting("rerank", rerank)
        self._rewrite, self._rerank = rewrite, rerank
        self._cut = Cut(passage_chars, overlap_chars)
        self._connection = connection or Connection(AddressRules())
        files: tuple[str, ...] = getattr(self.store, "files", ())
        self._folders = finding.usual_folders(next(iter(files), "")) if folder is None else (finding.spelled(folder),)
        self._added: set[str] = set()

    def __repr__(self) -> str:
        return f"Knowledge({self.store!r}, name={self.name!r})"

    @property
    def documents(self) -> list[Document]:
        """What is known, in the order of the sources."""
        return self.store.documents(self._space)

    def add(self, *places: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None) -> Report:
        """Add files, folders and web pages, or bring them up to date.

        What has not changed is not read into passages again; what was added from a place and is not there any more is
        removed. A folder is read with all in it, but for hidden files, links, installed packages and what may hold
        secrets. What cannot be read stands in the report, with the reason. Raises ConfigError for a file or folder that
        is not there and never was.
        """
        known = checked_metadata(metadata)
        report = Report()
        for place in map(finding.spelled, places):
            report += self._add_place(place, known)
            self._added.add(place)
        return report

    def add_text(
        self,
        text: str,
        source: str,
        *,
        title: str = "",
        kind: str = "markdown",
        metadata: Mapping[str, Any] | None = None,
    ) -> Report:
        """Add a text under a name of your own. Its kind is markdown, text, python, code or data."""
        if kind not in KINDS or kind in ("html", "office", "pdf"):
            raise ConfigError(f"kind= takes markdown, text, python, code or data; not {kind!r}.")
        plain, name = without_controls(text), without_controls(source)
        if not name or finding.is_url(name) or "\n" in name:
            raise ConfigError("source= takes a name for the text, of one line. For a web page use add().")
        known = checked_metadata(metadata)
        given = without_controls(title)
        fingerprint = self._fingerprint(plain.encode(), [kind, given, known])
        before = next((each for each in self.store.documents(self._space, name) if each.source == name), None)
        if before is not None and before.fingerprint == fingerprint:
            return Report(unchanged=(name,))
        content = read_text(plain, kind)
        return self._keep(replace(content, title=given or content.title), name, fingerprint, known, before)

    @property
    def outside(self) -> tuple[str, ...]:
        """The places that `refresh` leaves out: files and folders outside those that the knowledge is for.

        A place that this object has added is not among them.
        """
        return tuple(place for place in self.store.places(self._space) if self._is_outside(place))

    def refresh(self, *, outside: bool | Iterable[str] = False) -> Report:
        """Bring everything up to date that was added from files, folders and the web.

        Which places these are, the file says, and it may be somebody else's. Files and folders outside the folders that
        the knowledge is for are therefore not read, and stand in the report, unless `outside` is true or names them.
        """
        allowed = frozenset[str]() if isinstance(outside, bool) else frozenset(outside)
        report = Report()
        for place, metadata in self.store.places(self._space).items():
            if outside is True or place in allowed or not self._is_outside(place):
                report += self._add_place(place, metadata)
            else:
                report += Report(outside=(place,))
        return report

    def _is_outside(self, place: str) -> bool:
        if finding.is_url(place) or place in self._added:
            return False
        return not finding.is_inside(place, self._folders)

    def remove(self, *sources: str | os.PathLike[str]) -> list[str]:
        """Forget documents, by their sources or by the folders they are in; the sources that were forgotten.

        A folder that was added is no longer brought up to date by `refresh`.
        """
        places = [name for source in sources for name in (os.fspath(source), finding.spelled(source))]
        below = [source for place in dict.fromkeys(places) for source in self._known_at(place)]
        self.store.drop_places(self._space, places)
        return self.store.remove(self._space, dict.fromkeys(below))

    def search(
        self,
        question: str,
        limit: int = 5,
        *,
        where: Wanted | None = None,
        source: str | None = None,
        kind: str | None = None,
        **unknown: Never,
    ) -> list[Passage]:
        """The passages that answer a question best, the best first; none when no word and no meaning is shared.

        `where` names metadata that a document must have: a value, one of several, or `Between(low, high)`. `source`
        is a source in which `*` stands for anything, `kind` one of the formats.
        """
        refuse_made(Knowledge.search, unknown)
        check_search(question, limit)
        if kind is not None and kind not in KINDS:
            raise ConfigError(f"kind= takes one of {', '.join(KINDS)}; not {kind!r:.200}.")
        scope = Scope(self._space, checked_wanted(where), without_controls(source) if source else None, kind)
        queries = wordings(question, self._rewrite)
        found = self._ranked(scope, queries, limit)
        found = found[: max(limit, _RERANKED) if self._rerank else limit]
        known = self.store.passages([number for number, _ in found])
        passages = [replace(known[number], score=score) for number, score in found if number in known]
        return reranked(question, passages, self._rerank)[:limit]

    def as_tool(
        self,
        name: str = "search_knowledge",
        *,
        limit: int = 5,
        where: Wanted | None = None,
        is_private: bool = True,
        **unknown: Never,
    ) -> KnowledgeTool:
        """The tool by which a model searches: passages with source, position and score, so that its answers cite.

        Its results are untrusted, and private unless told otherwise. `where` bounds what the model can find.
        """
        refuse_made(Knowledge.as_tool, unknown)
        if not 1 <= limit <= MOST_PASSAGES:
            raise ConfigError(f"limit= takes 1 to {MOST_PASSAGES} passages; not {limit!r}.")
        return knowledge_tool(partial(self.search, limit=limit, where=where), name, is_private=is_private)

    def _add_place(self, place: str, metadata: Mapping[str, Any]) -> Report:
        """One place: what is there is kept, what was there is removed."""
        before = self._known_at(place)
        report = Report()
        there: set[str] = set()
        for found in self._documents_at(place):
            there.add(found.source)
            report += self._keep_found(found, metadata, before.get(found.source))
        if not there and not before and not Path(place).is_dir():
            raise ConfigError(f"There is no file or folder {place}. {_MEANT}")
        report += Report(removed=tuple(self.store.remove(self._space, sorted(before.keys() - there))))
        self.store.keep_place(self._space, place, metadata)
        if self._vectors is not None:
            self._vectors.make_rest()
        return report

    def _known_at(self, place: str) -> dict[str, Document]:
        """The documents that were added from a place, by their sources."""
        folder = f"{place.removesuffix('/')}/"
        known = self.store.documents(self._space, place)
        return {each.source: each for each in known if each.source == place or each.source.startswith(folder)}

    def _documents_at(self, place: str) -> Iterable[Found]:
        if finding.is_url(place):
            return [finding.found_on_web(place, self._connection)]
        files = finding.files_below(place) if Path(place).is_dir() else [place] if os.path.lexists(place) else []
        own: tuple[str, ...] = getattr(self.store, "files", ())
        return (finding.found_in_file(path, own) for path in files)

    def _keep_found(self, found: Found, metadata: Mapping[str, Any], before: Document | None) -> Report:
        """Keep a document that was found, unless it has not changed."""
        if found.body is None:
            return Report(skipped={found.source: found.fault})
        fingerprint = self._fingerprint(found.body, [found.content_type, metadata])
        if before is not None and before.fingerprint == fingerprint:
            return Report(unchanged=(found.source,))
        try:
            content = read(found.body, found.source, found.content_type)
        except (ToolError, MissingExtra) as error:
            removed = self.store.remove(self._space, [found.source])
            return Report(removed=tuple(removed), skipped={found.source: str(error)})
        return self._keep(content, found.source, fingerprint, metadata, before)

    def _keep(
        self, content: Content, source: str, fingerprint: str, metadata: Mapping[str, Any], before: Document | None
    ) -> Report:
        pieces = cut(content.blocks, self._cut)
        vectors = None
        if self._vectors is not None:
            texts = [embedded_text(content.title, piece.section, piece.text) for piece in pieces]
            vectors = self._vectors.of_passages(texts)
        document = Document(source, content.title, content.kind, fingerprint, time.time(), metadata)
        self.store.put(self._space, Kept(document, pieces, vectors))
        sources = (source,)
        return Report(updated=sources if before else (), added=() if before else sources, passages=len(pieces))

    def _fingerprint(self, body: bytes, settings: list[Any]) -> str:
        """What changes when a document must be kept anew."""
        how = [READING_VERSION, self._cut.passage_chars, self._cut.overlap_chars, *settings]
        return sha256(json.dumps(how, sort_keys=True).encode() + b"\0" + body).hexdigest()
