"""Root cause: symptoms of one cause as one incident, with ranked causes, their evidence and what to do."""
