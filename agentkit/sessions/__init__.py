"""Sessions: conversations that persist, recordings and transcripts."""
