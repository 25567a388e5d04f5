"""What stands on the slides of PowerPoint? A heading for each, and its texts and tables, in the order of the show."""

from __future__ import annotations

from collections.abc import Iterator

from agentkit.reading.office.archive import Archive, Event
from agentkit.reading.office.paragraphs import OpenXMLText

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
            slide.see(event)
        title = " ".join(" ".join(slide.titles).split())
        yield f"## Slide {number}: {title}" if title else f"## Slide {number}"
        yield from slide.texts


class _Slide(OpenXMLText):
    """The titles of a slide, and its other texts, as they are seen."""

    def __init__(self) -> None:
        super().__init__()
        self.titles, self.texts = list[str](), list[str]()
        self._is_title = False

    def see(self, event: Event) -> None:
        """Take in what comes next."""
        (self.titles if self._is_title and event.name == "p" else self.texts).extend(self.take(event))

    def begun(self, event: Event) -> None:
        """Whether what follows is a title: a shape is none, until it says so."""
        if event.name in ("sp", "ph"):
            self._is_title = event.get("type") in _TITLES
