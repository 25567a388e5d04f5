"""How does an agent answer the clients of OpenAI? Each request is a conversation of its own."""
