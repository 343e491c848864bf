"""Pages of HTML that need nothing beside themselves, for tools to show what they found."""
