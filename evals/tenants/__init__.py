"""Three tenants in one cluster: what one can read of another, and what he can make the server say of him."""
