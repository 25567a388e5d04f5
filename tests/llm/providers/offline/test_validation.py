"""Tests for the validation of calls that the engine of the offline model proposes."""

import pytest

from agentkit.llm.providers.offline.argument_matching import offers
from agentkit.llm.providers.offline.question_parser import Question
from agentkit.llm.providers.offline.validation import ProposedCall, operation_call, validated_calls
from agentkit.messages import ToolSpec

TEXT = {"type": "string"}


def tool(name, description="", *, optional=(), **parameters):
    """Return a tool as a model receives it."""
    required = [each for each in parameters if each not in optional]
    return ToolSpec(name, description, {"type": "object", "properties": parameters, "required": required})


TOOLS = (
    tool("get_current_datetime", "Tell the current date and time.", optional=("timezone",), timezone=TEXT),
    tool("calculator", "Evaluate an arithmetic expression.", expression=TEXT),
    tool("string_length", "Count the characters and words of a text.", text=TEXT),
    tool("parse_json", "Parse a JSON text.", json_string=TEXT),
    tool("web_search", "Search the web.", query=TEXT),
    tool("write_file", "Write content to a file.", path=TEXT, content=TEXT),
    tool("read_file", "Read a file.", path=TEXT),
    tool("list_directory", "List the files in a directory.", optional=("path",), path={**TEXT, "default": "."}),
    tool("run_python", "Run Python code.", code=TEXT),
)
ROOMS = {"type": "string", "enum": ["kitchen", "living_room"]}
HOME = (
    tool("set_light", "Turn a light on or off.", room=ROOMS, on={"type": "boolean"}),
    tool("set_timer", "Start a timer.", optional=("label",), minutes={"type": "integer"}, label=TEXT),
    tool("pause", "Pause the song."),
    tool("rename", "Rename a song.", title=TEXT),
    tool("plan", "Plan a trip.", stops={"type": "array", "items": TEXT}, size={"type": "object", "properties": {}}),
    tool("pay", "Pay money.", to=TEXT, message=TEXT),
)


def judged(text, *calls, tools=TOOLS, confidence=0.9, ungrounded=(), suppressed=False):
    """Return the judgement on proposed calls, each a tool's name and its arguments."""
    question = Question(text, has_commands=True)
    proposed = [{"name": name, "arguments": arguments} for name, arguments in calls]
    envelope = {"confidence": confidence, "validation": {"ungrounded": list(ungrounded)}}
    envelope["suppressed_calls" if suppressed else "function_calls"] = proposed
    return validated_calls(question, offers(question, tools), envelope)


@pytest.mark.for_each(
    ("text", "name", "proposed", "mended"),
    [
        ("How much is 1250 * 0.17?", "calculator", {"expression": "1250 * 0.17"}, {"expression": "1250 * 0.17"}),
        ("sqrt(144) + 2**10", "calculator", {"expression": "2**10"}, {"expression": "sqrt(144) + 2**10"}),
        ("Calculate 12 plus 30", "calculator", {"expression": "12*30"}, {"expression": "12 plus 30"}),
        ("what's 3 squared?", "calculator", {"expression": "3"}, {"expression": "3 squared"}),
        ("what is 2+2", "calculator", {"expression": 4}, {"expression": "2+2"}),
        ("what is 2+2", "calculator", {}, {"expression": "2+2"}),
        ("what is 2+2", "calculator", {"expression": "sum"}, {"expression": "2+2"}),
        ('Is {"a": 1} valid JSON?', "parse_json", {"json_string": "a 1"}, {"json_string": '{"a": 1}'}),
        ("search for banana bread recipes", "web_search", {"query": "recipes"}, {"query": "banana bread recipes"}),
        ("save 'hi' to a.txt", "write_file", {"path": "a", "content": "hi"}, {"path": "a.txt", "content": "hi"}),
        ("write 'hi' to a.txt", "write_file", {"path": "hi", "content": "hi"}, {"path": "a.txt", "content": "hi"}),
        ("put 'hi' in a.txt", "write_file", {"path": "a.txt", "content": "a.txt"}, {"path": "a.txt", "content": "hi"}),
        (
            "create a.txt with the content milk.",
            "write_file",
            {"path": "a.txt", "content": "content milk"},
            {"path": "a.txt", "content": "milk"},
        ),
        (
            "How many characters are in this?\n\nhello you\n",
            "string_length",
            {"text": "this"},
            {"text": "hello you"},
        ),
        (
            "run ```\nfor i in x():\n    y(i)\n```",
            "run_python",
            {"code": "python"},
            {"code": "for i in x():\n    y(i)"},
        ),
        ("what files are here?", "list_directory", {"path": "here"}, {}),
        ("list the files", "list_directory", {"path": "nowhere"}, {}),
        ("list the files", "list_directory", {"path": "files"}, {}),
        ("what time is it?", "get_current_datetime", {"timezone": "UTC"}, {}),
        ("what time is it?", "get_current_datetime", {"timezone": None}, {}),
    ],
)
def test_arguments_are_corrected_from_the_question(text, name, proposed, mended):
    """A truncated or paraphrased argument is replaced by the matching span of the question."""
    validation = judged(text, (name, proposed))
    assert (validation.calls, validation.doubts) == ((ProposedCall(name, mended),), ())


def test_number_used_twice_is_doubtful():
    """A number used for two arguments is doubtful if the question contains it only once."""
    number = {"type": "integer"}
    roll = tool("roll", "Roll dice.", optional=("times", "sides"), times={**number, "default": 1}, sides=number)
    assert judged("roll 20 sides", ("roll", {"times": 20, "sides": 20}), tools=[roll]).doubts == ("used twice: 20",)
    assert judged("roll 1 die with 20 sides", ("roll", {"times": 1, "sides": 20}), tools=[roll]).doubts == ()


def test_text_of_several_lines_is_not_a_search():
    """A question followed by the text of a file is not a search."""
    assert offers(Question("What is in this?\n\nBuy milk."), TOOLS) == []


def test_equal_calls_are_made_once():
    """Two proposals of the same call are made once."""
    validation = judged("2**16 - 1", ("calculator", {"expression": "2**16"}), ("calculator", {"expression": "1"}))
    assert validation.calls == (ProposedCall("calculator", {"expression": "2**16 - 1"}),)


def test_each_part_of_a_question_has_a_call():
    """Several calls are made if each follows from the question."""
    text = "what time is it, what is 7*8, and what is 9*9?"
    calls = [("get_current_datetime", {}), ("calculator", {"expression": "7*8"}), ("calculator", {"expression": "9*9"})]
    assert judged(text, *calls).doubts == ()


def test_suppressed_call_is_accepted_for_a_clear_question():
    """A suppressed call is accepted if the question clearly supports it."""
    assert judged("compute 7*8", ("calculator", {"expression": "7"}), confidence=0.04, suppressed=True).doubts == ()


@pytest.mark.for_each(
    ("text", "calls", "doubt"),
    [
        ("compute 5*5 and 6*6", [("calculator", {"expression": "5*5"})], "not used: 6*6"),
        ("what is the date in 10 days?", [("get_current_datetime", {})], "not used: 10"),
        ("what time was it when Rome fell?", [("get_current_datetime", {})], "no argument says: fell, rom"),
        ("compute 5*5", [], "the engine refuses"),
        ("delete a.txt", [("read_file", {"path": "a.txt"})], "unexplained: delet"),
        ("read a.txt", [("shred_file", {"path": "a.txt"})], "the engine refuses"),
        (
            "list the files in the attic or cellar",
            [("list_directory", {"path": "attic or cellar"})],
            "list_directory: path",
        ),
        ("what time is it in Tokyo?", [("get_current_datetime", {"timezone": "Tokyo time"})], ""),
        (
            "what time is it in Quito?",
            [("get_current_datetime", {"timezone": "Quito time"})],
            "get_current_datetime: timezone",
        ),
        ("read a.txt and b.txt", [("read_file", {"path": "a.txt b.txt"})], "not used: "),
    ],
)
def test_unsupported_parts_are_doubtful(text, calls, doubt):
    """Parts of the question without a call, and parts of a call without a question, are doubtful."""
    validation = judged(text, *calls)
    assert not validation.doubts if not doubt else any(each.startswith(doubt.strip()) for each in validation.doubts)


def test_ambiguous_candidates_need_a_matching_proposal():
    """With two candidates and an argument that matches neither, no call is made."""
    validation = judged("count the words in 'a b' and 'c d'", ("string_length", {"text": "xyz"}))
    assert "string_length: text" in validation.doubts
    assert not validation.complete


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("turn on the light in the kitchen", ("set_light", {"room": "kitchen", "on": True})),
        ("brighten: turn on the living room light", ("set_light", {"room": "living_room", "on": True})),
        ("start a timer for 25 minutes", ("set_timer", {"minutes": 25})),
        ("start a timer for five minutes", ("set_timer", {"minutes": 5})),
        ("start a 5 minute timer called eggs", ("set_timer", {"minutes": 5, "label": "eggs"})),
        ("plan a trip to Rome and Paris", ("plan", {"stops": ["Rome", "Paris"], "size": {}})),
        ("pay Bob saying thanks again", ("pay", {"to": "Bob", "message": "thanks again"})),
    ],
)
def test_custom_tools_accept_arguments_in_the_question(text, call):
    """Names, numbers, lists and choices that the question contains are accepted."""
    validation = judged(text, call, tools=HOME)
    assert (validation.calls, validation.doubts) == ((ProposedCall(*call),), ())


@pytest.mark.for_each(
    ("text", "call", "doubt"),
    [
        ("start a timer for 2 hours", ("set_timer", {"minutes": 120}), "set_timer: minutes"),
        (
            "turn on the light in the living room",
            ("set_light", {"room": "kitchen", "on": True}),
            "not used: living_room",
        ),
        ("turn on the light in the hall", ("set_light", {"room": "kitchen", "on": True}), "not stated: kitchen"),
        ("plan a trip to Rome", ("plan", {"stops": ["Rome", "Oslo"], "size": {}}), "plan: stops"),
        ("plan a trip to Rome", ("plan", {"stops": ["Rome"], "size": {"days": 3}}), "plan: size"),
        ("plan a trip to Rome", ("plan", {"stops": None, "size": {}}), "plan: stops"),
        ("pay Bob", ("pay", {"to": "Bob", "message": "no thanks"}), "pay: message"),
        ("pay Bob", ("pay", {"to": "Bob", "message": ["Bob"]}), "pay: message"),
    ],
)
def test_values_missing_from_the_question_are_doubtful(text, call, doubt):
    """Numbers, names and choices that the question does not contain are doubtful."""
    assert doubt in judged(text, call, tools=HOME).doubts


def test_same_argument_for_two_tools_is_doubtful():
    """Two calls with the same file are doubtful."""
    validation = judged("list and read a.txt", ("list_directory", {"path": "a.txt"}), ("read_file", {"path": "a.txt"}))
    assert "used twice: a.txt" in validation.doubts


def test_longer_of_two_search_queries_is_used():
    """The engine's query is used if the question contains it and it is longer than the extracted one."""
    (call,) = judged("search how to tie a tie", ("web_search", {"query": "how to tie a tie"})).calls
    assert call.arguments == {"query": "how to tie a tie"}


def test_invented_value_is_not_used():
    """A value that the engine reports as invented is not used."""
    validation = judged(
        "pay Bob 'hi'", ("pay", {"to": "Bob", "message": "hi"}), tools=HOME, ungrounded=["pay.to", "x.y"]
    )
    assert "pay: to" in validation.doubts


def test_low_confidence_is_doubtful():
    """A call with little support in the question needs a high confidence of the engine."""
    call = ("set_timer", {"minutes": 5})
    assert judged("prepare 5 eggs", call, tools=HOME, confidence=0.45).doubts
    assert not judged("prepare 5 eggs", call, tools=HOME, confidence=0.9).doubts


def test_other_matching_tool_is_doubtful():
    """A proposal against the matching words needs high confidence, and is rejected for specific parameters."""
    call = ("rename", {"title": "song"})
    assert judged("pause the song", call, tools=HOME, confidence=0.7).doubts
    assert not judged("pause the song", call, tools=HOME, confidence=0.8).doubts
    assert "rather list_directory" in judged("count the files in src", ("read_file", {"path": "src"})).doubts


@pytest.mark.parametrize(("text", "confidence"), [("run away", 0.4), ("count sheep: a b", 0.4), ("shred a.txt", 0.7)])
def test_uncertain_arguments_need_a_confident_engine(text, confidence):
    """Bare commands, partial texts and unknown orders need a high confidence of the engine."""
    proposed = {"run away": ("run_shell", {"command": "away"}), "count sheep: a b": ("string_length", {"text": "a b"})}
    call = proposed.get(text, ("read_file", {"path": "a.txt"}))
    tools = (*TOOLS, tool("run_shell", "Run a shell command.", command=TEXT))
    assert any(
        doubt.startswith("confidence") for doubt in judged(text, call, tools=tools, confidence=confidence).doubts
    )


@pytest.mark.parametrize(
    ("content", "accepted"), [("thanks again", True), ("a poem about spring", False), ("gratitude", False)]
)
def test_text_to_be_written_must_be_quoted(content, accepted):
    """A description of a text is not used as the text."""
    text = "write thanks again or a poem about spring to a.txt"
    validation = judged(text, ("write_file", {"path": "a.txt", "content": content}))
    assert ("write_file: content" not in validation.doubts) is accepted


def test_complete_call_can_be_suggested():
    """A doubtful call that lacks no argument can be suggested."""
    assert judged("ponder a.txt", ("read_file", {"path": "a.txt"})).complete


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("write 'hi' to the file a.txt", [("write_file", {"path": "a.txt", "content": "hi"})]),
        ("list the files in src/", [("list_directory", {"path": "src/"})]),
        ("save 'hi' to a.txt and b.txt", []),
        ("save 'hi' to a.txt for the zebra", []),
        ("is it 'late' or 'early'?", []),
    ],
)
def test_unambiguous_question_needs_no_proposal(text, calls):
    """An unambiguous question is answered with a call even if the engine proposes none."""
    validation = judged(text)
    assert [(call.tool, dict(call.arguments)) for call in validation.calls] == calls
    assert (validation.doubts == ()) == bool(calls)


def test_equally_matching_tools_need_a_proposal():
    """If two tools match equally and the engine proposes neither, no call is made."""
    twins = (tool("keep_note", "Write a note.", content=TEXT), tool("keep_memo", "Write a memo.", content=TEXT))
    assert judged("write 'hi'", tools=twins).calls == ()


@pytest.mark.parametrize(
    ("text", "query"),
    [("what does CPU stand for?", "CPU stand"), ("thủ đô của Nhật Bản là gì?", "thủ đô của Nhật Bản")],
)
def test_question_about_the_world_is_searched_for(text, query):
    """A question that only a search can answer is searched for, even without a proposal."""
    validation = judged(text)
    assert validation.calls == (ProposedCall("web_search", {"query": query}),)
    assert validation.doubts == ()


def test_explicit_call_replaces_another_proposal():
    """A call that the question spells out replaces a less supported proposal of the engine."""
    validation = judged("list the files in src/", ("read_file", {"path": "src/"}), confidence=0.3)
    assert validation.calls == (ProposedCall("list_directory", {"path": "src/"}),)
    assert validation.doubts == ()


def test_possible_sum_next_to_a_request_is_doubtful():
    """A possible sum next to another request is reported as a doubt."""
    validation = judged("the time please, and 12/4", ("get_current_datetime", {}))
    assert validation.doubts == ("not used: 12/4",)


WHOLE, NUMBER, SWITCH = {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
LISTED = {"type": "array", "items": NUMBER}
SHOWN = {**TEXT, "description": "The city, in the form 'City, Country'."}
OTHERS = (
    tool("convert", "Convert an amount to a currency.", amount=WHOLE, source=TEXT, target=TEXT),
    tool("triangle_area", "The area of a triangle from its sides.", side1=WHOLE, side2=WHOLE, side3=WHOLE),
    tool("savings", "What an investment yields.", optional=("details",), sum=WHOLE, rate=NUMBER, details=SWITCH),
    tool("winner", "Who won a game on a day.", game=TEXT, day={**TEXT, "description": "As MM/DD/YYYY."}),
    tool("median_test", "Compare the median of two samples.", first=LISTED, second=LISTED),
    tool("weather", "The weather in a city.", city=SHOWN),
    tool("genotype", "The frequency of a genotype.", share=NUMBER, genotype={**TEXT, "enum": ["AA", "Aa", "aa"]}),
    tool("crimes", "The crimes in a city of a state.", city=TEXT, state=TEXT),
    tool("gas_mass", "The mass of a gas at a volume.", gas=TEXT, volume=WHOLE),
)


@pytest.mark.for_each(
    ("text", "name", "proposed", "validated"),
    [
        (
            "convert an amount of 150 euros to Canadian dollars",
            "convert",
            {"amount": 150, "source": "EUR", "target": "CAD"},
            {"amount": 150, "source": "EUR", "target": "CAD"},
        ),
        (
            "the area of a triangle with sides 3, 4 and 5",
            "triangle_area",
            {"side1": 3, "side2": 5, "side3": 6},
            {"side1": 3, "side2": 4, "side3": 5},
        ),
        (
            "an investment of 2 million at a rate of 5%",
            "savings",
            {"sum": 2, "rate": 5.0},
            {"sum": 2_000_000, "rate": 0.05},
        ),
        (
            "who won the game Ajax on January 28, 2021?",
            "winner",
            {"game": "Ajax", "day": "2021-01-28"},
            {"game": "Ajax", "day": "01/28/2021"},
        ),
        (
            "compare the median of samples [1,2,3] and [200,300]",
            "median_test",
            {"first": [1, 2, 3], "second": [200, 300]},
            {"first": [1, 2, 3], "second": [200, 300]},
        ),
        (
            "who won Ajax's game on January 28, 2021?",
            "winner",
            {"game": "Ajax", "day": "January 28, 2021"},
            {"game": "Ajax", "day": "01/28/2021"},
        ),
        (
            "mass of the gas helium at a volume of 10 litres",
            "gas_mass",
            {"gas": "helium", "volume": 4},
            {"gas": "helium", "volume": 10},
        ),
        ("the weather in the city Rome, Italy", "weather", {"city": "Rome, Italy"}, {"city": "Rome, Italy"}),
        (
            "frequency of genotype AA at a share of 0.3",
            "genotype",
            {"share": 0.3, "genotype": "AA"},
            {"share": 0.3, "genotype": "AA"},
        ),
        (
            "mass of the gas CO2 at a volume of 10 m^3",
            "gas_mass",
            {"gas": "CO2", "volume": 10},
            {"gas": "CO2", "volume": 10},
        ),
    ],
)
def test_values_in_other_words_are_accepted(text, name, proposed, validated):
    """Codes, days, percentages, lists and units are matched with the text and converted to the tool's format."""
    made_up = [f"{name}.{parameter}" for parameter in ("source", "target", "day")]
    validation = judged(text, (name, proposed), tools=OTHERS, ungrounded=made_up)
    assert validation.calls == (ProposedCall(name, validated),)
    assert validation.doubts == ()


@pytest.mark.parametrize(
    ("text", "name", "proposed", "doubt"),
    [
        (
            "the crimes in the city San Jose",
            "crimes",
            {"city": "San Jose", "state": "San Jose"},
            "used twice: san  jose",
        ),
        ("the weather in the city Rome", "weather", {"city": "Rome"}, "only a part: Rome"),
        ("details of an investment of 9 at a rate of 5%", "savings", {"sum": 9, "rate": 0.05}, "not used: details"),
        ("samples [1,2] and [3,4], median", "median_test", {"first": [1, 2], "second": [1, 2]}, "not used: [3,4]"),
        ("samples [1,2] and [3,4,], median", "median_test", {"first": [1, 2], "second": [3]}, "not used: [3,4,]"),
    ],
)
def test_incomplete_arguments_are_doubtful(text, name, proposed, doubt):
    """A repeated text, a partial value, or an omitted switch or list is reported as a doubt."""
    assert doubt in judged(text, (name, proposed), tools=OTHERS).doubts


def test_unclear_parameters_are_reported():
    """Parameters that the question leaves open are reported as unclear."""
    validation = judged("convert an amount of 9 zloty", ("convert", {"amount": 9, "source": "PLN"}), tools=OTHERS)
    assert (validation.complete, validation.unclear) == (False, (("convert", "source"), ("convert", "target")))


def test_fully_explained_question_needs_less_confidence():
    """If tool and arguments account for all words of the question, less confidence is needed."""
    for text, doubts in (("pay 'rent' to Ann", 0), ("pay 'rent' to Ann tonight by bus", 1)):
        assert (
            len(judged(text, ("pay", {"to": "Ann", "message": "rent"}), tools=HOME, confidence=0.28).doubts) == doubts
        )


@pytest.mark.for_each(
    ("text", "call"),
    [
        ("what's 3 plus 4?", ("add", {"a": 3, "b": 4})),
        ("3+4", ("add", {"a": 3, "b": 4})),
        ("3.5 times 2", ("multiply", {"first": 3.5, "second": 2})),
        ("what's 3.5 plus 4?", None),
        ("3 plus 4 plus 5", None),
        ("3 minus 4", None),
        ("3 plus 4 sheep", None),
        ("3 plus 4 in 'Rome'", None),
        ("3 plus 4 and 5 plus 6", None),
    ],
)
def test_sum_is_passed_to_the_tool_named_after_it(text, call):
    """A sum is passed to a tool named after its operation that takes as many numbers."""
    tools = (
        tool("add", "Two integers together.", a=WHOLE, b=WHOLE),
        tool("multiply", "Two numbers multiplied.", first=NUMBER, second=NUMBER),
    )
    question = Question(text)
    assert operation_call(question, offers(question, tools)) == (ProposedCall(*call) if call else None)


def test_calculator_is_preferred_to_a_tool_for_one_operation():
    """A tool that accepts sums is preferred to a tool for one operation."""
    question = Question("3 plus 4")
    assert operation_call(question, offers(question, (*TOOLS, tool("add", "Add.", a=WHOLE, b=WHOLE)))) is None
