"""Tools: definition, schemas, arguments, execution and results."""
