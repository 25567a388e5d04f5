"""Sphinx configuration of the documentation site, which `make docs` builds.

The navigation is generated from the lists in index.md and docs/decisions/README.md. A page that is in no list is an
orphan and fails the build.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "agentkit"
html_title = project
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**"]
exclude_patterns = ["docs/site/**", "**/.*", "build/**"]
myst_heading_anchors = 4
nitpicky = True
html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
templates_path = ["templates"]
html_additional_pages = {"index": "redirect.html"}
html_theme_options = {"navigation_with_keys": True}
pygments_style = "tango"
pygments_dark_style = "monokai"

_LISTED = re.compile(r"^(?:- |\d+\. )\[(?P<title>[^\]]+)\]\((?P<page>[^):#]+)\.md\)", re.MULTILINE)
_LISTING = {"docs/index", "docs/decisions/README"}


def _add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """Add a hidden table of contents for each list of pages."""
    if name not in _LISTING:
        return
    parts = re.split(r"(?m)^(?=## )", source[0])
    source[0] = "\n".join(part + _contents(part, is_captioned=Path(name).name == "index") for part in parts)


def _contents(part: str, *, is_captioned: bool) -> str:
    """Render the links in a section of a page as a hidden table of contents, captioned with the section's heading."""
    listed = [f"{match['title'].replace('`', '')} <{match['page']}>" for match in _LISTED.finditer(part)]
    heading = re.match(r"## (.+)", part)
    caption = f":caption: {heading[1]}\n" if heading and is_captioned else ""
    rows = "\n".join(listed)
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n{rows}\n```\n" if listed else ""


def setup(app: Sphinx) -> None:
    """Register the navigation with Sphinx."""
    app.connect("source-read", _add_navigation)
