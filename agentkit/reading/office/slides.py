"""What stands on the slides of PowerPoint? A heading for each, and its texts and tables, in the order of the show."""

from __future__ import annotations

from collections.abc import Iterator

from agentkit.reading.office.archive import Archive, Event, Paragraphs

_SHOW = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")


def paragraphs(archive: Archive) -> Iterator[str]:
    """The texts of all slides."""
    places = archive.related(_SHOW)
    ids = [event.attributes for event in archive.events(_SHOW) if event.name == "sldId" and event.kind == "start"]
    shown = [next((value for key, value in each.items() if key.endswith(":id")), "") for each in ids]
    for number, each in enumerate(shown, 1):
        slide = _Slide()
        for event in archive.events(places.get(each, "")):
            slide.take(event)
        title = " ".join(" ".join(slide.titles).split())
        yield f"## Slide {number}: {title}" if title else f"## Slide {number}"
        yield from slide.texts


class _Slide:
    """The titles of a slide, and its other texts, as they are taken in."""

    def __init__(self) -> None:
        self.titles, self.texts = list[str](), list[str]()
        self._built = Paragraphs()
        self._is_title = self._is_text = False

    def take(self, event: Event) -> None:
        """Take in what comes next."""
        if event.kind == "text":
            self._built.add(event.text if self._is_text else "")
        elif event.name == "t":
            self._is_text = event.kind == "start"
        elif event.kind == "start":
            self._begin(event)
        elif event.name == "p":
            (self.titles if self._is_title else self.texts).extend(self._built.end(str))
        elif event.name == "tbl":
            self.texts.extend(self._built.end_table())

    def _begin(self, event: Event) -> None:
        if event.name in ("sp", "ph"):
            self._is_title = event.get("type") in _TITLES
        self._built.add("\n" if event.name == "br" else "")
        self._built.begin(event.name)
