"""Judging through the batch API of a provider (`/files` and `/batches`): half the price, an answer within a day."""
