"""The Responses protocol of OpenAI and Azure, and of servers that took it over."""
