"""Where are passages kept? In one file, or in a database of a server."""
