"""How often does an injected order reach its goal when the model obeys every one? Tasks and attacks are AgentDojo's."""
