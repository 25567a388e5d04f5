"""Tests for the chat page in a real browser."""

import json
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from agentkit import LLM, Agent, core_tools, default_tools, system_tools, tool
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, say
from agentkit.tools.human import ask_user_tool
from agentkit.tools.planning import planning_tools

pytestmark = pytest.mark.slow

WRITE = call("write_file", path="a.txt", content="new\n")
ENDED = "!document.body.classList.contains('running') && !!document.querySelector('.figures, .note')"
ASKED = "!!document.querySelector('.question')"
PRESSABLE = "!!document.querySelector('.question button.deny:enabled')"
POOR_CONTRAST = """(() => {
  const linear = (colour) => (colour <= 0.03928 ? colour / 12.92 : ((colour + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [red, green, blue] = text.match(/[\\d.]+/g).map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    return /, 0\\)$/.test(colour) ? ground(node.parentElement) : colour;
  };
  const texts = 'h1, h3, p, button, label, summary, code, dt, dd, .chip, .user-prompt, .rule, .remark';
  const poor = [];
  for (const node of document.querySelectorAll(texts)) {
    if (!node.offsetParent || node.disabled || !node.textContent.trim()) continue;
    const [one, two] = [light(getComputedStyle(node).color), light(ground(node))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < 4.5) poor.push([node.className, node.textContent.slice(0, 30), ratio]);
  }
  return poor;
})()"""
LINEAR = """
  const it = await import('/markdown.js');
  for (const text of TEXTS) it.show(document.createElement('div'), text);
  return 'shown';
"""
MADE = """
  const it = await import('/markdown.js');
  return TEXTS.map((text) => {
    const node = document.createElement('div');
    it.show(node, text);
    for (const each of node.querySelectorAll('.copy')) each.remove();
    for (const each of node.querySelectorAll('.code-block')) each.replaceWith(...each.childNodes);
    for (const each of node.querySelectorAll('*'))
      for (const name of ['dir', 'tabindex', 'role', 'aria-label', 'class']) each.removeAttribute(name);
    return node.innerHTML;
  });
"""
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg/onload=window.hacked=1>",
    "[a](javascript:window.hacked=1) [b](data:text/html,<script>window.hacked=1</script>) [c](vbscript:x)",
    "[d](\tjava\nscript:window.hacked=1) <javascript:window.hacked=1> ![e](javascript:window.hacked=1)",
    "```html\n</code></pre><script>window.hacked = 1</script>\n```",
    "| a | <b onclick=window.hacked=1>b</b> |\n|---|---|\n| `<i>` | <style>*{display:none}</style> |",
    "1. <iframe src='javascript:window.hacked=1'></iframe>\n> <form action=//evil.example><button>x</button></form>",
    "</textarea></article><base href='http://evil.example/'><link rel=stylesheet href='//evil.example/x.css'>",
    "{{constructor.constructor('window.hacked=1')()}} ${window.hacked = 1}",
]
MARKDOWN = [
    ("a *b* **c** _d_ ~~e~~ `f`", "<p>a <em>b</em> <strong>c</strong> <em>d</em> <del>e</del> <code>f</code></p>"),
    ("***both***", "<p><em><strong>both</strong></em></p>"),
    ("snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"),
    ("``a ` b`` \\*c\\*", "<p><code>a ` b</code> *c*</p>"),
    ("# One\n## Two", "<h3>One</h3><h4>Two</h4>"),
    ("a &amp; &copy;", "<p>a &amp;amp; &amp;copy;</p>"),
    ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("- a\n\n  b\n- c", "<ul><li><p>a</p><p>b</p></li><li><p>c</p></li></ul>"),
    ("- a\n  - b\n    - c\n- d", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>"),
    ("> a\n> b\n\nc", "<blockquote><p>a<br>b</p></blockquote><p>c</p>"),
    ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
    ("```\n# not a heading\n", "<pre><code># not a heading</code></pre>"),
    ("a < b & c", "<p>a &lt; b &amp; c</p>"),
    ("# One ##\n#", "<h3>One</h3><h3></h3>"),
    ("~~~ python x\ny\n~~~", "<pre><code>y</code></pre>"),
    ("a|b\n-|x", "<p>a|b<br>-|x</p>"),
    ("", ""),
]
LINKS = [
    # the model's text and the host shown next to it; empty if the label is the address itself
    ("[https://bank.example/?evil.example](https://evil.example/x)", " (evil.example)"),
    ("[evil.example is not https://bank.example](https://evil.example)", " (evil.example)"),
    ("[https://bank.example](https://bank.example@evil.example)", " (evil.example)"),
    ("[x\u202e](https://evil.example/knab)", " (evil.example)"),
    ("https://b\u0430nk.example/", " (xn--bnk-6cd.example)"),
    ("https://good.example/path?x=1", ""),
    ("[good.example](https://good.example/)", ""),
    ("[https://good.example](https://good.example)", ""),
]
NASTY = "<img src=x onerror=window.hacked=1>\"'><script>window.hacked=1</script>\u202e\u200b"


@pytest.fixture
def page(serve, browser):
    """Return a function that opens the page of an agent with scripted lines, signed in."""

    def start(*lines, size=(1100, 800), scheme="light", **options):
        served = serve(*lines, **options)
        browser.open(f"{served.origin}/#token={served.token}", *size, scheme)
        browser.until("document.activeElement?.id === 'prompt'")
        browser.served = served
        return browser

    return start


def test_token_is_removed_from_the_address(page):
    """The link with the token signs in once, and the token is then removed from the address."""
    tab = page("unused")
    token = tab.served.token
    assert token not in tab.js("location.href")
    assert token not in tab.js("document.cookie + JSON.stringify(localStorage) + JSON.stringify(history.state)")
    tab.open(f"{tab.served.origin}/")
    tab.until("document.activeElement?.id === 'prompt'")


def test_page_asks_for_the_token(serve, browser):
    """The page asks for the token, reports a wrong one and continues with the right one."""
    served = serve("unused")
    tab = browser.open(f"{served.origin}/")
    tab.until("document.activeElement?.id === 'token'")
    tab.call("Input.insertText", text="wrong-token-of-some-length")
    tab.press("Enter")
    tab.until("document.getElementById('sign-in-error').textContent.includes('not the token')")
    tab.js("document.getElementById('token').value = ''")
    tab.call("Input.insertText", text=served.token)
    tab.press("Enter")
    tab.until("document.activeElement?.id === 'prompt'")


def test_conversation_by_keyboard(page):
    """A typed prompt shows the answer, a collapsed tool call with its decision, and the cost."""
    tab = page(call("calculator", expression="6*7"), "It is **42**.\n\n- one\n- two")
    tab.type("How much is 6*7?")
    tab.until(ENDED)
    assert tab.js("document.querySelector('.answer strong').textContent") == "42"
    assert tab.js("document.querySelectorAll('.answer li').length") == 2
    assert tab.js("document.querySelector('.call summary').innerText").split()[:3] == ["calculator", "allowed", "6*7"]
    assert "rule: safety-level" in tab.js("document.querySelector('.call .call-body').textContent")
    assert '"result": 42' in tab.js("document.querySelector('.call .result').textContent")
    assert tab.js("document.querySelector('.call').open") is False
    assert tab.js("document.getElementById('cost').textContent").startswith("30 tokens")
    assert tab.js("document.getElementById('status').textContent").startswith("Answer: It is **42**.")


def test_call_is_approved_on_the_page_and_undone(page, tmp_path):
    """A call is approved on the page, its change is shown as a diff and can be undone."""
    (tmp_path / "a.txt").write_text("old\n")
    tab = page(WRITE, "Written.", tools=system_tools)
    tab.type("Write")
    tab.until(ASKED)
    assert tab.js("document.querySelector('.question h3').textContent") == "May helper call write_file?"
    assert "May helper call write_file?" in tab.js("document.getElementById('alert').textContent")
    assert tab.js("document.activeElement.id") == "prompt"
    tab.click("Allow once")
    tab.until(ENDED)
    assert (tmp_path / "a.txt").read_text() == "new\n"
    assert "allowed once by you" in tab.js("document.querySelector('.call summary').innerText")
    assert tab.js("document.querySelector('.changes summary').textContent") == "Changed a.txt"
    assert tab.js("document.querySelector('.diff ins').textContent") == "+new\n"
    assert tab.js("document.querySelector('.diff del').textContent") == "-old\n"
    tab.click("Undo")
    tab.until("document.querySelector('.changes .remark').textContent.startsWith('Restored')")
    assert (tmp_path / "a.txt").read_text() == "old\n"
    tab.open(tab.js("location.href"))
    tab.until("document.querySelector('.changes .remark')?.textContent === 'Undone.'")


def test_plan_is_one_list_that_changes_in_place(page):
    """A plan is shown once with the latest status of its steps, also after a reload."""
    plans = [[("read", status), ("fix <b>", "pending")] for status in ("active", "done")]
    calls = [call("update_plan", steps=[{"step": step, "status": status} for step, status in plan]) for plan in plans]
    tab = page(*calls, "Done.", tools=planning_tools)
    tab.type("Plan")
    tab.until(ENDED)
    text = "(item) => `${item.className}: ${item.lastChild.textContent}`"
    items = f"[...document.querySelectorAll('.plan li')].map({text}).join()"
    assert tab.js(items) == "done: read,pending: fix <b>"
    tab.open(tab.js("location.href"))
    tab.until("document.querySelectorAll('.plan').length === 1")
    assert tab.js(items) == "done: read,pending: fix <b>"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["b/a b.txt", "c.txt"], "Changed b/a b.txt, c.txt"),
        (['a "b.txt'], 'Changed "a \\"b.txt"'),
        (["1", "2", "3", "4"], "Changed 4 files"),
    ],
)
def test_changed_files_are_listed(page, names, expected):
    """The summary of a change names the files, or counts them if there are many."""
    writing = [call("write_file", path=name, content="x") for name in names]
    tab = page(writing, "Written.", tools=system_tools, safety="SYSTEM")
    tab.type("Write")
    tab.until(ENDED)
    assert tab.js("document.querySelector('.changes summary').textContent") == expected


def test_model_error_is_shown_once(page):
    """An error from the model appears once on the page, also after a reload."""
    with FakeServer(fail(403, "not for you")) as server:
        tab = page(agent=Agent("helper", llm=LLM(base_url=server.base_url, api_key="k")))
        tab.type("Hello")
        tab.until("!!document.querySelector('.note.bad')")
        text = (
            "[...document.querySelectorAll('.note')].filter((note) => note.textContent.includes('not for you')).length"
        )
        assert tab.js(text) == 1
        tab.open(tab.js("location.href"))
        tab.until("!!document.querySelector('.note.bad')")
        assert tab.js(text) == 1


def test_call_is_denied_with_a_reason(page, tmp_path):
    """Pressing Enter in the reason field denies the call and sends the reason to the model."""
    tab = page(WRITE, "I see.", tools=system_tools)
    tab.type("Write")
    tab.until(PRESSABLE)
    tab.js("document.querySelector('.reason-row input').focus()")
    tab.call("Input.insertText", text="not today")
    tab.press("Enter")
    tab.until(ENDED)
    assert "denied by you" in tab.js("document.querySelector('.call summary').innerText")
    assert "not today" in tab.js("document.querySelector('.call .result').textContent")
    assert not (tmp_path / "a.txt").exists()


def test_arguments_can_be_edited_before_approval(page, tmp_path):
    """Edited arguments are used for the call, and input that is not a JSON object is rejected."""
    tab = page(WRITE, "Written.", tools=system_tools)
    tab.type("Write")
    tab.until(ASKED)
    tab.js("document.querySelector('.edit').open = true")
    tab.js("document.querySelector('.edit textarea').value = '[1]'")
    tab.click("Allow once with these arguments")
    tab.until("document.querySelector('.error').textContent.includes('not a JSON object')")
    edited = json.dumps(json.dumps({"path": "b.txt", "content": "edited"}))
    tab.js(f"document.querySelector('.edit textarea').value = {edited}")
    tab.click("Allow once with these arguments")
    tab.until(ENDED)
    assert (tmp_path / "b.txt").read_text() == "edited"
    assert "edited" in tab.js("document.querySelector('.call summary').innerText")


def test_question_survives_a_reload(page, tmp_path):
    """A pending question is shown again after a reload and can be answered."""
    tab = page(WRITE, "Written.", tools=system_tools)
    tab.type("Write")
    tab.until(ASKED)
    tab.open(tab.js("location.href"))
    tab.click("Allow once")
    tab.until(ENDED)
    assert tab.js("document.querySelectorAll('.run').length") == 1
    assert (tmp_path / "a.txt").exists()


def test_escape_stops_a_run(page):
    """Escape stops the run and the page accepts the next prompt."""
    tab = page(say("I think.", WRITE), "Hello again.", tools=system_tools)
    tab.type("Write")
    tab.until(ASKED)
    tab.press("Escape")
    tab.until(ENDED)
    assert "Stopped." in tab.text
    tab.js("document.getElementById('prompt').focus()")
    tab.type("Hi")
    tab.until("document.querySelectorAll('.run').length === 2 && document.querySelectorAll('.answer').length === 2")


def test_question_from_a_tool_is_answered(page):
    """A question asked by a tool is shown, and the typed answer is returned to the model."""
    tab = page(call("ask_user", question="Which colour?"), "Blue it is.", tools=[ask_user_tool()])
    tab.type("Paint")
    tab.until("document.querySelector('.question pre')?.textContent === 'Which colour?'")
    tab.js("document.querySelector('.question input').value = 'blue'")
    tab.click("Answer")
    tab.until("document.querySelector('.answer')?.textContent === 'Blue it is.'")


def test_conversations_are_listed_and_switched(page):
    """Conversations are listed and can be switched, and a new one starts empty."""
    tab = page("One.", "Two.")
    tab.type("First question")
    tab.until("document.querySelectorAll('#names li').length === 1")
    tab.click("New conversation")
    tab.until("document.querySelector('#empty') && document.activeElement?.id === 'prompt'")
    tab.type("Second question")
    tab.until("document.querySelectorAll('#names li').length === 2")
    tab.until("document.querySelector('#names [aria-current] .title')?.textContent === 'Second question'")
    tab.js(
        "[...document.querySelectorAll('#names button')].find((each) => each.textContent.startsWith('First')).click()"
    )
    tab.until("document.querySelector('.user-prompt')?.textContent.includes('First question')")
    assert tab.js("document.querySelector('.answer').textContent") == "One."


def test_model_output_is_rendered_as_text(page):
    """HTML in the model's output runs no script, loads no resource and creates no element."""
    tab = page(*HOSTILE)
    for number in range(1, len(HOSTILE) + 1):
        tab.type("Go")
        tab.until(f"document.querySelectorAll('.figures').length === {number} && {ENDED}")
    assert tab.js("window.hacked") is None
    elements = "script, img, svg, iframe, form, style, base, link, input, object, [onclick], [onerror], [style]"
    assert tab.js(f"document.querySelectorAll('#log :is({elements})').length") == 0
    assert tab.js("[...document.querySelectorAll('#log a')].every((each) => /^https?:$/.test(each.protocol))") is True
    loaded = "performance.getEntriesByType('resource').filter((each) => !each.name.startsWith(location.origin)).length"
    assert tab.js(loaded) == 0


def test_tool_output_and_names_are_rendered_as_text(page, tmp_path):
    """HTML in arguments, results, errors, diffs and names is shown as text."""

    @tool(level="system")
    def echo(text: str) -> str:
        """Repeat the text."""
        (tmp_path / "a.txt").write_text(text)
        return text

    llm = ScriptedLLM(
        [call("echo", text=NASTY), call(NASTY, text=NASTY)],
        call("write_file", path=f"{NASTY[:3]}.txt", content=NASTY),
        NASTY,
    )
    agent = Agent(NASTY, [echo, *default_tools], llm=llm, workspace=tmp_path, safety="system", instruction=NASTY)
    tab = page(agent=agent, app_options={"session": NASTY.replace("\u202e", "").replace("\u200b", "")})
    tab.type(NASTY)
    tab.until(ENDED)
    assert tab.js("window.hacked") is None
    assert tab.js("document.querySelectorAll('img, svg, #log script').length") == 0
    assert tab.js("document.querySelectorAll('.call').length") == 3
    seen = tab.js("[...document.querySelectorAll('.call, .changes, .note')].map((each) => each.textContent).join('')")
    assert "\\u{202e}" in seen
    assert "\u202e" not in seen


def test_markdown_is_rendered_in_linear_time(page):
    """Hostile Markdown is rendered in linear time."""
    pieces = ["[", "*a ", "```x ", "![](", "_", "**", "~~a", "<http://", "\\", "> ", "- ", "|", "[a](b", "* _"]
    texts = [piece * (20_000 // len(piece)) for piece in pieces]
    texts += ["\n".join("  " * level + "- x" for level in range(200)), "\n".join(">" * level for level in range(200))]
    texts += ["# " + " " * 20_000 + "x\u2028y", "```" + " " * 20_000 + "`", "~" * 20_000 + "`", "a|b\n-" + " " * 20_000]
    texts += ["- " + " " * 20_000 + "\u2028", "http://" + "." * 20_000 + "x", "*a**" * 5_000, "http://a " * 2_000]
    texts += ["|a|\n|-|\n" + "|b|\n" * 2_000, "#" * 20_000, "1. x\n\n" * 2_000, "```\n" * 2_001, "a\n===\n" * 2_000]
    shown = page("unused").js(f"(async () => {{ const TEXTS = {json.dumps(texts)};{LINEAR} }})()")
    assert shown == "shown"


def test_link_shows_its_host(page):
    """The host of a link is shown next to its label unless the label is the address itself."""
    tab = page("unused")
    for text, host in LINKS:
        made = f"""import('/markdown.js').then((it) => {{
          const node = document.createElement('div');
          it.show(node, {json.dumps(text)});
          return [node.querySelectorAll('a').length, node.querySelector('.host')?.textContent ?? ''];
        }})"""
        assert tab.js(made) == [1, host], text


def test_markdown_becomes_elements(page):
    """Markdown is rendered as the matching elements."""
    texts = json.dumps([text for text, _ in MARKDOWN])
    made = page("unused").js(f"(async () => {{ const TEXTS = {texts};{MADE} }})()")
    assert made == [html for _, html in MARKDOWN]


def test_unchanged_elements_are_reused(page):
    """Rendering a longer answer reuses the elements whose text has not changed."""
    grown = """import('/markdown.js').then((it) => {
      const node = document.createElement('div');
      it.show(node, 'one\\n\\ntwo');
      const [first, second] = node.children;
      it.show(node, 'one\\n\\ntwo and more\\n\\nthree');
      return [node.children[0] === first, node.children[1] === second, node.children.length];
    })"""
    assert page("unused").js(grown) == [True, False, 3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1100])
def test_page_fits_and_has_enough_contrast(page, width, scheme):
    """The page does not overflow and has enough contrast in both colour schemes and on a narrow screen."""
    table = (
        "| a | b | c | d | e | f |\n|---|---|---|---|---|---|\n" + "| a_very_long_word_in_a_cell | b | c | d | e | f |"
    )
    tab = page(
        f"{table}\n\n```\n{'x' * 300}\n```\n{'y' * 300}", WRITE, size=(width, 640), scheme=scheme, tools=system_tools
    )
    tab.type("Show a table")
    tab.until(ENDED)
    tab.type("Now write")
    tab.until(ASKED)
    assert tab.js("document.documentElement.scrollWidth <= innerWidth") is True
    assert tab.js("document.getElementById('log').scrollWidth <= document.getElementById('log').clientWidth") is True
    tab.until(PRESSABLE)
    assert tab.js(POOR_CONTRAST) == []


def test_every_control_has_an_accessible_name(page):
    """Every button, field and region has an accessible name."""
    tab = page(call("calculator", expression="1"), WRITE, tools=[*core_tools, *system_tools])
    tab.type("Write")
    tab.until(ASKED)
    tab.call("Accessibility.enable")
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "navigation", "log", "form", "DisclosureTriangle", "link"}
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    assert [(role, name) for role, name in named if role in roles and not name.strip()] == []
    assert ("log", "Conversation") in named
    assert ("textbox", "Your question") in named


BIG = 9007199254740993


def test_large_integers_survive_editing(page):
    """Edited arguments are parsed by the server, so that integers above 2**53 are not rounded."""
    seen = []

    @tool(level="system")
    def pay(order: int) -> str:
        """Pay an order."""
        seen.append(order)
        return "Paid."

    tab = page(call("pay", order=BIG), "Done.", tools=[pay])
    tab.type("Pay")
    tab.until(ASKED)
    tab.js("document.querySelector('.edit').open = true")
    tab.click("Allow once with these arguments")
    tab.until(ENDED)
    assert seen == [BIG]


def test_concurrent_questions_have_separate_cards(page, tmp_path):
    """Concurrent questions of workers with the same name have separate cards, which show their tasks, and answers."""

    def worker(name):
        llm = ScriptedLLM(call("write_file", path=f"{name}.txt", content=name), f"{name} is done.")
        return Agent("worker", system_tools, llm=llm, workspace=tmp_path).as_tool(name)

    both = [call("ann", request="Write the names."), call("ben", request="Write the dates.")]
    tab = page(both, "Both are done.", tools=[worker("ann"), worker("ben")])
    tab.type("Write both")
    tab.until("document.querySelectorAll('.question').length === 2")
    tasks = tab.js("[...document.querySelectorAll('.question [id$=-task]')].map((each) => each.textContent)")
    assert sorted(tasks) == ["For the task: Write the dates.", "For the task: Write the names."]
    tab.click("Allow once")
    tab.until("document.querySelectorAll('.question').length === 1")
    tab.click("Allow once")
    tab.until(ENDED)
    assert {path.name for path in tmp_path.iterdir()} >= {"ann.txt", "ben.txt"}


def test_answer_can_be_sent_again_after_a_lost_connection(page, tmp_path):
    """When the answer does not reach the server, the buttons stay usable."""
    tab = page(WRITE, "Written.", tools=system_tools)
    tab.type("Write")
    tab.until(PRESSABLE)
    tab.js("window.kept = window.fetch; window.fetch = () => Promise.reject(new TypeError('offline')); 0")
    tab.click("Allow once")
    tab.until("document.querySelector('.error').textContent.includes('does not answer')")
    tab.js("window.fetch = window.kept; 0")
    tab.click("Allow once")
    tab.until(ENDED)
    assert (tmp_path / "a.txt").exists()


def test_stopped_run_is_not_busy_after_a_reload(page):
    """A run that was stopped is shown as ended, and can be continued."""
    tab = page(say("I think.", WRITE), "Written.", tools=system_tools)
    tab.type("Write")
    tab.until(ASKED)
    tab.press("Escape")
    tab.until(ENDED)
    tab.open(tab.js("location.href"))
    tab.until("document.querySelectorAll('.run').length === 1")
    assert tab.js("document.querySelector('.busy-line').hidden") is True
    assert tab.js("document.querySelectorAll('.call.busy').length") == 0


def test_another_tab_follows_a_conversation(page):
    """A run that starts in another tab appears in this tab without moving the focus."""
    tab = page("One.", "Two.")
    tab.type("First")
    tab.until(ENDED)
    session = tab.js("new URLSearchParams(location.hash.slice(1)).get('session')")
    tab.js("document.getElementById('search').focus()")
    tab.served.run("Second", session)
    tab.until("document.querySelectorAll('.run').length === 2")
    assert tab.js("document.activeElement.id") == "search"


def test_conversations_are_searched_renamed_and_deleted(page):
    """Conversations have titles and dates; a search finds words in them; they can be renamed and deleted."""
    tab = page("The answer is blue.", "The answer is green.")
    tab.type("What colour is the sky?")
    tab.until(ENDED)
    tab.click("New conversation")
    tab.until("!!document.querySelector('#empty')")
    tab.type("What colour is grass?")
    tab.until("document.querySelectorAll('#names li').length === 2")
    tab.until("document.querySelector('#names [aria-current] .title')?.textContent === 'What colour is grass?'")
    assert tab.js("document.querySelector('#names .date').textContent")
    tab.js(
        "const field = document.getElementById('search'); field.value = 'blue'; field.dispatchEvent(new Event('input'))"
    )
    tab.until("document.querySelectorAll('#names li').length === 1")
    assert "blue" in tab.js("document.querySelector('#names .snippet').textContent")
    tab.js("document.querySelector('#names .more').open = true")
    tab.click("Rename")
    tab.call("Input.insertText", text="Sky")
    tab.press("Enter")
    tab.until("document.querySelector('#names .title')?.textContent === 'Sky'")
    tab.until("document.activeElement.className === 'pick'")
    tab.js("document.querySelector('#names .more').open = true")
    tab.click("Delete")
    assert tab.js("document.activeElement.textContent") == "Cancel"
    tab.click("Delete")
    tab.until("document.querySelector('#names').textContent.includes('Nothing found')")


def test_editing_a_conversation_can_be_cancelled(page):
    """Escape leaves the name field and the question before a deletion, changes nothing, and does not stop a run."""
    tab = page(WRITE, "Written.", tools=system_tools)
    tab.type("Write")
    tab.until(ASKED)
    tab.until("!!document.querySelector('#names .more')")
    for action, field in (("Rename", "INPUT"), ("Delete", "BUTTON")):
        tab.js("document.querySelector('#names .more').open = true")
        tab.click(action)
        assert tab.js("document.activeElement.tagName") == field
        tab.call("Input.insertText", text="Sky")
        tab.press("Escape")
        assert tab.js("document.activeElement.className") == "pick"
    assert tab.js("document.querySelector('#names .title').textContent") == "Write"
    assert tab.js(ASKED)
    tab.js("document.querySelector('#names .more').open = true")
    tab.click("Rename")
    tab.press("Enter")
    tab.until("document.querySelector('#names .error').textContent.includes('in progress')")


def test_prompt_can_be_repeated(page):
    """The button "Ask again" replaces the last answer and stores the old branch as a separate conversation."""
    tab = page(call("calculator", expression="6*7"), "It is 42.", "First.", "Second.")
    tab.type("How much is 6*7?")
    tab.until(ENDED)
    tab.type("And now?")
    tab.until("document.querySelectorAll('.foot').length === 2 && !document.body.classList.contains('running')")
    tab.click("Ask again")
    tab.until("[...document.querySelectorAll('.answer')].at(-1)?.textContent === 'Second.'")
    tab.until("document.querySelectorAll('#names li').length === 2")
    tab.open(tab.js("location.href"))
    tab.until("document.querySelectorAll('.run').length === 2 && document.querySelectorAll('#names li').length === 2")
    assert tab.js("document.querySelectorAll('.call').length") == 1
    assert any(
        "(before 20" in title for title in tab.js("[...document.querySelectorAll('.title')].map((e) => e.textContent)")
    )


def test_file_is_attached(page):
    """A dropped file is sent with the prompt to the model."""
    tab = page("I see.")
    tab.js("""(() => {
      const files = new DataTransfer();
      files.items.add(new File(["the secret word is tide"], "note.txt", { type: "text/plain" }));
      document.getElementById("chat").dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true }));
    })()""")
    tab.until("document.querySelectorAll('#files li').length === 1")
    tab.js("document.getElementById('prompt').focus()")
    tab.type("What is in it?")
    tab.until(ENDED)
    assert "the secret word is tide" in tab.text
    assert tab.js("document.querySelectorAll('#files li').length") == 0


AXE = Path(__file__).with_name("vendor") / "axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_reports_no_violations(page, serve, browser, scheme):
    """The axe-core check reports no violation on the sign-in page, an empty page, with answers and with a question."""

    def violations(tab):
        tab.js(AXE.read_text("utf-8") + ";0")
        return tab.js(
            "axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 120))]))"
        )

    stranger = serve("unused")
    tab = browser.open(f"{stranger.origin}/", 1100, 800, scheme)
    tab.until("document.activeElement?.id === 'token'")
    assert violations(tab) == []
    table = "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n```"
    tab = page(call("calculator", expression="6*7"), table, WRITE, tools=[*core_tools, *system_tools], scheme=scheme)
    assert violations(tab) == []
    tab.type("How much is 6*7?")
    tab.until(ENDED)
    tab.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert violations(tab) == []
    tab.click("Rename")
    assert violations(tab) == []
    tab.js("document.getElementById('prompt').focus()")
    tab.type("Write")
    tab.until(PRESSABLE)
    tab.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert violations(tab) == []
    tab.js("document.querySelector('.top a').click()")
    tab.until("document.querySelectorAll('.run-row').length === 2")
    tab.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    tab.until("document.querySelectorAll('.run-row pre').length >= 2")
    assert violations(tab) == []


ELSEWHERE = """
  fetch("ORIGIN/ag-ui", {
    method: "POST",
    headers: { Authorization: "Bearer TOKEN", "Content-Type": "application/json", "X-Stainless-Lang": "js" },
    body: '{"threadId": "t", "runId": "1", "messages": [{"id": "1", "role": "user", "content": "Hi"}]}'
  }).then((response) => response.text(), (error) => error.name)
"""


def test_only_configured_origins_can_read_a_stream(serve, browser, tmp_path):
    """A page of a configured origin can read a stream in the browser, and pages of other origins cannot."""
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        Thread(target=pages.serve_forever, daemon=True).start()
        origin = f"http://localhost:{pages.server_port}"
        named, other = serve("Hello.", app_options={"origins": [origin]}), serve("Hello.")
        tab = browser.open(f"{origin}/")
        tab.until("document.title === 'elsewhere'")
        scripts = [ELSEWHERE.replace("TOKEN", each.token).replace("ORIGIN", each.origin) for each in (named, other)]
        answers = list(map(tab.js, scripts))
        pages.shutdown()
    assert "RUN_FINISHED" in answers[0]
    assert answers[1] == "TypeError"
