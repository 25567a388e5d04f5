"""The documentation site has no broken links, no orphans and no external resources."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECTIONS = {"Getting started", "Agents", "Tools", "Models", "Reference", "Project"}


class Links(HTMLParser):
    """The resources, links and anchors of a page of the site."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """Record the resources, links and anchors of a tag."""
        given = dict(attributes)
        self.anchors.add(given.get("id"))
        loading = given.get("src") or (given.get("href") if tag == "link" else None)
        if loading:
            self.loaded.append(loading)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])


def build(source, site):
    """Build a site as `make docs` does."""
    options = ["-q", "-W", "--keep-going", "-c", str(ROOT / "docs" / "site"), "-d", str(site.parent / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(site)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors."""
    subprocess.run([sys.executable, str(ROOT / "docs" / "site" / "reference")], timeout=300, check=True)
    folder = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Return every page of the site, parsed."""
    return {path: Links(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def test_site_has_every_page(site):
    """The site has a page for each Markdown page of docs/ and for the README."""
    sources = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    wanted = [source.relative_to(ROOT).with_suffix(".html") for source in sources]
    assert [page for page in wanted if not (site / page).is_file()] == []


def test_site_loads_nothing_from_other_hosts(site, pages):
    """No page loads a script, style, font or image from another host."""
    outside = re.compile(r"^(?:[a-z]+:)?//")
    assert [(path.name, url) for path, page in pages.items() for url in page.loaded if outside.match(url)] == []
    styles = [path.read_text("utf-8", errors="replace") for path in site.rglob("*.css")]
    assert [found for style in styles for found in re.findall(r"(?:@import|url\()[^;)]*//[^;)]*", style)] == []


def test_every_link_of_the_site_leads_somewhere(site, pages):
    """Every internal link matches a page and anchor, also when the site is opened as files."""
    broken = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            found = (path.parent / target.partition("?")[0]).resolve() if target else path
            exists = found.is_file() and (not anchor or found not in pages or anchor in pages[found].anchors)
            if not exists:
                broken.append((path.relative_to(site).as_posix(), link))
    assert broken == []


def test_index_has_its_sections(site):
    """The front page has sections for a start, the main concepts, the reference and the project."""
    text = (site / "docs" / "index.html").read_text("utf-8")
    assert set(re.findall(r"<h2>([^<]+)<", text)) >= SECTIONS
    assert "docs/index.html" in (site / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("# Home\n\n## Pages\n\nNone.\n", "isn't included in any toctree"),
        ("# Home\n\n## Pages\n\n- [Other](other.md)\n\nSee [this](nowhere.md).\n", "nowhere.md"),
        ("# Home\n\n## Pages\n\n- [Other](other.md)\n\nSee [this](other.md#nothing).\n", "nothing"),
    ],
)
def test_wrong_page_fails_the_build(page, complaint, tmp_path):
    """An orphan page, a link to a missing page and a link to a missing heading fail the build."""
    (docs := tmp_path / "source" / "docs").mkdir(parents=True)
    (docs / "index.md").write_text(page, "utf-8")
    (docs / "other.md").write_text("# Other\n\nA page.\n", "utf-8")
    done = build(tmp_path / "source", tmp_path / "html")
    assert done.returncode != 0
    assert complaint in done.stderr
