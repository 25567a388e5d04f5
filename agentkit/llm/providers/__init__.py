"""Model providers: OpenAI and compatible services, Azure, the offline model."""
