"""PowerPoint presentations as Markdown: slides with titles, texts, tables, charts and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentkit.documents.archive import Archive, Relationship, XMLEvent
from agentkit.documents.openxml import OpenXMLText, related_paragraphs

_SHOW = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_NOT_NOTES = ("sldImg", "sldNum", "hdr", "ftr", "dt")


def slide_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the texts of all slides."""
    places = archive.relationships(_SHOW)
    ids = [event.attributes for event in archive.events(_SHOW) if event.name == "sldId" and event.kind == "start"]
    shown = [next((value for key, value in each.items() if key.endswith(":id")), "") for each in ids]
    for number, each in enumerate(shown, 1):
        name = places[each].target if each in places else ""
        related = archive.relationships(name) if name else {}
        slide = _Slide(related)
        for event in archive.events(name):
            slide.see(event)
        title = " ".join(" ".join(slide.titles).split())
        yield f"## Slide {number}: {title}" if title else f"## Slide {number}"
        yield from slide.texts
        yield from related_paragraphs(archive, slide)
        for part in related.values():
            yield from _notes(archive, part.target) if part.kind == "notesSlide" else ()


def _notes(archive: Archive, name: str) -> Iterator[str]:
    reader = _Slide()
    for event in archive.events(name):
        reader.see(event)
    if reader.texts:
        yield "Notes: " + "\n".join(reader.texts)


class _Slide(OpenXMLText):
    """Collects the titles of a slide, and its other texts."""

    def __init__(self, relationships: Mapping[str, Relationship] | None = None) -> None:
        super().__init__(relationships)
        self.titles, self.texts = list[str](), list[str]()
        self._kind = ""

    def see(self, event: XMLEvent) -> None:
        """Handle an event."""
        texts = self.take(event)
        if self._kind in _NOT_NOTES:
            list(texts)
        else:
            (self.titles if self._kind in _TITLES and event.name == "p" else self.texts).extend(texts)

    def begun(self, event: XMLEvent) -> None:
        """Detect the kind of the shape from its placeholder, such as a title or a slide number."""
        if event.name in ("sp", "ph"):
            self._kind = event.get("type")
