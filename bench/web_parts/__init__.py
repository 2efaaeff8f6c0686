"""Parts of what the page costs and how it looks: answers, an entity, looks, search."""
