"""Tests for `agentkit models`: the selected model, prices, and fallbacks."""

import json


def test_models_describes_the_selected_model(typed_line, monkeypatch):
    """`models` shows the model, its provider, price and window, and ignored variables, but no key."""
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1")
    run = typed_line
    assert run("models")[2] == 0
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-shown")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com")
    out = run("models")[0]
    assert "provider     openai (decided by OPENAI_API_KEY)" in out
    assert "price        ≈ US dollars per million tokens: 0.75 in, " in out
    assert " tokens\n" in out
    assert "ignored      AZURE_OPENAI_ENDPOINT" in out
    assert "✓ openai      OPENAI_API_KEY is set" in out
    assert "- azure       AZURE_OPENAI_API_KEY not set" in out
    assert "✓ groq        GROQ_API_KEY is set" in out
    assert "? ollama      no key needed; if it runs at http://127.0.0.1:11434/v1" in out
    assert "sk-not-shown" not in out


def test_models_without_a_provider(typed_line, monkeypatch):
    """Without a key, `models` lists the providers and what each needs; naming a model is an error."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    out, _, code = typed_line("models")
    assert (code, "No API key found." in out, "- openai" in out) == (0, True, True)
    _, err, code = typed_line("models", "groq:llama")
    assert (code, "GROQ_API_KEY" in err) == (2, True)


def test_models_describes_named_models(typed_line, monkeypatch):
    """`models NAME...` describes each named model; an unknown price is "unknown" and not 0."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT", "mine")
    out = typed_line("models", "ollama:qwen3", "mine")[0]
    assert "price        unknown; with --limit cost=" in out
    assert "window       unknown" in out
    assert "api version  2024-02-01" in out
    assert "✓" not in out
    (about, _) = json.loads(typed_line("models", "--json", "ollama:qwen3", "mine")[0])["models"]
    assert (about["model"], about["price"], about["window_tokens"]) == ("qwen3", None, None)


def test_prices_have_a_unit_and_a_source(typed_line, monkeypatch):
    """A price has a unit and a source; higher prices for long requests are mentioned."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    out = typed_line("models", "gemini:gemini-2.5-pro", "gpt-5.4-mini")[0]
    assert "more for long requests (genai-prices " in out
    document = json.loads(typed_line("models", "--json")[0])
    assert document["models"][0]["price"]["unit"] == "US dollars per million tokens"
    assert {each["name"] for each in document["providers"]} >= {"openai", "azure", "groq", "offline"}


def test_fallbacks_are_described(typed_line, monkeypatch):
    """Fallback models are described in order, below the first model."""
    monkeypatch.setenv("AGENTKIT_MODEL", "ollama:qwen3 | lmstudio:gemma | offline")
    blocks = typed_line("models")[0].split("\n\n")
    assert [block.splitlines()[0].split()[-1] for block in blocks[:3]] == ["qwen3", "gemma", "needle3"]
    assert "fallback     lmstudio:gemma at http://127.0.0.1:1234/v1\nfallback     offline:needle3 at" in blocks[0]
    document = json.loads(typed_line("models", "--json", "vllm:a | ollama:b")[0])
    assert [about["model"] for about in document["models"]] == ["a", "b"]
    assert document["models"][0]["fallbacks"][0]["provider"] == "ollama"
