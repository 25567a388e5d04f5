"""How do models use tools that cannot call tools? Calls are written as text: `<TOOL: NAME>input</TOOL>`."""
