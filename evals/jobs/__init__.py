"""Jobs as a user of Leadline runs them: real `torchrun`, the agent and the server with their default settings."""
