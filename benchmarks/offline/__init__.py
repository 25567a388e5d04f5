"""How good is the offline model? Its questions, and who judges the answers."""
