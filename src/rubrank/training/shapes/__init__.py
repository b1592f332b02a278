"""Three shapes of trainers: one group, a flat batch, one sample at a time."""
