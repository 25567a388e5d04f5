"""Tests for questions that the offline model answers without starting its engine."""

import json
import re
import time

import pytest

from agentkit import ConfigError, default_tools
from agentkit.llm.providers.offline.lexicon import date_answer, separate_time_requests
from agentkit.llm.providers.offline.model import OfflineModel
from agentkit.llm.providers.offline.normalisation import normalised
from agentkit.llm.providers.offline.question_parser import Question, Shape
from agentkit.messages import AssistantMessage, Request, ToolCall, ToolMessage, UserMessage
from agentkit.tools.files import file_tools

FILE_SPECS = tuple(tool.spec for tool in file_tools)
FILE_CALLS = {
    "search for 'return' in calc.py": ("search_files", {"pattern": "return", "path": "calc.py"}),
    'Find "TODO (later)" in the source files.': ("search_files", {"pattern": r"TODO \(later\)"}),
    "grep `a.b`": ("search_files", {"pattern": r"a\.b"}),
    "replace 'a - b' with 'a + b' in src/calc.py": (
        "edit_file",
        {"old_text": "a - b", "new_text": "a + b", "path": "src/calc.py"},
    ),
}
SPECS = tuple(tool.spec for tool in default_tools)
CALLS = {
    "20 % off 40 dollars": ("calculator", {"expression": "40 * (100 - 20) / 100"}),
    "15% off of 80 euros": ("calculator", {"expression": "80 * (100 - 15) / 100"}),
    "split 186 between 4 people": ("calculator", {"expression": "186 / 4"}),
    "split 90 dollars among 3 friends": ("calculator", {"expression": "90 / 3"}),
    "how many percent of 80 is 20": ("calculator", {"expression": "20 / 80 * 100"}),
    "100 / 7 rounded to two digits": ("calculator", {"expression": "round(100 / 7, 2)"}),
    "22 / 7 rounded to 3 decimal places": ("calculator", {"expression": "round(22 / 7, 3)"}),
    "how many minutes are in 3 days": ("calculator", {"expression": "3 * 1440"}),
    "How many hours are there in a week?": ("calculator", {"expression": "1 * 168"}),
    "how many meters are in 2.5 kilometers": ("calculator", {"expression": "2.5 * 1000"}),
    "how many days are 48 hours": ("calculator", {"expression": "48 / 24"}),
    "90 minutes in hours": ("calculator", {"expression": "90 / 60"}),
    "how many hours are 45 minutes": ("calculator", {"expression": "45 / 60"}),
    "convert 30 inches to feet": ("calculator", {"expression": "30 / 12"}),
    "250 grams in kilograms": ("calculator", {"expression": "250 / 1000"}),
    "convert 350 F to C": ("calculator", {"expression": "(350 - 32) * 5 / 9"}),
    "convert 20 degrees celsius to fahrenheit": ("calculator", {"expression": "20 * 9 / 5 + 32"}),
    "how many bytes are in 2 GB": ("calculator", {"expression": "2 * 1000000000"}),
    "convert 1 KiB to bytes": ("calculator", {"expression": "1 * 1024"}),
    "2 TB là bao nhiêu GB": ("calculator", {"expression": "2 * 1000"}),
    "convert 90 km/h to m/s": ("calculator", {"expression": "90 / 3.6"}),
    "how fast is 30 m/s in km/h": ("calculator", {"expression": "30 * 3.6"}),
    "convert 65 miles an hour into kilometres per hour": ("calculator", {"expression": "65 * 1.609344"}),
    "30 feet per second in mph": ("calculator", {"expression": "30 * 15 / 22"}),
    "60 dặm trên giờ bằng bao nhiêu km/h": ("calculator", {"expression": "60 * 1.609344"}),
    "what's 100 Mbps in MB/s": ("calculator", {"expression": "100 / 8"}),
    "50 psi to bar": ("calculator", {"expression": "50 * 0.0689475729317"}),
    "how many months in 3 years": ("calculator", {"expression": "3 * 12"}),
    "hai ngày có bao nhiêu giờ": ("calculator", {"expression": "2 * 24"}),
    "how many seconds in half an hour": ("calculator", {"expression": "0.5 * 3600"}),
    "how many roses are there in 4 dozen": ("calculator", {"expression": "4 * 12"}),
    "a gross is how many": ("calculator", {"expression": "1 * 144"}),
    "how many dozen eggs are in 48 eggs": ("calculator", {"expression": "48 / 12"}),
    "100 divided by 2 dozen": ("calculator", {"expression": "100 divided by (2 * 12)"}),
    "5 tá bút chì là bao nhiêu cái": ("calculator", {"expression": "5 * 12"}),
    "40% more than 250": ("calculator", {"expression": "250 * (100 + 40) / 100"}),
    "what's 12 percent less than 65": ("calculator", {"expression": "65 * (100 - 12) / 100"}),
    "80 plus 15%": ("calculator", {"expression": "80 * (100 + 15) / 100"}),
    "200 giảm 15% là bao nhiêu": ("calculator", {"expression": "200 * (100 - 15) / 100"}),
    "hai trăm giảm 15%": ("calculator", {"expression": "200 * (100 - 15) / 100"}),
    "30% off 120 and then add 10% tax": (
        "calculator",
        {"expression": "(120 * (100 - 30) / 100) * (100 + 10) / 100"},
    ),
    "100 increased by 10% and then by 20%": (
        "calculator",
        {"expression": "(100 * (100 + 10) / 100) * (100 + 20) / 100"},
    ),
    "giảm 25% của 80 rồi cộng 8% thuế": ("calculator", {"expression": "(80 * (100 - 25) / 100) * (100 + 8) / 100"}),
    "What is 17% of 2,400?": ("calculator", {"expression": "17% of 2,400"}),
    "sqrt of 144": ("calculator", {"expression": "sqrt(144)"}),
    "2+2": ("calculator", {"expression": "2+2"}),
    "hai cộng ba bằng bao nhiêu": ("calculator", {"expression": "2 + 3"}),
    "hai mươi lăm nhân mười hai": ("calculator", {"expression": "25 * 12"}),
    "một trăm linh năm chia năm": ("calculator", {"expression": "105 / 5"}),
    "hai nghìn ba trăm trừ bốn mươi mốt": ("calculator", {"expression": "2300 - 41"}),
    "10 phần trăm của hai trăm": ("calculator", {"expression": "10 percent of 200"}),
    "a 20 % discount on 80": ("calculator", {"expression": "80 * (100 - 20) / 100"}),
    "40 dollars with 20 % off": ("calculator", {"expression": "40 * (100 - 20) / 100"}),
    "how much do I save with 30% off 120": ("calculator", {"expression": "30% of 120"}),
    "add 8% tax to 50": ("calculator", {"expression": "50 * (100 + 8) / 100"}),
    "split a bill of 86.40 between 4": ("calculator", {"expression": "86.40 / 4"}),
    "split $120 three ways": ("calculator", {"expression": "120 / 3"}),
    "200 shared between 8 people": ("calculator", {"expression": "200 / 8"}),
    "30 out of 120 in percent": ("calculator", {"expression": "30 / 120 * 100"}),
    "express 3/8 as a percentage": ("calculator", {"expression": "3 / 8 * 100"}),
    "3.14159 rounded to 2 digits": ("calculator", {"expression": "round(3.14159, 2)"}),
    "square root of 2 to 3 decimals": ("calculator", {"expression": "round(sqrt(2), 3)"}),
    "1000 / 3 rounded": ("calculator", {"expression": "round(1000 / 3)"}),
    "minutes in a day": ("calculator", {"expression": "1 * 1440"}),
    "convert 3 hours to minutes": ("calculator", {"expression": "3 * 60"}),
    "10 miles in km": ("calculator", {"expression": "10 * 1.609344"}),
    "how many inches in a foot": ("calculator", {"expression": "1 * 12"}),
    "100 fahrenheit in celsius": ("calculator", {"expression": "(100 - 32) * 5 / 9"}),
    "căn bậc hai của một trăm bốn mươi bốn": ("calculator", {"expression": "square root of 144"}),
    "hai phẩy năm cộng một": ("calculator", {"expression": "2.5 + 1"}),
    "một triệu rưỡi chia hai": ("calculator", {"expression": "1500000 / 2"}),
    "start with 100, add 10 %, then take 5 % off": (
        "calculator",
        {"expression": "(100 * (100 + 10) / 100) * (100 - 5) / 100"},
    ),
    "bắt đầu với 80, tăng 10% rồi giảm 5%": ("calculator", {"expression": "(80 * (100 + 10) / 100) * (100 - 5) / 100"}),
    "how much is an $18 book at 25% off": ("calculator", {"expression": "18 * (100 - 25) / 100"}),
    "what do I pay for 3 shirts at $19.99 each": ("calculator", {"expression": "3 * 19.99"}),
    "5 bags with 7 apples each": ("calculator", {"expression": "5 * 7"}),
    "how many eggs are in 6 boxes of 12": ("calculator", {"expression": "6 * 12"}),
    "split 90 plus 20% tip between 3 people": ("calculator", {"expression": "90 * (100 + 20) / 100 / 3"}),
    "if 6 people share 150 euros, how much does each pay": ("calculator", {"expression": "150 / 6"}),
    "remove 19% VAT from 119": ("calculator", {"expression": "119 * 100 / (100 + 19)"}),
    "percentage increase from 40 to 50": ("calculator", {"expression": "(50 - 40) / 40 * 100"}),
    "50 is 25% of what number": ("calculator", {"expression": "50 / 25 * 100"}),
    "19% of 2.5 million euros": ("calculator", {"expression": "19% of 2500000"}),
    "two and a half times 4": ("calculator", {"expression": "2.5 times 4"}),
    "what's 1 1/2 plus 2": ("calculator", {"expression": "1.5 plus 2"}),
    "what is 5 less than 20": ("calculator", {"expression": "20 - 5"}),
    "round 1267 to the nearest hundred": ("calculator", {"expression": "round(1267, -2)"}),
    "2 hours and 45 minutes in minutes": ("calculator", {"expression": "165 * 1"}),
    "-10 f in c": ("calculator", {"expression": "(-10 - 32) * 5 / 9"}),
    "chia đều 200 cho 5 bạn": ("calculator", {"expression": "200 / 5"}),
    "450 nghìn chia cho 3 người": ("calculator", {"expression": "450000 / 3"}),
    "trung bình cộng của 6, 8 và 10": ("calculator", {"expression": "mean(6, 8, 10)"}),
    "làm tròn 3,14159 đến 2 chữ số": ("calculator", {"expression": "round(3.14159, 2)"}),
    "list the src folder": ("list_directory", {"path": "src"}),
    "current time sydney": ("get_current_datetime", {"timezone": "Australia/Sydney"}),
    "chạy git status": ("run_shell", {"command": "git status"}),
    "[1,2] có phải JSON hợp lệ không": ("parse_json", {"json_string": "[1,2]"}),
    "How many characters are in 'hello world'?": ("string_length", {"text": "hello world"}),
    "save hello world to out.txt": ("write_file", {"path": "out.txt", "content": "hello world"}),
    "what's in the file config/settings.toml?": ("read_file", {"path": "config/settings.toml"}),
    "contents of the directory ./build": ("list_directory", {"path": "./build"}),
    "What is the capital of France?": ("web_search", {"query": "capital of France"}),
    "find news about electric cars": ("web_search", {"query": "news about electric cars"}),
    "run command pwd": ("run_shell", {"command": "pwd"}),
    "git show HEAD": ("run_shell", {"command": "git show HEAD"}),
    "What time is it?": ("get_current_datetime", {}),
    "what day is it today": ("get_current_datetime", {}),
    "What time is it in Tokyo?": ("get_current_datetime", {"timezone": "Asia/Tokyo"}),
    "read file notes.txt": ("read_file", {"path": "notes.txt"}),
    "show me README.md": ("read_file", {"path": "README.md"}),
    "list files": ("list_directory", {}),
    "git status": ("run_shell", {"command": "git status"}),
    "echo one two three": ("run_shell", {"command": "echo one two three"}),
    "run echo 'it works'": ("run_shell", {"command": "echo 'it works'"}),
    "what date is next Friday": ("get_current_datetime", {}),
    "what is tomorrow's date in Tokyo?": ("get_current_datetime", {"timezone": "Asia/Tokyo"}),
    "please run git status": ("run_shell", {"command": "git status"}),
    "ls -la": ("run_shell", {"command": "ls -la"}),
    "how long is this text?\nline one\nline two": ("string_length", {"text": "line one\nline two"}),
    'is {"a": 1} valid JSON?': ("parse_json", {"json_string": '{"a": 1}'}),
    'is this valid JSON: {"a": [1,2}': ("parse_json", {"json_string": '{"a": [1,2}'}),
    "fetch https://example.com": ("fetch_url", {"url": "https://example.com"}),
}


@pytest.fixture
def model():
    """A model whose engine must not be started."""
    model = OfflineModel()
    yield model
    assert model._worker is None


def ask(model, text):
    """Return the response to a text, with the shipped tools."""
    return model.complete(Request([UserMessage(text)], tools=SPECS))


@pytest.mark.for_each(("question", "call"), CALLS.items(), ids=CALLS)
def test_unambiguous_question_needs_no_engine(model, question, call):
    """A question that determines its tool and arguments is answered without the engine."""
    (made,) = ask(model, question).tool_calls
    assert (made.name, json.loads(made.arguments)) == call


@pytest.mark.for_each(("question", "call"), FILE_CALLS.items(), ids=FILE_CALLS)
def test_quoted_text_is_searched_and_replaced_without_the_engine(model, question, call):
    """A request to search for or to replace a quoted text in files is a call with exactly that text."""
    (made,) = model.complete(Request([UserMessage(question)], tools=FILE_SPECS)).tool_calls
    assert (made.name, json.loads(made.arguments)) == call


def test_found_lines_are_reported(model):
    """The answer to a search has the found lines."""
    made = ToolCall("c1", "search_files", '{"pattern": "return"}')
    found = {"pattern": "return", "matches": [{"path": "a.py", "line": 2, "text": "return 1"}], "files_searched": 1}
    messages = [
        UserMessage("search for 'return' in the files"),
        AssistantMessage("", (made,)),
        ToolMessage("c1", "search_files", json.dumps(found)),
    ]
    assert "return 1" in model.complete(Request(messages, tools=FILE_SPECS)).text


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("what is 7*8, and what is 9*9?", [("calculator", "7*8"), ("calculator", "9*9")]),
        (
            "what time is it in New York and London?",
            [("get_current_datetime", "America/New_York"), ("get_current_datetime", "Europe/London")],
        ),
        (
            "what are the times in Lagos, Lima & Tokyo",
            [
                ("get_current_datetime", "Africa/Lagos"),
                ("get_current_datetime", "America/Lima"),
                ("get_current_datetime", "Asia/Tokyo"),
            ],
        ),
        (
            "Hà Nội, London và Paris mấy giờ rồi?",
            [
                ("get_current_datetime", "Asia/Ho_Chi_Minh"),
                ("get_current_datetime", "Europe/London"),
                ("get_current_datetime", "Europe/Paris"),
            ],
        ),
        (
            "what is 2*3 and what is 4*5 and what time is it",
            [
                ("calculator", "2*3"),
                ("calculator", "4*5"),
                ("get_current_datetime", None),
            ],
        ),
        ("read a.txt and b.txt", [("read_file", "a.txt"), ("read_file", "b.txt")]),
        ("what time is it and what is 3*4?", [("get_current_datetime", None), ("calculator", "3*4")]),
        ("list the files in src and read README.md", [("list_directory", "src"), ("read_file", "README.md")]),
    ],
)
def test_several_requests_in_one_question(model, question, calls):
    """Several sums or files, and two requests joined by `and`, become one call each."""
    made = [
        (call.name, next(iter(json.loads(call.arguments).values()), None)) for call in ask(model, question).tool_calls
    ]
    assert made == calls


@pytest.mark.for_each(
    ("question", "day"),
    [
        ("what will the date be tomorrow?", "Sunday, 2026-11-29"),
        ("which weekday was yesterday", "Friday, 2026-11-27"),
        ("what's the day after tomorrow", "Monday, 2026-11-30"),
        ("When is next Friday?", "Friday, 2026-12-04"),
        ("what date is this coming Saturday", "Saturday, 2026-12-05"),
        ("what was the date last Saturday", "Saturday, 2026-11-21"),
        ("what date is 45 days from today", "Tuesday, 2027-01-12"),
        ("what day is it in two weeks", "Saturday, 2026-12-12"),
        ("what date was it 9 months ago", "Saturday, 2026-02-28"),
        ("what date was it 33 months ago", "Wednesday, 2024-02-28"),
        ("ngày kia là thứ mấy?", "Monday, 2026-11-30"),
        ("thứ tư tới là ngày nào", "Wednesday, 2026-12-02"),
        ("10 ngày nữa là ngày mấy", "Tuesday, 2026-12-08"),
        ("cách đây 2 tuần là ngày nào", "Saturday, 2026-11-14"),
        ("what day of the week was 20 July 1970?", "Monday, 1970-07-20"),
        ("what weekday is 2027-07-14", "Wednesday, 2027-07-14"),
        ("what day of the week does Christmas fall on this year", "Friday, 2026-12-25"),
        ("20/7/1970 là thứ mấy", "Monday, 1970-07-20"),
        ("what date is 30 days after March 1st, 2026", "Tuesday, 2026-03-31"),
        ("how many days until Christmas", "27 days from Saturday, 2026-11-28 to Friday, 2026-12-25"),
        ("how many days have passed since 1 November", "27 days from Sunday, 2026-11-01 to Saturday, 2026-11-28"),
        ("days between June 3 and June 12 2026", "9 days from Wednesday, 2026-06-03 to Friday, 2026-06-12"),
        (
            "how many weeks from 1 December to 5 January",
            "35 days (5 weeks and 0 days) from Tuesday, 2026-12-01 to Tuesday, 2027-01-05",
        ),
        ("còn bao nhiêu ngày nữa đến giáng sinh", "27 days from Saturday, 2026-11-28 to Friday, 2026-12-25"),
        ("từ 1/3/2026 đến 31/3/2026 có bao nhiêu ngày", "30 days from Sunday, 2026-03-01 to Tuesday, 2026-03-31"),
        ("I was born on 5 March 1990, how old am I?", "36 years old on Saturday, 2026-11-28"),
        ("how many years ago was 1969", "57 years from 1969 to 2026"),
        ("how many days are in February 2028", "29 days in February 2028"),
    ],
)
def test_day_is_counted_from_the_current_date(model, question, day):
    """A day that is stated relative to today is counted from the date that the tool returns."""
    (made,) = ask(model, question).tool_calls
    today = ToolMessage(made.id, made.name, json.dumps({"date": "2026-11-28", "weekday": "Saturday"}))
    asked = [UserMessage(question), AssistantMessage("", (ToolCall(made.id, made.name, "{}"),)), today]
    assert model.complete(Request(asked, tools=SPECS)).text == day


def test_day_is_not_counted_without_a_date(model):
    """A result without a date, and a day outside the calendar, are reported as such."""
    call = ToolCall("1", "get_current_datetime", "{}")
    for question, content in (
        ("what date is tomorrow", "noon"),
        ("what date is it in 9999 years", '{"date": "2026-11-28"}'),
        ("what day of the week is 31 November", '{"date": "2026-11-28"}'),
    ):
        asked = [UserMessage(question), AssistantMessage("", (call,)), ToolMessage("1", call.name, content)]
        expected = "calendar has no such day" if "2026" in content else "gave no date to count from"
        assert expected in model.complete(Request(asked, tools=SPECS)).text


@pytest.mark.for_each(
    ("question", "reason"),
    [
        ("how many bytes are in 3 Mb", "'Mb' can be bits or bytes: write Mbit or MB."),
        (
            "how many liters are in 2 gallons",
            "'gallons' differ between countries: write US gallons or imperial gallons.",
        ),
        ("how many kg in 3 miles", "'miles' cannot be converted to 'kg', which measures something else."),
    ],
)
def test_impossible_conversion_is_rejected_with_its_reason(model, question, reason):
    """Units that are ambiguous or measure different things are not converted, nor sent to a search."""
    response = ask(model, question)
    assert (response.tool_calls, response.text) == ((), reason)


def test_conversion_is_not_sent_to_a_web_search(model):
    """Without a calculator, a quantity to convert is not sent to a web search."""
    specs = tuple(spec for spec in SPECS if spec.name in ("web_search", "wikipedia"))
    response = model.complete(Request([UserMessage("how many bytes are in 3 MB")], tools=specs))
    assert response.tool_calls == ()


@pytest.mark.for_each(
    "question",
    [
        "how many eggs are in 3 dozen boxes",
        "50 plus 8% tax and 15% tip",
        "10% off 50 and 20%",
        "echo chamber",
        "remind me tomorrow",
        "see you tomorrow",
        "what's on next Friday",
        "who won last Sunday",
        "time in Tokyo, Paris and Narnia",
        "round 3",
        "2 and a half men season 3",
        "12 days of christmas",
        "first quarter of 2026",
        "5-10 km in miles",
        "10 + 5 km in m",
        "what's 9/11",
        "10 dollars plus 5 euros",
        "20% off 40 with a 5 dollar coupon",
        "20% off two $40 shirts",
        "120 km at 60 per hour",
        "sum of the even numbers from 1 to 100",
        "how many days between Monday and Friday",
        "is christmas on a friday",
        "what day is 5/3/2027",
    ],
)
def test_similar_questions_are_not_calculated(question):
    """A question that only resembles a conversion, a day or a command is left to the engine or rejected."""
    asked = Question(normalised(separate_time_requests(question)), has_commands=True)
    assert not asked.spans_of(Shape.COMMAND)
    assert not [
        span
        for span in asked.spans_of(Shape.EXPRESSION)
        if " * " in span.text and len(asked.spans) == 1 and not asked.outer_words
    ]
    assert date_answer(question) is None


@pytest.mark.for_each(
    "question",
    [
        "How do I get over a breakup?",
        "how to lose weight fast",
        "is it normal to cry every day",
        "what is wrong with me",
        "how to cope with grief",
        "why do people feel so lonely",
        "should I quit my job?",
        "am I depressed?",
        "how to stop worrying",
        "how do people get through losing a parent",
        "làm sao để quên người yêu cũ",
    ],
)
def test_personal_question_is_not_searched_for(model, question):
    """A personal question is not sent to a web search, and no search is suggested."""
    response = ask(model, question)
    assert response.tool_calls == ()
    assert "Did you mean" not in response.text


@pytest.mark.for_each(
    ("text", "start"),
    [
        ("hello", "Hello. "),
        ("hi there", "Hello. "),
        ("xin chào", "Hello. "),
        ("thank you!", "You are welcome."),
        ("Thanks a lot", "You are welcome."),
        ("cảm ơn", "You are welcome."),
        ("bye", "Goodbye."),
        ("see you later", "Goodbye."),
        ("thank you very much, that helps", "You are welcome."),
        ("ok", "All right."),
        ("great job", "All right."),
        ("how are you?", "Hello. "),
        ("chào buổi sáng", "Hello. "),
    ],
)
def test_small_talk_is_answered_in_one_line(model, text, start):
    """A greeting, thanks and a farewell are answered in one line."""
    answer = ask(model, text).text
    assert answer.startswith(start)
    assert "\n" not in answer
    assert len(answer) < 200


def report(model, question, call, result):
    """Return the report of a result."""
    messages = [
        UserMessage(question),
        AssistantMessage("", (call,)),
        ToolMessage(call.id, call.name, json.dumps(result)),
    ]
    return model.complete(Request(messages, tools=SPECS)).text


def test_validity_is_reported_without_the_document(model):
    """The validity of JSON is reported as a yes or a reason."""
    call = ToolCall("1", "parse_json", '{"json_string": "[1, 2]"}')
    assert report(model, "is [1, 2] valid JSON?", call, {"success": True, "data": [1, 2]}) == "It is valid JSON."
    failed = {"success": False, "error": "Expecting ',' (line 1)"}
    assert report(model, "is this valid JSON: [1 2", call, failed) == "It is not valid JSON: Expecting ',' (line 1)"
    assert report(model, "parse the JSON [1, 2]", call, {"success": True, "data": [1, 2]}) == "1, 2"


def test_command_without_output_is_reported(model):
    """A command without output is reported with a sentence, and a failed one with its exit code."""
    call = ToolCall("1", "run_shell", '{"command": "touch x"}')
    result = {"command": "touch x", "output": "", "stdout": "", "stderr": "", "return_code": 0}
    assert report(model, "run touch x", call, result) == "run_shell printed nothing."
    assert "return_code: 1" in report(model, "run touch x", call, {**result, "return_code": 1})


@pytest.mark.parametrize(
    ("zone", "asked", "place"),
    [
        ("America/New_York", "New York", "New York"),
        ("Asia/Ho_Chi_Minh", "Hanoi", "Hanoi"),
        ("Asia/Ho_Chi_Minh", "Asia/Ho_Chi_Minh", "Ho Chi Minh"),
        ("UTC", "UTC", "UTC"),
    ],
)
def test_time_names_its_place(model, zone, asked, place):
    """The time of another place is reported with the place as it is named in the question."""
    call = ToolCall("1", "get_current_datetime", json.dumps({"timezone": zone}))
    result = {"time": "10:54", "date": "2026-11-27", "timezone": zone}
    assert report(model, f"what time is it in {asked}?", call, result) == f"time: 10:54 in {place}"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": "hot"}, r"temperature= takes a number from 0 to 2\. Got 'hot'\."),
        ({"temperature": 3}, "temperature="),
        ({"reasoning_effort": "hihg"}, "Did you mean 'high'\\?"),
        ({"reasoning_effort": 3}, "reasoning_effort= takes one of none"),
        ({"max_tokens": 0}, "max_tokens= takes a whole number"),
    ],
)
def test_settings_with_invalid_values_are_rejected(model, settings, words):
    """An ignored setting is rejected if its value is invalid."""
    with pytest.raises(ConfigError, match=words):
        model.complete(Request([UserMessage("2+2")], tools=SPECS, settings=settings))
    valid = {"temperature": 0.2, "reasoning_effort": "high", "max_tokens": 100, "seed": 1}
    assert model.complete(Request([UserMessage("2+2")], tools=SPECS, settings=valid)).tool_calls


@pytest.mark.for_each("spec", SPECS, ids=[spec.name for spec in SPECS])
def test_refusal_suggests_requests_that_are_served(model, spec):
    """A request that is not served is answered with an example for each of the built-in tools, which works."""
    text = model.complete(Request([UserMessage("write me a poem about the sea")], tools=(spec,))).text
    (example,) = re.findall(r"Ask, for example: `(.*)`\.", text)
    assert [call.name for call in ask(model, example).tool_calls] == [spec.name]


@pytest.mark.for_each(
    "part",
    [
        "1 + ",
        "$1 ",
        "2 million ",
        "two point five ",
        "half of the 1 + ",
        "1 hour 2 minutes ",
        "a $75 meal with ",
        "hai ",
        "christmas ",
        "time in Tokyo and ",
        "làm sao ",
        "start with 1, add 1% ",
        "how many km in ",
        "`",
        "(",
        "[1,",
    ],
)
def test_repetitions_are_read_in_little_time(model, part):
    """A request of a thousand characters that repeats one part takes less than two seconds of processor time."""
    begin = time.process_time()
    Question(normalised((part * 1_000)[:990] + " otherwise"), has_commands=True)
    date_answer(part * 1_000)
    assert time.process_time() - begin < 2
