"""Importable modules, with an allow-list of names for each.

A program never gets a module, because a module leads to every other one. It gets a facade with only the names listed
here. Each listed name was reviewed; where a function would follow attribute names, or call or build what its arguments
specify, `replacements` has a guarded equivalent.
"""

import builtins
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from agentkit.sandbox.guard.errors import RefusedAttribute, RefusedImport
from agentkit.sandbox.guard.name_rules import words

ALLOWED_NAMES_TEXT = {
    "__future__": "annotations",
    "abc": "ABC ABCMeta abstractmethod abstractproperty abstractclassmethod abstractstaticmethod",
    "array": "array typecodes",
    "ast": "literal_eval",
    "asyncio": "create_task gather run sleep",
    "base64": """b64encode b64decode standard_b64encode standard_b64decode urlsafe_b64encode urlsafe_b64decode
        b32encode b32decode b32hexencode b32hexdecode b16encode b16decode a85encode a85decode b85encode b85decode
        encodebytes decodebytes""",
    "binascii": "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 crc_hqx hexlify unhexlify Error",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "bz2": "compress decompress",
    "calendar": """MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY Calendar HTMLCalendar TextCalendar
        IllegalMonthError IllegalWeekdayError calendar day_abbr day_name firstweekday isleap leapdays month
        month_abbr month_name monthcalendar monthrange timegm weekday weekheader JANUARY FEBRUARY""",
    "cmath": """acos acosh asin asinh atan atanh cos cosh e exp inf infj isclose isfinite isinf isnan log log10 nan
        nanj phase pi polar rect sin sinh sqrt tan tanh tau""",
    "codecs": "BOM_UTF16 BOM_UTF16_BE BOM_UTF16_LE BOM_UTF8 decode encode",
    "collections": "ChainMap Counter OrderedDict UserDict UserList abc defaultdict deque namedtuple",
    "collections.abc": """AsyncGenerator AsyncIterable AsyncIterator Awaitable ByteString Buffer Callable Collection
        Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping MappingView MutableMapping
        MutableSequence MutableSet Reversible Sequence Set Sized ValuesView""",
    "colorsys": "hls_to_rgb hsv_to_rgb rgb_to_hls rgb_to_hsv rgb_to_yiq yiq_to_rgb",
    "contextlib": """AbstractContextManager AbstractAsyncContextManager AsyncExitStack ContextDecorator ExitStack
        aclosing asynccontextmanager closing contextmanager nullcontext redirect_stderr redirect_stdout suppress""",
    "contextvars": "ContextVar Token copy_context",
    "copy": "copy deepcopy Error error",
    "csv": """DictReader DictWriter Dialect Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC Sniffer excel
        excel_tab list_dialects reader register_dialect unix_dialect writer""",
    "dataclasses": """FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass field fields is_dataclass
        replace""",
    "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo",
    "decimal": """BasicContext Clamped Context ConversionSyntax Decimal DecimalException DecimalTuple DefaultContext
        DivisionByZero DivisionImpossible DivisionUndefined ExtendedContext FloatOperation Inexact InvalidContext
        InvalidOperation MAX_EMAX MAX_PREC MIN_EMIN MIN_ETINY Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN ROUND_FLOOR
        ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow getcontext localcontext
        setcontext""",
    "difflib": """Differ IS_CHARACTER_JUNK IS_LINE_JUNK Match SequenceMatcher context_diff get_close_matches ndiff
        restore unified_diff""",
    "enum": """CONFORM CONTINUOUS EJECT Enum Flag FlagBoundary IntEnum IntFlag KEEP NAMED_FLAGS STRICT StrEnum
        UNIQUE auto member nonmember unique verify""",
    "fnmatch": "filter fnmatch fnmatchcase translate",
    "fractions": "Fraction",
    "functools": """cache cached_property cmp_to_key lru_cache partial partialmethod reduce singledispatch
        total_ordering update_wrapper wraps""",
    "graphlib": "CycleError TopologicalSorter",
    "gzip": "BadGzipFile GzipFile compress decompress",
    "hashlib": """algorithms_available algorithms_guaranteed blake2b blake2s md5 new pbkdf2_hmac scrypt sha1 sha224
        sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 shake_128 shake_256""",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "hmac": "HMAC compare_digest digest new",
    "html": "escape parser unescape",
    "html.parser": "HTMLParser",
    "io": "BytesIO SEEK_CUR SEEK_END SEEK_SET StringIO UnsupportedOperation",
    "ipaddress": """AddressValueError IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network
        NetmaskValueError collapse_addresses ip_address ip_interface ip_network summarize_address_range""",
    "itertools": """accumulate batched chain combinations combinations_with_replacement compress count cycle dropwhile
        filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest""",
    "json": "JSONDecodeError JSONDecoder JSONEncoder decoder dump dumps load loads",
    "json.decoder": "JSONDecodeError JSONDecoder",
    "keyword": "iskeyword issoftkeyword kwlist softkwlist",
    "lzma": "LZMAError compress decompress",
    "math": """acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc exp exp2
        expm1 fabs factorial floor fma fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp
        lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt sumprod tan
        tanh tau trunc ulp""",
    "numbers": "Complex Integral Number Rational Real",
    "operator": """abs add and_ attrgetter concat contains countOf delitem eq floordiv ge getitem gt iadd iand iconcat
        ifloordiv ilshift imatmul imod imul index indexOf inv invert ior ipow irshift is_ is_not isub itemgetter
        itruediv ixor le length_hint lshift lt matmul methodcaller mod mul ne neg not_ or_ pos pow rshift setitem sub
        truediv truth xor""",
    "pprint": "PrettyPrinter isreadable isrecursive pformat pp pprint saferepr",
    "queue": "Empty Full LifoQueue PriorityQueue Queue SimpleQueue",
    "random": """Random SystemRandom
        betavariate binomialvariate choice choices expovariate gammavariate gauss getrandbits getstate
        lognormvariate normalvariate paretovariate randbytes randint random randrange sample seed setstate shuffle
        triangular uniform vonmisesvariate weibullvariate""",
    "re": """A ASCII DOTALL I IGNORECASE M MULTILINE Match NOFLAG Pattern PatternError RegexFlag S Scanner U
        UNICODE VERBOSE X
        compile error escape findall finditer fullmatch match purge search split sub subn""",
    "reprlib": "repr",
    "secrets": "SystemRandom choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
    "shlex": "join quote split",
    "statistics": """NormalDist StatisticsError correlation covariance fmean geometric_mean harmonic_mean kde
        linear_regression mean median median_grouped median_high median_low mode multimode pstdev pvariance quantiles
        stdev variance""",
    "string": """Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable
        punctuation whitespace""",
    "struct": "Struct calcsize error iter_unpack pack pack_into unpack unpack_from",
    "sys": """argv byteorder exit float_info float_repr_style get_int_max_str_digits getrecursionlimit getsizeof
        hash_info hexversion int_info
        intern maxsize maxunicode platform set_int_max_str_digits setrecursionlimit
        stderr stdout version version_info""",
    "textwrap": "TextWrapper dedent fill indent shorten wrap",
    "time": """asctime ctime daylight gmtime localtime mktime monotonic monotonic_ns perf_counter perf_counter_ns
        process_time process_time_ns sleep strftime strptime struct_time thread_time time time_ns timezone tzname""",
    "tomllib": "TOMLDecodeError loads",
    "traceback": "format_exc print_exc",
    "types": "BuiltinFunctionType GeneratorType MappingProxyType MethodType NoneType SimpleNamespace",
    "typing": """AbstractSet Annotated Any AnyStr AsyncGenerator AsyncIterable AsyncIterator Awaitable BinaryIO
        ByteString Callable ChainMap ClassVar Collection Concatenate Container Coroutine Counter DefaultDict Deque Dict
        Final FrozenSet Generator Generic Hashable IO ItemsView Iterable Iterator KeysView List Literal LiteralString
        Mapping Match MutableMapping MutableSequence MutableSet NamedTuple Never NewType NoReturn NotRequired Optional
        OrderedDict ParamSpec Pattern Protocol ReadOnly Required Reversible Self Sequence Set Sized SupportsAbs
        SupportsBytes SupportsComplex SupportsFloat SupportsIndex SupportsInt SupportsRound
        TYPE_CHECKING Text TextIO
        Tuple Type TypeAlias TypeGuard TypeIs TypeVar TypedDict Union Unpack ValuesView assert_never assert_type cast
        final
        get_args get_origin overload override runtime_checkable""",
    "unicodedata": """bidirectional category combining decimal decomposition digit east_asian_width is_normalized
        lookup mirrored name normalize numeric unidata_version""",
    "urllib": "parse",
    "urllib.parse": """parse_qs parse_qsl quote quote_plus unquote unquote_plus urldefrag urlencode urljoin urlparse
        urlsplit urlunparse urlunsplit""",
    "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid4 uuid5",
    "warnings": "catch_warnings filterwarnings resetwarnings simplefilter warn",
    "weakref": "WeakKeyDictionary WeakSet WeakValueDictionary ref",
    "xml": "etree",
    "xml.etree": "ElementTree",
    "xml.etree.ElementTree": "Element ParseError SubElement XML fromstring indent iselement tostring",
    "zlib": "DEFLATED MAX_WBITS adler32 compress compressobj crc32 decompress decompressobj error",
    "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
}
TABLE = {module: tuple(names.split()) for module, names in ALLOWED_NAMES_TEXT.items()}
# Modules that the built-in functions of the modules above can import themselves.
IMPORTABLE_PACKAGES = {module.partition(".")[0] for module in TABLE} | {
    "_strptime",
    "copyreg",
    "encodings",
    "locale",
    "warnings",
}
# Suggested when a module is missing; the list is incomplete to keep the message short.
COMMON_MODULES = words(
    """base64 calendar collections contextlib copy csv dataclasses datetime decimal enum fractions functools hashlib
    io itertools json math operator random re statistics string sys textwrap time typing urllib zoneinfo"""
)

FILES = "files are read with the read_file tool and written with the write_file tool; join paths as text"
HINTS = {
    "asyncio": "the code runs in one thread: call functions in turn, or await them in asyncio.run(main())",
    **dict.fromkeys(("os", "pathlib", "shutil", "glob", "fileinput", "tempfile"), FILES),
    **dict.fromkeys(("subprocess", "pty", "pexpect"), "commands are run with the run_shell tool"),
    **dict.fromkeys(
        ("requests", "httpx", "aiohttp", "socket", "http", "urllib3", "bs4"), "web pages are fetched with fetch_url"
    ),
    "urllib.request": "web pages are fetched with fetch_url",
    **dict.fromkeys(
        ("threading", "multiprocessing", "concurrent"), "the code runs in one thread: call functions in turn"
    ),
    **dict.fromkeys(("numpy", "scipy"), "use lists with math, statistics and itertools"),
    "pandas": "use csv with io.StringIO, and dictionaries",
    "logging": "use print",
    "timeit": "use time.perf_counter",
    "unittest": "use assert",
    "argparse": "write the values into variables",
    "inspect": "the code can only look at its own objects, with type, dir, vars and hasattr",
    **dict.fromkeys(("pickle", "marshal", "shelve"), "use json"),
    "sys.stdin": "standard input is empty: write the input as a string, and read it from io.StringIO(text)",
    "sys.exc_info": "write `except Exception as error`",
    "types.FunctionType": "use callable(x)",
}


class Facade:
    """A frozen namespace that replaces a module."""

    def __init__(self, module: str, values: dict[str, Any]) -> None:
        vars(self).update(values, __name__=module, __doc__=None)

    def __getattr__(self, name: str) -> NoReturn:
        module = vars(self)["__name__"]
        raise RefusedAttribute(*missing_name(module, name))

    def __setattr__(self, name: str, value: object) -> None:
        raise RefusedAttribute(f"{name!r} of module {vars(self)['__name__']!r} cannot be set")

    def __repr__(self) -> str:
        return f"<module {vars(self)['__name__']!r}>"


def missing(module: str) -> tuple[str, str]:
    """Message and hint for a module that is not available."""
    hint = HINTS.get(module) or HINTS.get(module.partition(".")[0]) or ""
    offered = f"available: {', '.join(sorted(COMMON_MODULES))} and others"
    return f"module {module!r} is not available here", f"{hint}; {offered}" if hint else offered


def missing_name(module: str, name: str) -> tuple[str, str]:
    """Message and hint for a name that a module does not provide."""
    hint = HINTS.get(f"{module}.{name}") or HINTS.get(module, "")
    offered = "" if f"{module}.{name}" in HINTS else "available: " + ", ".join(TABLE[module])
    return f"module {module!r} has no {name!r} here", "; ".join(filter(None, (hint, offered)))


def names_of(module: str) -> list[str]:
    """The names that `from module import *` binds: the allowed names that exist in this Python version."""
    return [name for name in TABLE.get(module, ()) if hasattr(import_module(module), name)]


def import_for_python(name: str, *rest: Any) -> Any:
    """Implement `__import__` for built-in functions, such as strptime; its name is not valid in guarded code."""
    if name.partition(".")[0] not in IMPORTABLE_PACKAGES:
        raise RefusedImport(*missing(name))
    return builtins.__import__(name, *rest)


class Importer:
    """The facades of one run, created on first use."""

    def __init__(
        self,
        substitutes: dict[str, Callable[[], dict[str, Any]]],
        made: Callable[[Any], object],
        kinds: dict[str, type[Facade]] | None = None,
    ) -> None:
        """`substitutes` creates a module's guarded replacements; `made` is called with each exposed value.

        `kinds` are the facade classes of modules that need more than a frozen namespace.
        """
        self._substitutes = substitutes
        self._kinds = kinds or {}
        self._made = made
        self._facades: dict[str, Facade] = {}

    def facade(self, module: str) -> Facade:
        """Return the facade of an allowed module."""
        if module not in TABLE:
            raise RefusedImport(*missing(module))
        if module not in self._facades:
            self._facades[module] = self._make(module)
        return self._facades[module]

    def _make(self, module: str) -> Facade:
        values = self._substitutes.get(module, dict)()
        names = [name for name in TABLE[module] if name not in values]
        if names:
            original = import_module(module)
            for name in names:
                inner = f"{module}.{name}"
                if inner in TABLE:
                    values[name] = self.facade(inner)
                elif hasattr(original, name):
                    values[name] = getattr(original, name)
        values = {name: value for name, value in values.items() if name in TABLE[module]}
        for value in values.values():
            self._made(value)
        return self._kinds.get(module, Facade)(module, values)

    def import_module(self, module: str, alias: str) -> Facade:
        """Implement `import a.b`, which returns a, and `import a.b as alias`, which returns b."""
        facade = self.facade(module)
        return facade if alias else self.facade(module.partition(".")[0])

    def import_name(self, module: str, name: str) -> Any:
        """Implement `from module import name`."""
        if f"{module}.{name}" in TABLE:
            return self.facade(f"{module}.{name}")
        offered = self.facade(module)
        if name not in TABLE[module] or not hasattr(offered, name):
            raise RefusedImport(*missing_name(module, name))
        return getattr(offered, name)
