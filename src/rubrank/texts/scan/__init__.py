"""Units of many texts counted at once by compiled code."""
