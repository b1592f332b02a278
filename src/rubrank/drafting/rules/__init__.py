"""Rules for English prompts, one module per subject."""
