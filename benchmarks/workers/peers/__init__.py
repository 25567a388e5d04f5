"""How do other libraries do the same? Each adapter writes what the library's own documentation recommends."""
