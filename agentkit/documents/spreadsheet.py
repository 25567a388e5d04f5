"""Excel workbooks as Markdown: each sheet as CSV, with the values that Excel shows in their number formats."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from agentkit.documents.archive import Archive, XMLEvent
from agentkit.documents.markdown import subscript, superscript
from agentkit.documents.openxml import OpenXMLText, chart_paragraphs

MAX_SHEET_CHARS = 20_000_000
"""The maximum number of characters rendered per sheet."""

_WORKBOOK = "xl/workbook.xml"
_COLUMN = re.compile(r"[A-Z]{1,3}")
_MARGINS = {name: name[-6:].capitalize() for name in ("oddHeader", "oddFooter", "firstHeader", "firstFooter")}
_MARGIN_CODE = re.compile(r'&(?:"[^"]*"|[0-9]+|K[0-9A-F]{6}|.)')
"""Codes in headers and footers, such as those of alignment, fonts and page numbers."""

_INDEX_WRITERS = {"superscript": superscript, "subscript": subscript}
_NO_CELL = XMLEvent("start", "c")
_MAX_COLUMNS = 1_000
_NO_VALUE = "(formula without a stored value)"


class _Workbook(NamedTuple):
    """Data shared by all sheets: the texts of cells, the format codes of cell styles, and the date system."""

    texts: Sequence[str]
    formats: Sequence[str]
    is_1904: bool


def sheet_paragraphs(archive: Archive) -> Iterator[str]:
    """Yield the sheets, each with its name and rows, comments, links and charts.

    A part that several sheets refer to is read once.
    """
    relationships = archive.relationships(_WORKBOOK)
    sheets: list[tuple[str, str]] = []
    is_1904 = False
    for event in archive.events(_WORKBOOK):
        if event.kind == "start" and event.name == "sheet":
            hidden = " (hidden)" if event.get("state") in ("hidden", "veryHidden") else ""
            sheets.append((f"## {event.get('name')}{hidden}", event.get("id")))
        elif event.kind == "start" and event.name == "workbookPr":
            is_1904 = event.get("date1904") in ("1", "true")
    workbook = _Workbook(_texts(archive), _formats(archive), is_1904)
    for heading, number in sheets:
        yield heading
        part = relationships.get(number)
        if part is not None:
            yield from _sheet(archive, part.target, workbook)


def _sheet(archive: Archive, name: str, workbook: _Workbook) -> Iterator[str]:
    reader = _SheetReader(workbook)
    yield _csv(reader.rows(archive.events(name)))
    yield "\n".join(reader.margins)
    related = archive.relationships(name)
    links = ((place, related[number]) for place, number in reader.links if number in related)
    yield "\n".join(f"Link in {place}: {found.target}" for place, found in links if found.is_external)
    for each in related.values():
        if each.kind == "comments":
            yield "\n".join(_comments(archive, each.target))
        elif each.kind == "drawing":
            boxes = OpenXMLText()
            for event in archive.events(each.target):
                yield from boxes.handle(event)
            for chart in archive.relationships(each.target).values():
                yield from chart_paragraphs(archive, chart.target) if chart.kind == "chart" else ()


def _texts(archive: Archive) -> list[str]:
    """The shared strings of cells, without phonetic hints."""
    texts, pieces, is_text, is_phonetic, position = list[str](), list[str](), False, False, ""
    for event in archive.events("xl/sharedStrings.xml"):
        if event.name == "si" and event.kind == "end":
            texts.append("".join(pieces))
            pieces.clear()
        elif event.name == "rPh":
            is_phonetic = event.kind == "start"
        elif event.name in ("r", "vertAlign") and event.kind == "start":
            position = event.get("val")
        elif event.name == "t":
            is_text = event.kind == "start"
        elif event.kind == "text" and is_text and not is_phonetic:
            pieces.append(_INDEX_WRITERS[position](event.text) if position in _INDEX_WRITERS else event.text)
    return texts


def _formats(archive: Archive) -> list[str]:
    """The number format of each cell style."""
    codes, styles, is_cell_style = dict(_BUILT_IN_FORMATS), list[str](), False
    for event in archive.events("xl/styles.xml"):
        if event.name == "numFmt":
            codes[event.get("numFmtId")] = event.get("formatCode")
        elif event.name == "cellXfs":
            is_cell_style = event.kind == "start"
        elif event.name == "xf" and event.kind == "start" and is_cell_style:
            styles.append(codes.get(event.get("numFmtId"), "General"))
    return styles


class _SheetReader:
    """Reads the rows of a sheet, and collects its links."""

    def __init__(self, workbook: _Workbook) -> None:
        self.links: list[tuple[str, str]] = []
        self.margins: list[str] = []
        self._workbook = workbook
        self._cell, self._part = _NO_CELL, ""
        self._value: list[str] = []
        self._formula: list[str] = []
        self._has_formula = False

    def rows(self, events: Iterator[XMLEvent]) -> Iterator[list[str]]:
        """Yield the texts of each row."""
        row, column = list[str](), 0
        for event in events:
            if event.name == "row" and event.kind == "end":
                yield row
                row, column = [], 0
            elif event.name == "c" and event.kind == "start":
                self._cell, column = event, _column(event.get("r"), column)
            elif event.name == "c" and event.kind == "end":
                text = self._text()
                row += [*[""] * (column - len(row)), text] if text else []
                column += 1
            else:
                self._handle(event)

    def _handle(self, event: XMLEvent) -> None:
        if event.name in _MARGINS:
            self._part = event.name if event.kind == "start" else ""
        elif event.kind == "text" and self._part in _MARGINS:
            text = " ".join(_MARGIN_CODE.sub(" ", event.text).split())
            self.margins += [f"{_MARGINS[self._part]}: {text}"] if text else []
        elif event.name in ("v", "t", "f"):
            self._part = event.name if event.kind == "start" else ""
            self._has_formula = self._has_formula or event.name == "f"
        elif event.kind == "text" and self._part:
            (self._formula if self._part == "f" else self._value).append(event.text)
        elif event.name == "hyperlink" and event.kind == "start" and event.get("id"):
            self.links.append((event.get("ref"), event.get("id")))

    def _text(self) -> str:
        """The text of the cell that ends."""
        value, formula = "".join(self._value), "".join(self._formula)
        has_formula = self._has_formula
        self._value.clear()
        self._formula.clear()
        self._has_formula = False
        if not value and has_formula:
            return f"={formula}" if formula else _NO_VALUE
        return _cell_text(value, self._cell, self._workbook)


def _cell_text(value: str, cell: XMLEvent, workbook: _Workbook) -> str:
    """Render the value of a cell."""
    kind, style = cell.get("t"), cell.get("s") or "0"
    if kind == "s":
        return workbook.texts[int(value)] if value.isdecimal() and int(value) < len(workbook.texts) else ""
    if kind == "b":
        return "true" if value == "1" else "false"
    if kind not in ("", "n") or not value:
        return value
    has_format = style.isdecimal() and int(style) < len(workbook.formats)
    return format_number(value, workbook.formats[int(style)] if has_format else "General", is_1904=workbook.is_1904)


def _column(reference: str, next_column: int) -> int:
    """The index of a cell's column, from 0; without a reference, the following column."""
    letters = _COLUMN.match(reference)
    number = 0
    for letter in letters[0] if letters else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return min(max(number - 1 if letters else next_column, next_column), max(_MAX_COLUMNS, next_column))


def _comments(archive: Archive, name: str) -> Iterator[str]:
    cell, pieces, is_text = "", list[str](), False
    for event in archive.events(name):
        if event.name == "comment" and event.kind == "start":
            cell = event.get("ref")
        elif event.name == "comment":
            yield f"Comment on {cell}: {' '.join(''.join(pieces).split())}"
            pieces.clear()
        elif event.name == "t":
            is_text = event.kind == "start"
        elif event.kind == "text" and is_text:
            pieces.append(event.text)


def _csv(rows: Iterator[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        room = MAX_SHEET_CHARS - out.tell()
        if room <= 0:
            break
        if row:
            ends = accumulate(len(cell) + 1 for cell in row)  # many cells can refer to one long text
            writer.writerow([cell[:room] for cell, end in zip(row, ends, strict=True) if end - len(cell) <= room])
    return out.getvalue().rstrip("\n")


_BUILT_IN_FORMATS = dict(
    re.findall(
        r"(\d+)=([^|]+)",
        "1=0|2=0.00|3=#,##0|4=#,##0.00|9=0%|10=0.00%|11=0.00E+00|12=# ?/?|13=# ??/??|14=yyyy-mm-dd|15=yyyy-mm-dd"
        "|16=yyyy-mm-dd|17=yyyy-mm-dd|18=hh:mm|19=hh:mm|20=hh:mm|21=hh:mm|22=yyyy-mm-dd hh:mm|37=#,##0;-#,##0"
        "|38=#,##0;-#,##0|39=#,##0.00;-#,##0.00|40=#,##0.00;-#,##0.00|45=mm:ss|46=[h]:mm:ss|47=mm:ss.0|48=##0.0E+0",
    )
)
"""The formats that have no code in the file, by number."""

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]')
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)
_COMPARISONS = dict(zip(("<", ">", "=", "<=", ">=", "<>"), (lt, gt, eq, le, ge, ne), strict=True))
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?[0-9.]+)\]")
_DIGITS = re.compile(r"[#0?](?:[#0?,.]*[#0?.])?,*")
_FRACTION = re.compile(r"(?:[#0?]+ +)?([#0?]+)/([0-9]+|[#0?]+)")
_SCIENTIFIC = re.compile(r"([#0?.,]+)E([+-])(0+)", re.IGNORECASE)
_MAX_CHARS = 200
_MAX_SHOWN_INTEGER = Decimal(10) ** 21
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
_NONEXISTENT_LEAP_DAY = 60
"""Excel counts a 29 February 1900; before it, its days are one more."""


def format_number(value: str, code: str, *, is_1904: bool = False) -> str:
    """The text that a spreadsheet shows for a number in this format; dates are written as in ISO 8601.

    The general format shows up to 15 significant digits. A format that is not understood shows the plain number.
    """
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    section, is_signed = _section(code[:_MAX_CHARS], number)
    if elapsed := _ELAPSED.search(section):
        return _duration(number, elapsed[1][0].lower(), section)
    bare = _LITERAL.sub("", section)
    if _DATE.search(bare) and "general" not in bare.lower():
        return _date(float(number), is_1904=is_1904) or value
    if not re.search(r"[0#?]", bare) or "general" in bare.lower():
        literal = "".join(filter(None, (found[1] or found[2] for found in _LITERAL.finditer(section))))
        return literal if literal and not bare.strip() else _general(value, number)
    text = _number(abs(number), section)
    return f"-{text}" if number < 0 and is_signed and re.search("[1-9]", text) else text


@lru_cache(maxsize=1_000)
def _sections(code: str) -> tuple[str, ...]:
    return tuple(re.findall(r'(?:"[^"]*"|\\.|\[[^\]]*\]|[^;])+|(?<=;)(?=;|$)', code)) or ("General",)


def _section(code: str, number: Decimal) -> tuple[str, bool]:
    """The section of a format for a number, by its condition or sign, and whether a negative number needs a sign."""
    sections = _sections(code)
    for section in sections[:3]:
        condition = _CONDITION.search(section)
        if condition and _COMPARISONS[condition[1]](number, Decimal(condition[2])):
            return section, True
    if _CONDITION.search(code):
        return sections[-1], True
    if len(sections) > 1 and number < 0:
        return sections[1] or sections[0], not sections[1]
    if len(sections) > 2 and number == 0:
        return sections[2] or sections[0], False
    return sections[0], True


def _general(value: str, number: Decimal) -> str:
    """Up to 15 significant digits, without an exponent where that is short."""
    if re.fullmatch(r"-?[0-9]{1,20}", value):
        return value
    text = f"{float(number):.15g}"
    if "e" not in text:
        return text
    return f"{number:.0f}" if 1 <= abs(number) < _MAX_SHOWN_INTEGER else text.upper()


def _date(days: float, *, is_1904: bool) -> str:
    """A number of days as a date, a time, or both; empty if it is out of range."""
    if 0 <= days < 1 and not is_1904:
        return f"{_EPOCH + timedelta(seconds=round(days * 86_400)):%H:%M:%S}"
    start = _EPOCH_1904 if is_1904 else _EPOCH
    try:
        moment = start + timedelta(seconds=round(days * 86_400), days=int(not is_1904 and days < _NONEXISTENT_LEAP_DAY))
    except OverflowError:
        return ""
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M:%S}"


def _duration(days: Decimal, unit: str, section: str) -> str:
    """Elapsed hours, minutes or seconds, as in `36:15`."""
    seconds = int((abs(days) * 86_400).to_integral_value(ROUND_HALF_UP))
    rest = _ELAPSED.sub("", section).lower()
    text = str(seconds // {"s": 1, "m": 60, "h": 3_600}[unit])
    if unit == "h" and ("m" in rest or "s" in rest):
        text += f":{seconds // 60 % 60:02}"
    text += f":{seconds % 60:02}" if unit != "s" and "s" in rest else ""
    return f"-{text}" if days < 0 else text


def _number(number: Decimal, section: str) -> str:
    """A number in a format of digits, with the literal text around it."""
    literals: list[str] = []

    def store_literal(found: re.Match[str]) -> str:
        literals.append(found[1] or found[2] or found[3] or "")
        return f"\x00{len(literals) - 1}\x01"

    plain = _LITERAL.sub(store_literal, section)
    number *= Decimal(100) ** plain.count("%")
    if scientific := _SCIENTIFIC.search(plain):
        text = plain[: scientific.start()] + _scientific(number, scientific) + plain[scientific.end() :]
    elif fraction := _FRACTION.search(plain):
        text = plain[: fraction.start()] + _fraction(number, fraction) + plain[fraction.end() :]
    else:
        text = _digits(number, plain)
    return re.sub("\x00([0-9]+)\x01", lambda found: literals[int(found[1])], text).strip()


def _digits(number: Decimal, plain: str) -> str:
    """Fill a pattern such as `#,##0.00`, or one whose digits have text between them, such as `000-00-0000`."""
    outside = re.sub("\x00[0-9]+\x01", lambda found: "\x02" * len(found[0]), plain)
    runs = list(_DIGITS.finditer(outside))
    first = runs[0]
    if len(runs) > 1:
        return _fill_pattern(number, plain, outside)
    pattern = first[0]
    scale = len(pattern) - len(pattern.rstrip(","))
    number /= Decimal(1_000) ** scale
    whole, _, decimals = pattern.rstrip(",").partition(".")
    places, min_places = len(decimals), decimals.count("0")
    rounded = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP) if number < _MAX_SHOWN_INTEGER else number
    text = f"{rounded:,.{places}f}" if "," in whole else f"{rounded:.{places}f}"
    integer, _, part = text.partition(".")
    integer = integer.rjust(whole.count("0"), "0") if "," not in whole else integer
    part = part[:min_places] + part[min_places:].rstrip("0")
    return plain[: first.start()] + (f"{integer}.{part}" if part else integer) + plain[first.end() :]


def _fill_pattern(number: Decimal, plain: str, outside: str) -> str:
    """Fill digits from the right into a pattern that has other text between its digits."""
    digits = f"{number.to_integral_value(ROUND_HALF_UP):f}"
    out = []
    for position in range(len(plain) - 1, -1, -1):
        char = outside[position]
        if char not in "0#?":
            out.append(plain[position])
        elif digits:
            out.append(digits[-1])
            digits = digits[:-1]
        elif char == "0":
            out.append("0")
    return digits + "".join(reversed(out))


def _scientific(number: Decimal, pattern: re.Match[str]) -> str:
    places = len(pattern[1].partition(".")[2])
    mantissa, _, exponent = f"{number:.{places}E}".partition("E")
    sign = "-" if exponent.startswith("-") else "+" if pattern[2] == "+" else ""
    return f"{mantissa}E{sign}{exponent.lstrip('+-').rjust(len(pattern[3]), '0')}"


def _fraction(number: Decimal, pattern: re.Match[str]) -> str:
    whole = int(number)
    rest = Fraction(number - whole)
    if pattern[2].isdigit() and int(pattern[2]):
        part, denominator = round(rest * int(pattern[2])), int(pattern[2])
    else:
        near = rest.limit_denominator(10 ** len(pattern[2]) - 1)
        part, denominator = near.numerator, near.denominator
    if part == denominator:
        whole, part = whole + 1, 0
    shown = [str(whole)] if whole or not part else []
    return " ".join([*shown, f"{part}/{denominator}"] if part else shown)
