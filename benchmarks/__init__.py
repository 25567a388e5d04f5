"""What does agentkit cost next to the wire, and next to its peers?"""
