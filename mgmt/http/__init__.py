"""HTTP below the API: listeners, limits on bodies and readers, JSON."""
