"""Models in GGUF files, run on this machine by llama.cpp."""
