"""Tests for invalid input at the command line: the problem, the remedy, and the exit code."""

FILES = {
    "tools.py": 'def add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b\n',
    "err.py": "x = 1/0\n",
    "bad.json": '{"bad": ',
    "x.csv": "a,b\n1,2\n",
    "bot.txt": "name: bot\n\nBe brief.\n",
}
ROWS = [
    (["tol", "list"], "'tol' is not a command.", "Did you mean 'tools'?"),
    (["tools", "lst"], "No such command 'lst'.", "Did you mean 'list'?"),
    (["tools", "run"], "Missing argument 'NAME'.", "agentkit tools run --help"),
    (["tools", "run", "calcualtor", "2"], "No tool is named 'calcualtor'.", "Did you mean 'calculator'?"),
    (["tools", "run", "calculator"], "Argument 'expression' is missing.", "agentkit tools show calculator"),
    (["tools", "run", "calculator", "expr=2"], "calculator has no parameter 'expr'.", "are: expression."),
    (["tools", "run", "calculator", "2", "3"], "calculator takes expression; '3' is unexpected.", "--help"),
    (["tools", "run", "tools.py:ad", "1"], "tools.py: No tool is named 'ad'.", "Did you mean 'add'?"),
    (["tools", "run", "tools.py:add", "a=x", "b=2"], "Argument 'a' should be a valid integer", 'Got "x".'),
    (["tools", "list", "cor"], "No tool is named 'cor'.", "Did you mean 'core'?"),
    (["tools", "list", "nosuch.py"], "The file 'nosuch.py' does not exist.", "Name a Python file of tools"),
    (["explain", "run_shell", "ls", "--safety", "hi"], "'hi' is not a safety level.", "SAFE, NETWORK or SYSTEM"),
    (["--modle", "x", "hi"], "No such option '--modle'.", "Did you mean --model"),
    (["--sesion", "x", "hi"], "No such option '--sesion'.", "Did you mean --session?"),
    (["--temperature", "0.2", "hi"], "No such option '--temperature'.", "-O temperature VALUE"),
    (["--yolo", "hi"], "No such option '--yolo'.", "Use -y."),
    (["-p", "hi"], "No such option '-p'.", "the answer is printed"),
    (["--versoin"], "No such option '--versoin'.", "Did you mean --version?"),
    (["chat", "--max-turns", "3"], "No such option '--max-turns'.", "--limit iterations=NUMBER"),
    (["logs"], "'logs' is not a command.", "agentkit sessions list"),
    (["install", "llm-ollama"], "'install' is not a command.", "agentkit plugins"),
    (["--reasoning", "hihg", "hi"], "No reasoning effort is named 'hihg'.", "Did you mean 'high'?"),
    (["-m", "", "hi"], "--model takes a name.", "agentkit models"),
    (["-t", "nosuch", "hi"], "No tool is named 'nosuch'.", "The tools are: "),
    (["-t", "bad.json", "hi"], "bad.json: it is not JSON, line 1", ""),
    (["-T", "nosuch", "hi"], "No template is named 'nosuch'.", "Write one: "),
    (["-P", "a", "b", "hi"], "-P sets a parameter of a template.", "-T NAME"),
    (["--max-tokens", "0", "hi"], "Invalid value for '--max-tokens': It takes a whole number of at least 1.", ""),
    (["--limit", "cost", "hi"], "The limit cost has no value.", "cost=NUMBER"),
    (["--limit", "cost=abc", "hi"], "The limit cost takes a number, or none for no limit", "Got 'abc'."),
    (["--limit", "seconds=-3", "hi"], "The limit seconds takes a number above 0, or none for no limit.", "Got -3."),
    (["--limit", "cosst=3", "hi"], "No limit is named 'cosst'.", "Did you mean 'cost'?"),
    (["--session", "", "hi"], "--session takes a name.", "--no-session"),
    (["--store", "nosuch://x", "hi"], "Invalid value for '--store': nosuch:// cannot store sessions.", "Use a file"),
    (["--record", "dir", "hi"], "Invalid value for '--record': File 'dir' is a directory.", ""),
    (["--record", "no/x", "hi"], "The folder 'no' does not exist.", "Create it"),
    (["-o", "dir", "hi"], "'dir' is a folder.", "Name a file in it"),
    (["-o", "no/x", "hi"], "The folder 'no' does not exist.", "Create it"),
    (["--schema", "a int b", "hi"], "--schema has the field 'a int b', whose type is unknown.", "Known: "),
    (["--schema", "nosuch.py:X", "hi"], "The file 'nosuch.py' does not exist.", ""),
    (["--agent", "nosuch.py", "hi"], "The file 'nosuch.py' does not exist.", ""),
    (["--agent", "err.py", "hi"], "err.py, line 1: ZeroDivisionError: division by zero", "python err.py"),
    (["run", "nosuch.txt", "hi"], "The agent file 'nosuch.txt' cannot be read: No such file", ""),
    (["run", "bot.txt"], "The question is missing.", 'agentkit "'),
    (["@nosuch.txt"], "The file 'nosuch.txt' cannot be read: No such file or directory.", "@@nosuch.txt"),
    (["@bot.tx"], "The file 'bot.tx' cannot be read: No such file or directory.", "Did you mean 'bot.txt'?"),
    (["@dir"], "The file 'dir' cannot be read: Is a directory.", "@@dir"),
    (["sessions", "prune", "--older-than", "3"], "--older-than takes a number of hours, days or weeks", "Got '3'."),
    (["sessions", "show", "nosuch"], "No session is named 'nosuch'.", "agentkit sessions list"),
    (["show", "x.csv"], "x.csv is not a cassette", "agentkit sessions export"),
    (["replay", "nosuch"], "The cassette nosuch does not exist.", "agentkit --record FILE"),
    (["undo", "nosuch"], "The journal has no run 'nosuch'.", "agentkit undo --list"),
    (["approvals", "revoke"], "Name ids, or use --all.", "agentkit approvals"),
    (["keys", "set", "opnai"], "No provider with a key is named 'opnai'.", "Did you mean 'openai'?"),
    (["keys", "remove", "openai"], "No key of 'openai' is stored.", "agentkit keys list"),
    (["config", "set", "modle", "x"], "No setting is named 'modle'.", "Did you mean 'model'?"),
    (["config", "set", "safety", "high"], "safety was not set: 'high' is not a safety level.", "SAFE"),
    (["config", "unset", "nothere"], "No setting is named 'nothere'.", "Known: model, "),
    (["tools", "run", "read_file", "../x"], "'../x' is outside the workspace.", "cd FOLDER"),
    (["tools", "run", "fetch_url", "http://127.0.0.1/"], "127.0.0.1 is this machine itself.", "allow it in a program"),
    (["config", "trust"], "This folder has no project file", "agentkit init --project"),
    (["models", "list", "opnai"], "No provider is named 'opnai'.", "Did you mean 'openai'?"),
    (["models", "openay:x"], "Unknown provider 'openay'", "Did you mean 'openai'?"),
    (["eval", "run", "nosuch.py"], "The file 'nosuch.py' does not exist.", ""),
    (
        ["eval", "run", "x.csv", "--threshold", "3"],
        "Invalid value for '--threshold': It takes a number from 0 to 1.",
        "",
    ),
    (["optimize", "nosuch.py"], "The file 'nosuch.py' does not exist.", "Name a suite"),
    (["optimize", "x.csv"], "The search has no limit.", "--budget DOLLARS"),
    (["manifest", "tools.py"], "There is no Agent in tools.py.", "Agent(...)"),
    (["mcp", "tools"], "Name a server, or a file that lists some", "--config mcp.json"),
    (["acp"], "An editor starts this command, and standard input is not connected", "agentkit acp --help"),
    (["serve", "--host", "0.0.0.0"], "--host 0.0.0.0 accepts connections from other machines.", "AGENTKIT_TOKEN"),
    (["knowledge", "embed", "ollama:x"], "'knowledge.db' contains no knowledge.", "agentkit knowledge add FILE"),
    (["-m", "nosuch:x", "hi"], "Unknown provider 'nosuch'", "AGENTKIT_BASE_URL=URL"),
    (["-m", "openai", "hi"], "'openai' is a provider, not a model.", "Use -m openai:MODEL"),
    (
        ["-m", "groq:x", "hi"],
        "No API key found: groq API key required.",
        "Set GROQ_API_KEY, or store it: agentkit keys set PROVIDER",
    ),
    (["--offline", "--reasoning", "extreme", "hi"], "--reasoning takes one of none, minimal,", "Got 'extreme'."),
    (
        ["sessions", "import", "bad.json"],
        "'bad.json' is not an exported session.",
        "agentkit sessions export NAME FILE",
    ),
    (["keys", "set", "openai"], "No key was given.", "agentkit keys set openai"),
    (["config", "set", "optionz.x", "1"], "No setting is named 'optionz.x'.", "options.NAME"),
    (["chat", "--session"], "Option '--session' requires an argument.", "agentkit chat --help"),
    (["--session"], "Option '--session' requires an argument.", "agentkit ask --help"),
    (["tools", "run", "run_shell", "command= "], "The command is empty.", "Pass a command."),
]


def test_wrong_inputs(subtests, typed_line, tmp_path):
    """Each invalid input fails with an error on the first line and a remedy."""
    (tmp_path / "dir").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for arguments, what, remedy in ROWS:
        with subtests.test(arguments=arguments):
            out, err, code = typed_line(*arguments)
            first, _, rest = err.partition("\n")
            assert (out, code in (1, 2, 4)) == ("", True)
            assert first.startswith(f"Error: {what}")
            assert remedy in f"{first}\n{rest}"
            assert "Traceback" not in err


def test_missing_key_suggests_commands(typed_line):
    """Without a key, the question, `models` and `doctor` suggest `agentkit keys set`."""
    for words in (["hi"], ["models"], ["doctor"]):
        out, err, _ = typed_line(*words)
        shown = " ".join(f"{out}{err}".split())
        assert "Store one (agentkit keys set openai) or set OPENAI_API_KEY. Without a key: a local server" in shown
        assert "AGENTKIT_PROVIDER=offline" not in shown
