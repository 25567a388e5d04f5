"""Which servers does a file list? As Claude, Cursor and VS Code write it, under `mcpServers` or `servers`."""
