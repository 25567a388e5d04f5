"""Model providers: OpenAI and compatible services, Azure, the offline model, models in GGUF files."""
