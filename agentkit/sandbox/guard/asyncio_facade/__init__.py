"""A facade for `asyncio` without threads, sockets or files."""
