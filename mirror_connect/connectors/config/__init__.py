"""Settings: tables, types, validation, secrets."""
