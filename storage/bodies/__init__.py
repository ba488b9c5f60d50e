"""Large bodies: files of their own."""
