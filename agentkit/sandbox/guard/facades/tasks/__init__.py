"""What stands for `asyncio`: coroutines of the program, and a loop that runs them."""
