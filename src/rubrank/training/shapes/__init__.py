"""How trainers ask for rewards: a flat batch (`flat_batch.py`), or one sample at a time (`barrier.py`)."""
