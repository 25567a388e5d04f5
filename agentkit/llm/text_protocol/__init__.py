"""How is a server asked that takes no tools, or no schema? In text: calls are `<TOOL: NAME>input</TOOL>`."""
