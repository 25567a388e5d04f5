"""Which syntax is the guard's language? What is not listed is refused."""
