"""Time zones by IANA name, offset from UTC, abbreviation, city or country."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo

from agentkit.errors import ToolError

_OFFSET = re.compile(
    r"(?:utc|gmt|z)?\s*([+\-\u2212]|(?<=[a-z])\s+)\s*([0-9]{1,2})(?::?([0-5][0-9]))?(?:\s*\(.*\))?", re.IGNORECASE
)
_ASIDE, _SUFFIX = re.compile(r"\(.*\)"), re.compile(r"(?: standard| daylight| summer)? time$| city$")
_MAX_OFFSET = timedelta(hours=14)
_MAX_NAME_CHARS = 60
_NAMES: Mapping[str, str] = {
    "America/Los_Angeles": "pst, pdt, pt, pacific, la, l.a., seattle, san francisco, san diego, las vegas, portland",
    "America/Denver": "mst, mdt, mt, mountain, salt lake city",
    "America/Chicago": "cst, cdt, ct, central, dallas, houston, austin, new orleans, minneapolis, san antonio",
    "America/New_York": "est, edt, et, eastern, washington, washington dc, washington d.c., dc, "
    "boston, miami, atlanta, philadelphia, nyc",
    "America/Anchorage": "akst, akdt, alaska",
    "Pacific/Honolulu": "hst, hawaii, hawaiian",
    "America/Halifax": "ast, adt",
    "America/St_Johns": "nst, ndt, newfoundland",
    "America/Toronto": "ottawa, montreal, quebec",
    "America/Edmonton": "calgary",
    "America/Mexico_City": "mexico, guadalajara",
    "America/Sao_Paulo": "brt, brasilia, rio, rio de janeiro, salvador, brazil",
    "America/Argentina/Buenos_Aires": "art, argentina, cordoba",
    "America/Santiago": "clt, chile",
    "America/Bogota": "cot, colombia, medellin",
    "America/Lima": "pet, peru",
    "America/Caracas": "vet, venezuela",
    "Europe/London": "bst, england, scotland, wales, britain, united kingdom, uk, manchester, edinburgh, cardiff",
    "Europe/Dublin": "ireland",
    "Europe/Lisbon": "portugal, porto",
    "Europe/Paris": "france, lyon, marseille, toulouse, nice",
    "Europe/Berlin": "germany, deutschland, munich, munchen, muenchen, hamburg, frankfurt, cologne, koeln, stuttgart",
    "Europe/Madrid": "spain, barcelona, valencia, seville",
    "Europe/Rome": "italy, milan, naples, turin, florence, venice",
    "Europe/Zurich": "switzerland, geneva, bern, basel",
    "Europe/Vienna": "austria, salzburg, graz",
    "Europe/Amsterdam": "netherlands, rotterdam, the hague",
    "Europe/Brussels": "cet, cest, met, central european, belgium, antwerp",
    "Europe/Warsaw": "poland, krakow, gdansk, wroclaw",
    "Europe/Prague": "czechia, czech republic, brno",
    "Europe/Budapest": "hungary",
    "Europe/Stockholm": "sweden, gothenburg, malmo",
    "Europe/Oslo": "norway, bergen",
    "Europe/Copenhagen": "denmark, aarhus",
    "Europe/Helsinki": "eet, eest, eastern european, finland, tampere",
    "Europe/Athens": "greece, thessaloniki",
    "Europe/Bucharest": "romania",
    "Europe/Sofia": "bulgaria",
    "Europe/Kyiv": "ukraine, lviv, odesa, kharkiv",
    "Europe/Moscow": "msk, russia, st petersburg, saint petersburg",
    "Europe/Istanbul": "trt, turkey, turkiye, ankara, izmir",
    "Africa/Cairo": "egypt, alexandria",
    "Africa/Maputo": "cat, central africa, mozambique",
    "Africa/Casablanca": "morocco, rabat",
    "Africa/Addis_Ababa": "ethiopia",
    "America/Guayaquil": "quito, ecuador",
    "America/Havana": "cuba",
    "Asia/Qatar": "doha",
    "Asia/Bahrain": "manama",
    "Asia/Baku": "azerbaijan",
    "Asia/Almaty": "kazakhstan, astana",
    "Asia/Colombo": "sri lanka",
    "Asia/Yangon": "myanmar, naypyidaw",
    "Europe/Belgrade": "serbia, novi sad",
    "Africa/Johannesburg": "sast, south africa, cape town, durban, pretoria",
    "Africa/Lagos": "wat, nigeria, abuja",
    "Africa/Nairobi": "eat, kenya, mombasa",
    "Asia/Jerusalem": "israel, tel aviv, haifa",
    "Asia/Dubai": "gst, united arab emirates, uae, abu dhabi",
    "Asia/Riyadh": "saudi arabia, jeddah, mecca, medina",
    "Asia/Tehran": "irst, iran",
    "Asia/Karachi": "pkt, pakistan, lahore, islamabad",
    "Asia/Kolkata": "ist, india, mumbai, bombay, delhi, new delhi, bangalore, bengaluru, chennai, hyderabad, pune",
    "Asia/Kathmandu": "npt, nepal",
    "Asia/Dhaka": "bangladesh",
    "Asia/Bangkok": "ict, indochina, thailand, chiang mai, phuket",
    "Asia/Ho_Chi_Minh": "vietnam, viet nam, hanoi, ha noi, da nang, saigon, sai gon, "
    "hcmc, tp.hcm, tp hcm, tphcm, hai phong, can tho, hue",
    "Asia/Jakarta": "wib, indonesia, bandung",
    "Asia/Makassar": "wita, bali, denpasar",
    "Asia/Singapore": "sgt",
    "Asia/Kuala_Lumpur": "myt, malaysia, penang",
    "Asia/Manila": "pht, philippines, cebu",
    "Asia/Hong_Kong": "hkt, hongkong",
    "Asia/Shanghai": "china, beijing, peking, shenzhen, guangzhou, chengdu, wuhan, hangzhou",
    "Asia/Taipei": "taiwan",
    "Asia/Seoul": "kst, korea, south korea, busan",
    "Asia/Tokyo": "jst, japan, osaka, kyoto, nagoya, sapporo, yokohama",
    "Australia/Sydney": "aest, aedt, canberra",
    "Australia/Adelaide": "acst, acdt",
    "Australia/Perth": "awst",
    "Pacific/Auckland": "nzst, nzdt, new zealand, wellington, christchurch",
}
"""Abbreviations, cities and countries of a zone; a country has the zone of its capital or largest city."""

_AMBIGUOUS: Mapping[str, str] = {
    "usa, us, u.s., u.s.a., united states, america": "America/New_York, America/Chicago, America/Denver, "
    "America/Los_Angeles",
    "canada": "America/Toronto, America/Winnipeg, America/Edmonton, America/Vancouver",
    "australia": "Australia/Sydney, Australia/Adelaide, Australia/Brisbane, Australia/Perth",
    "europe, eu": "Europe/London, Europe/Paris, Europe/Athens",
}
"""Places with several zones, none of which is the usual one."""


def time_zone(name: str) -> tzinfo:
    """Return the time zone with that name. Raises ToolError naming similar ones."""
    from zoneinfo import ZoneInfo

    if name.strip().upper() in {"UTC", "GMT", "Z", "UTC±0", "GMT±0"}:
        return UTC
    if found := _OFFSET.fullmatch(name.strip()):
        return _fixed_offset(name, found)
    try:
        return ZoneInfo(_iana_name(name) or name)
    except (KeyError, ValueError, OSError):
        raise ToolError(_unknown_zone(name)) from None


def _fixed_offset(name: str, found: re.Match[str]) -> tzinfo:
    """The zone of an offset: `UTC+7` is seven hours ahead of UTC, unlike the POSIX name `Etc/GMT+7`."""
    offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    if offset > _MAX_OFFSET:
        raise ToolError(f"Unknown time zone {name[:_MAX_NAME_CHARS]!r}: offsets from UTC are at most 14 hours.")
    return timezone(-offset if found[1] in ("-", "\u2212") else offset) if offset else UTC


def _iana_name(name: str) -> str:
    """The IANA name for a zone, city, country or abbreviation in any case; empty if it is not known."""
    zones = _zones()
    if not zones:
        return ""
    known = {_normalise(zone.rpartition("/")[2]): zone for zone in zones if "/" in zone and not zone.startswith("Etc/")}
    known |= {_normalise(zone): zone for zone in zones}
    known |= {other: zone for zone, others in _NAMES.items() for other in others.split(", ")}
    query = _ASIDE.sub("", _normalise(name)).strip()
    forms = (_normalise(name), query, _SUFFIX.sub("", query), query.partition(",")[0])
    return next((known[form] for form in forms if form in known), "")


def _zones() -> list[str]:
    from zoneinfo import available_timezones

    return sorted(available_timezones())


def _normalise(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name[:_MAX_NAME_CHARS]).translate({ord("đ"): "d", ord("Đ"): "d"})
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(plain.replace("_", " ").lower().split())


def _unknown_zone(name: str) -> str:
    import difflib

    zones = {
        _normalise(zone.rpartition("/")[2]): zone for zone in _zones() if "/" in zone and not zone.startswith("Etc/")
    }
    if not zones:
        return "This machine has no time zone data. Install it with: pip install tzdata. UTC works without it."
    query = _normalise(re.split(r"[/\\]", name)[-1])
    several = next((zones for names, zones in _AMBIGUOUS.items() if query in names.split(", ")), "")
    zones |= {other: zone for zone, others in _NAMES.items() for other in others.split(", ") if len(other) > 3}
    close = (
        several.split(", ") if several else [zones[city] for city in difflib.get_close_matches(query, zones, 3, 0.7)]
    )
    hint = (
        f"did you mean {' or '.join(dict.fromkeys(close))}?"
        if close
        else "give an IANA name such as Asia/Ho_Chi_Minh or UTC."
    )
    return f"Unknown time zone {name[:_MAX_NAME_CHARS]!r}: {hint}"
