"""Tests for the mapping of provider errors to agentkit's errors."""

import json

import pytest

from agentkit.errors import BadResponse, ModelError, RateLimited, Rejected, Unauthorized, Unreachable
from agentkit.llm.protocols.error_mapping import (
    cut_short_error,
    error_from_body,
    json_object,
    not_compatible_error,
    raise_error_in,
)

CHECK = "Check the base URL, the model's name and the settings."
"""The advice for an error without a message of the server."""


@pytest.mark.for_each(
    ("status", "code", "kind"),
    [
        (400, None, Rejected),
        (400, "invalid_api_key", Unauthorized),
        (400, "RATE_LIMIT_EXCEEDED", RateLimited),
        (401, "rate_limit_exceeded", Unauthorized),
        (403, None, Unauthorized),
        (404, None, Rejected),
        (408, None, Unreachable),
        (424, None, Unreachable),
        (425, None, Unreachable),
        (498, None, Unreachable),
        (499, None, Unreachable),
        (429, "server_error", RateLimited),
        (500, "invalid_api_key", Unreachable),
        (529, "overloaded_error", Unreachable),
        (None, None, Rejected),
        (None, 401, Unauthorized),
        (None, "503", Unreachable),
        (None, 20_012, Rejected),
        (None, "overloaded_error", Unreachable),
        (None, "server_is_overloaded", Unreachable),
        (None, "insufficient_quota", RateLimited),
        (None, "project_spend_limit_exceeded", RateLimited),
    ],
)
def test_status_and_code_determine_the_class(status, code, kind):
    """The error class depends on the status, or on the code if the status is ambiguous."""
    error = error_from_body({"error": {"message": "Boom", "code": code}}, status=status)
    assert type(error) is kind
    assert "Boom" in str(error)


@pytest.mark.for_each(
    ("body", "message", "code", "parameter"),
    [
        ({"error": {"message": "Boom", "code": "c", "param": "p"}}, "Boom", "c", "p"),
        ({"error": {"message": "Boom", "type": "t", "code": None}}, "Boom", "t", None),
        ({"error": {"message": "Boom", "code": 400, "status": "INVALID_ARGUMENT"}}, "Boom", "INVALID_ARGUMENT", None),
        ([{"error": {"message": "Boom", "code": 400}}], "Boom", "400", None),
        ({"error": "Boom"}, "Boom", None, None),
        ({"error": "Bad Request", "message": "Boom", "code": "c"}, "Boom", "c", None),
        ({"message": "Boom"}, "Boom", None, None),
        ({"detail": "Boom"}, "Boom", None, None),
        ({"error": {"message": {"text": "Boom"}}}, '{"text": "Boom"}', None, None),
        ({"error": {"code": "c"}}, f'{{"error": {{"code": "c"}}}}. {CHECK}', "c", None),
        ({"error": {}, "message": "Boom"}, "Boom", None, None),
        ({"error": 503, "message": "Boom"}, "Boom", "503", None),
        ("Boom", "Boom", None, None),
        ("<html><script>x < 1</script><h1>Boom</h1>\n<p>now", f"Boom now. {CHECK}", None, None),
        ({}, f"no explanation was given. {CHECK}", None, None),
        ([], f"no explanation was given. {CHECK}", None, None),
        (None, f"no explanation was given. {CHECK}", None, None),
        (42, f"42. {CHECK}", None, None),
        ({"error": {"message": "B\x1b[31moom\x00"}}, "Boom ", None, None),
        ({"code": 50_000, "msg": "Boom"}, "Boom", "50000", None),
        ({"detail": [{"loc": ["body", "a", 0, "b"], "msg": "Boom", "input": "x"}]}, "a.0.b: Boom", None, "a.0.b"),
        (
            {"detail": [{"loc": "a", "msg": "Boom"}, {"loc": ["body", "b"], "msg": "Bang"}]},
            "a: Boom; b: Bang",
            None,
            "a",
        ),
        ({"message": {"detail": [{"loc": ["body"], "msg": "Boom"}]}}, "None: Boom", None, None),
        ({"detail": ["Boom"]}, '["Boom"]', None, None),
        ({"Message": "Boom"}, "Boom", None, None),
        ({"error": '{"message": "Boom", "code": "c"}'}, "Boom", "c", None),
        ({"error": "{Boom"}, "{Boom", None, None),
        ({"base_resp": {"status_code": 2013, "status_msg": "Boom"}}, "Boom", None, None),
    ],
)
def test_error_bodies_of_any_shape(body, message, code, parameter):
    """An error body of any shape is parsed and reported with the server's message."""
    error = error_from_body(body, status=400)
    assert str(error) == f"The provider answered 400: {message}"
    assert (error.status, error.code, error.parameter) == (400, code, parameter)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("Bang, please", "Boom: Bang, please"),
        ('{"error": {"message": "Bang"}}', "Boom: Bang"),
        ({"error": {"message": "Bang"}}, "Boom: Bang"),
        ("[1", "Boom: [1"),
        ("Boom", "Boom"),
        ("", "Boom"),
        (None, "Boom"),
    ],
)
def test_router_error_contains_the_upstream_message(raw, message):
    """The upstream provider's message follows the router's own message."""
    error = error_from_body({"error": {"message": "Boom", "code": 400, "metadata": {"raw": raw}}}, status=400)
    assert str(error) == f"The provider answered 400: {message}"


@pytest.mark.for_each(
    ("error", "kind"),
    [
        ({"code": "api_error", "message": "Internal server error"}, Unreachable),
        ({"type": "engine_overloaded_error", "message": "Boom"}, Unreachable),
        ({"message": "The model is overloaded"}, Unreachable),
        ({"message": "Boom", "error_type": "incomplete_generation"}, Unreachable),
        ({"code": "Throttling.RateQuota", "type": "Throttling", "message": "Boom"}, RateLimited),
        ({"message": "quota exceeded"}, RateLimited),
        ({"message": "Your API key is not valid: rate limit"}, Unauthorized),
        ({"message": "Bearer token has expired"}, Unauthorized),
        ({"code": "api_error", "message": "model not found"}, Rejected),
    ],
)
def test_message_determines_the_class_without_a_code(error, kind):
    """An error with status 200 and no known code is classified by its message."""
    assert type(error_from_body({"error": error})) is kind


def test_message_does_not_override_a_status():
    """The message of a request rejected with 400 does not change its class."""
    assert type(error_from_body({"error": {"message": "rate limit must be a number"}}, status=400)) is Rejected


@pytest.mark.parametrize(
    ("fields", "status", "kind"),
    [
        ({"status_code": 400}, 400, Rejected),
        ({"http_status_code": 429}, 429, RateLimited),
        ({"code": "x", "statusCode": "503"}, 503, Unreachable),
        ({"code": 401, "status_code": 503}, 401, Unauthorized),
        ({"status_code": 1_004}, None, Rejected),
        ({"status_code": None}, None, Rejected),
    ],
)
def test_error_inside_a_success_names_its_status(fields, status, kind):
    """An error with status 200 that names another status is classified by that status."""
    error = error_from_body({"error": {"message": "Boom", **fields}})
    assert (error.status, type(error)) == (status, kind)


@pytest.mark.parametrize("written", ['{"name": "f", "arguments": {"x": 1}}', "<function=f>{}</function>"])
def test_rejected_call_text_is_quoted_in_the_error(written):
    """The rejected text of a call is quoted in the error and does not affect its class."""
    fields = {"message": "Failed to call a function.", "code": "tool_use_failed"}
    error = error_from_body({"error": {**fields, "failed_generation": f"{written} invalid API key"}}, status=400)
    assert str(error) == f"The provider answered 400: Failed to call a function: {written} invalid API key"
    assert type(error) is Rejected
    assert str(error_from_body({"error": {**fields, "failed_generation": ""}}, status=400)).endswith("call a function.")


def test_rate_limit_error_has_its_details():
    """A RateLimited error contains the status, code, parameter and requested delay."""
    error = error_from_body(
        {"error": {"message": "Slow", "code": "c", "param": "p"}}, status=429, retry_after_seconds=3
    )
    assert (error.status, error.code, error.parameter, error.retry_after_seconds) == (429, "c", "p", 3)


def test_google_reason_determines_the_error_class():
    """The reason that Google adds to a generic status determines the error class."""
    details = [{"@type": "x"}, "?", {"reason": "API_KEY_INVALID"}]
    assert type(error_from_body([{"error": {"message": "No", "details": details}}], status=400)) is Unauthorized


@pytest.mark.parametrize("field", ["message", "detail", "failed_generation"])
def test_end_of_a_long_error_is_ignored(field):
    """Text after the first 30,000 characters of an error body does not affect the error class."""
    error = error_from_body({"error": {field: "x" * 40_000 + " rate limit reached, incorrect api key provided"}})
    assert type(error) is Rejected
    assert not error.written


def test_long_messages_are_truncated():
    """The message of an error with pages of text is truncated."""
    assert len(str(error_from_body("<p>" * 100_000 + "x" * 10_000, status=500))) < 300


@pytest.mark.parametrize(
    "data",
    [
        {"error": "x"},
        {"message": "x"},
        {"detail": "x"},
        {"object": "error", "message": {}},
        {"error": {"code": 1}, "choices": []},
        {"Message": "x"},
        {"base_resp": {"status_code": 1004, "status_msg": "login fail"}, "choices": None},
    ],
)
def test_errors_inside_a_success_are_recognized(data):
    """An error is recognized in a response with status 200."""
    with pytest.raises(ModelError):
        raise_error_in(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"error": None, "output": []},
        {"choices": [], "message": "?"},
        {"response": {}, "detail": "?"},
        {"message": {"content": "?"}},
        {"base_resp": {"status_code": 0, "status_msg": ""}, "choices": []},
    ],
)
def test_bodies_without_an_error(data):
    """A body with an answer, or without any content, raises no error."""
    assert raise_error_in(data) is None


def test_errors_describe_the_received_response():
    """Errors for web pages and truncated streams describe what was received."""
    assert "'<html> Hi' " not in str(not_compatible_error("<html>\n  Hi"))
    assert "'<html> Hi'" in str(not_compatible_error("<html>\n  Hi"))
    assert isinstance(cut_short_error(5), BadResponse)
    assert "5 characters" in str(cut_short_error(5))


@pytest.mark.for_each(
    ("status", "body", "kind", "code", "advice"),
    [
        (400, {"error": "Incorrect API key provided: xx***."}, Unauthorized, None, "Check the API key."),
        (400, {"error": {"message": "API key expired."}}, Unauthorized, None, "Check the API key."),
        (400, {"error": {"message": "Your credit balance is too low"}}, Rejected, None, "waiting does not help."),
        (400, {"error": {"message": "x", "code": "billing_hard_limit_reached"}}, RateLimited, None, "does not help."),
        (402, {"error": {"message": "Insufficient Balance"}}, Rejected, None, "Check the account's balance."),
        (
            403,
            {"error": {"message": "Your input was flagged for x."}},
            Rejected,
            "content_filter",
            "Change the wording.",
        ),
        (405, "", Rejected, None, "Check the base URL."),
        (501, "Unsupported method ('POST')", Unreachable, None, "Check the base URL."),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, RateLimited, None, "waiting does not help."),
        (429, {"error": {"message": "x", "code": "credit_balance_exhausted"}}, RateLimited, None, "does not help."),
        (429, {"error": {"message": "x", "type": "organization_usage_limit_exceeded"}}, RateLimited, None, "not help."),
        (429, {"error": {"message": "余额不足。"}}, RateLimited, None, "。 Check the account's balance and quota;"),
        (429, {"error": {"message": "Slow"}}, RateLimited, None, "Wait, or check the account's quota."),
        (503, {"error": {"message": "Loading model"}}, Unreachable, None, "Loading model. Try again later."),
        (400, {"errors": [{"message": "Boom", "code": 10_000}]}, Rejected, "10000", "400: Boom"),
        (None, {"error_code": 17, "error_msg": "Boom"}, Rejected, None, "an error: Boom"),
    ],
)
def test_error_has_a_remedy(status, body, kind, code, advice):
    """Each error suggests its own remedy: another key, payment, a retry, or another prompt."""
    error = error_from_body(body, status=status)
    assert type(error) is kind
    assert advice in str(error)
    assert code in (None, error.code)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"message": "Please try again in 8s."}, 8.0),
        ({"message": "Please try again in 1m30.5s."}, 90.5),
        ({"message": "Please try again in 250ms."}, 0.25),
        ({"message": "Retry after 2h 1m"}, 7_260.0),
        ({"message": "x", "details": [{"@type": "RetryInfo", "retryDelay": "34s"}]}, 34.0),
        ({"message": "Try again in a while"}, None),
        ({"message": "x"}, None),
    ],
)
def test_delay_in_the_error_message(error, seconds):
    """The delay is parsed from the error message if no header contains it."""
    assert error_from_body({"error": error}, status=429).retry_after_seconds == seconds
    assert error_from_body({"error": error}, status=429, retry_after_seconds=3).retry_after_seconds == 3


@pytest.mark.parametrize("text", ["{}", ' {"a": [1]}\n'])
def test_json_objects_are_parsed(text):
    """A JSON object is parsed, with or without surrounding blanks."""
    assert json_object(text) == json.loads(text)


@pytest.mark.for_each("text", ["", "Hi", "<html>", "{", "[", "[1]", "1", "null", '"Hi"', "[" * 50_000, "9" * 10_000])
def test_invalid_json_object_raises_model_error(text):
    """A body that is not a JSON object raises an error that describes it."""
    with pytest.raises(ModelError):
        json_object(text)


def test_truncated_json_is_quoted_at_its_end():
    """The error for truncated JSON quotes its end."""
    with pytest.raises(BadResponse, match=r"invalid JSON: it ends with '.*the end'"):
        json_object('{"a": "' + "x" * 1_000 + "the end")
