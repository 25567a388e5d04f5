"""The policy engine: rules, approvals, data flow, and judgement of paths, URLs and shell commands."""
