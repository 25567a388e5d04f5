"""Tool calls and typed answers as text, for models without native support."""
